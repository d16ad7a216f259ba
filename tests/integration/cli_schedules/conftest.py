"""The command line on an empty Redis, and on one with some schedules."""

import pytest

from tests.builders.command_line import FUNC, LATER, Zsched


@pytest.fixture
def zsched(redis_url: str) -> Zsched:
    return Zsched(redis_url, ZSCHED_RQ_SERIALIZER="json")


@pytest.fixture
def some(zsched: Zsched) -> Zsched:
    """Four schedules: three active and one paused."""
    zsched("add", "party", FUNC, *LATER, "--queue", "email", "--tag", "fun")
    zsched("add", "beat", FUNC, "--every", "90s")
    zsched("add", "digest", "app.digest", "--cron", "0 9 * * 1-5", "--priority", "low", "--queue", "email")
    zsched("add", "stopped", FUNC, "--after", "5m")
    zsched("pause", "stopped", "--note", "a pause")
    return zsched
