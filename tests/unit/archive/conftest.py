"""An archive, and the path of its file."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from zsched.archive import Archive


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive.db"


@pytest.fixture
def archive(path: Path) -> Iterator[Archive]:
    with closing(Archive(path, "default")) as archive:
        yield archive
