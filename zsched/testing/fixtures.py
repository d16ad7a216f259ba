"""
The pytest fixture. A project's topmost conftest.py loads it::

    pytest_plugins = ["zsched.testing.fixtures"]

It is no entry point of pytest: that would be loaded into every test run of every environment that has zsched.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from zsched.testing.scheduler import ManualScheduler


@pytest.fixture
def scheduler() -> Iterator[ManualScheduler]:
    """A scheduler on a fakeredis of its own, whose clock stands at 2026-01-01T00:00Z until the test turns it."""
    with ManualScheduler() as scheduler:
        yield scheduler
