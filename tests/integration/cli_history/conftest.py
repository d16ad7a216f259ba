"""The path of an archive, and a command line that cannot read it."""

from pathlib import Path

import pytest

from tests.builders.command_line import Zsched
from tests.builders.daemons import archive_of_its_own
from tests.integration.cli_history.answers import PATIENCE


@pytest.fixture
def path() -> Path:
    return Path(archive_of_its_own())


@pytest.fixture
def zsched(redis_url: str) -> Zsched:
    return Zsched(redis_url, ZSCHED_ARCHIVE_PATH="/nonexistent/archive.db", **PATIENCE)
