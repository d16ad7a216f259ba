"""The time limit of a read over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from zsched.web.deadline import Deadline

SHORT_S = 0.02
PREFIX = "/api/v1"
App = Callable[..., Awaitable[None]]


async def slow(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.Event().wait()


async def stream(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3 * SHORT_S):
            await asyncio.Event().wait()
    await send({"type": "http.response.body", "body": b"later"})


async def broken(scope: Any, receive: Any, send: Any) -> None:
    raise TimeoutError("of something else")


def answered(app: App, method: str = "GET", path: str = f"{PREFIX}/schedules") -> list[Any]:
    """Return the messages of the answer; the test's own patience ends a request that nobody ends."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        async with asyncio.timeout(10 * SHORT_S):
            await Deadline(app, PREFIX, SHORT_S)({"type": "http", "method": method, "path": path}, None, send)

    asyncio.run(run())
    return sent


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_read_that_does_not_answer_ends_with_the_remedy(method: str) -> None:
    start, body = answered(slow, method)

    problem = json.loads(body["body"])
    assert (503, "urn:zsched:error:too-long") == (start["status"], problem["type"])
    assert problem["remedy"]


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", f"{PREFIX}/schedules/a"), ("POST", f"{PREFIX}/x"), ("GET", "/rq/")]
)
def test_a_change_and_another_page_have_no_limit_here(method: str, path: str) -> None:
    with pytest.raises(TimeoutError):
        answered(slow, method, path)


def test_an_answer_that_has_begun_may_take_long() -> None:
    assert b"later" == answered(stream)[-1]["body"]


def test_the_timeout_of_something_else_stays_an_error() -> None:
    with pytest.raises(TimeoutError, match="of something else"):
        answered(broken)
