"""The time limit of a read over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from zsched.web.deadline import Deadline

LIMIT_S = 0.02
PREFIX = "/api/v1"
App = Callable[..., Awaitable[None]]


async def until_the_limit() -> None:
    """Wait until after the limit of a request that began before."""
    is_after = asyncio.Event()
    asyncio.get_running_loop().call_later(2 * LIMIT_S, is_after.set)
    await is_after.wait()


async def slow(scope: Any, receive: Any, send: Any) -> None:
    await until_the_limit()
    await send({"type": "http.response.body", "body": b"later"})


async def stream(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await slow(scope, receive, send)


async def broken(scope: Any, receive: Any, send: Any) -> None:
    raise TimeoutError("of something else")


def answered(app: App, method: str = "GET", path: str = f"{PREFIX}/schedules") -> list[Any]:
    """Return the messages of the answer."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Deadline(app, PREFIX, LIMIT_S)({"type": "http", "method": method, "path": path}, None, send))
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
    assert b"later" == answered(slow, method, path)[-1]["body"]


def test_an_answer_that_has_begun_may_take_long() -> None:
    assert b"later" == answered(stream)[-1]["body"]


def test_the_timeout_of_something_else_stays_an_error() -> None:
    with pytest.raises(TimeoutError, match="of something else"):
        answered(broken)
