"""The path of an archive, and a command line that cannot read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.processes import archive_of_its_own
from tests.integration.cli_history.ground import Zsched


@pytest.fixture
def path() -> Path:
    return Path(archive_of_its_own())


@pytest.fixture
def zsched(redis_url: str) -> Zsched:
    return Zsched(redis_url)
