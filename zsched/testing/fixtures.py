"""
The pytest fixture. A project's topmost conftest.py loads it::

    pytest_plugins = ["zsched.testing.fixtures"]

It is not an entry point of pytest, which would be loaded into every test run of every environment with zsched.
"""

from collections.abc import Iterator

import pytest

from zsched.testing.scheduler import ManualScheduler


@pytest.fixture
def scheduler() -> Iterator[ManualScheduler]:
    """Give a scheduler on a new fakeredis. Its clock is frozen at 2026-01-01T00:00Z until the test advances it."""
    with ManualScheduler() as scheduler:
        yield scheduler
