"""A running ``zsched web`` for the tests of a file, on an empty Redis for each; a client with an operator's token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.web.ground import Web
from zsched.embedded.guard import Guard


@pytest.fixture
def http(web: Web) -> Iterator[httpx.Client]:
    with web.client() as client:
        yield client


@pytest.fixture
def browser(web: Web) -> Iterator[httpx.Client]:
    """A browser of Ann, an operator, who has logged in."""
    with web.browser() as client:
        yield client


@pytest.fixture
def stranger(web: Web) -> Iterator[httpx.Client]:
    """A browser without a login; there is a person Ann."""
    web.person("ann")
    with web.stranger() as client:
        yield client


@pytest.fixture
def start_web(guard: Guard, redis_url: str, tmp_path: Path) -> Any:
    """Start another server, with settings of its own."""
    return lambda **settings: Web(guard, redis_url, tmp_path, **settings)
