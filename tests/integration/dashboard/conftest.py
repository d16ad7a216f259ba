"""A browser at ``/rq`` of a running ``zsched web`` that has logged in."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.integration.web.ground import Web


@pytest.fixture
def browser(web: Web) -> Iterator[httpx.Client]:
    with web.browser(sees_arguments=True, at="/rq") as client:
        yield client
