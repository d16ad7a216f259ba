"""Results that all viewers of the console share, and the time limit of a read over HTTP."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from zsched.core.clock import ManualClock
from zsched.web.console import now as module
from zsched.web.console.now import Shared
from zsched.web.middleware import Deadline

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Counter:
    """Counts its reads; each waits until it may answer."""

    def __init__(self) -> None:
        self.reads, self.began, self.gate = 0, asyncio.Event(), asyncio.Event()

    async def read(self) -> int:
        self.reads += 1
        self.began.set()
        await self.gate.wait()
        return self.reads


async def test_a_viewer_who_does_not_wait_gets_the_result_of_the_reading_later() -> None:
    counter = Counter()
    shared = Shared(counter.read, 60, 60)

    assert -1 == await shared.in_time(0, -1)
    counter.gate.set()
    assert 1 == await shared.in_time(60, -1)


async def test_viewers_at_the_same_moment_share_one_read() -> None:
    counter = Counter()
    shared = Shared(counter.read, 60)
    viewers = [asyncio.ensure_future(shared.get()) for _ in range(20)]
    await counter.began.wait()
    counter.gate.set()

    assert [1] * 20 == await asyncio.gather(*viewers)
    assert 1 == await shared.get()


async def test_a_result_that_is_too_old_is_read_again() -> None:
    counter = Counter()
    counter.gate.set()
    shared = Shared(counter.read, 0)

    assert [1, 2] == [await shared.get(), await shared.get()]


async def test_an_error_is_not_kept() -> None:
    answers = iter([ValueError("no"), 7])

    async def read() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    shared = Shared(read, 60)
    with pytest.raises(ValueError, match="no"):
        await shared.get()

    assert 7 == await shared.get()


async def test_a_viewer_who_leaves_does_not_end_the_read_of_the_others() -> None:
    counter = Counter()
    shared = Shared(counter.read, 60)
    one, other = asyncio.ensure_future(shared.get()), asyncio.ensure_future(shared.get())
    await counter.began.wait()
    one.cancel()
    counter.gate.set()

    assert 1 == await other


@pytest.mark.parametrize(("ms", "reads"), [(1000, 1), (1001, 2)])
async def test_a_viewer_gets_no_read_that_began_too_long_ago(
    monkeypatch: pytest.MonkeyPatch, ms: int, reads: int
) -> None:
    clock, counter, asked = ManualClock(), Counter(), asyncio.Event()

    def now_s() -> float:
        asked.set()
        return clock.monotonic_ms() / 1000

    monkeypatch.setattr(module, "_now_s", now_s)
    shared = Shared(counter.read, 1)
    early = asyncio.ensure_future(shared.get())
    await counter.began.wait()
    clock.advance(ms)
    asked.clear()
    late = asyncio.ensure_future(shared.get())
    await asked.wait()
    reads_at_once = counter.reads
    counter.gate.set()

    assert (1, 1, reads) == (reads_at_once, await early, await late)


async def test_a_result_that_may_be_older_is_given_while_it_is_read_again() -> None:
    counter = Counter()
    counter.gate.set()
    shared = Shared(counter.read, 0, most_s=60)
    first = await shared.get()
    counter.gate.clear()
    counter.began.clear()

    at_once = [await shared.get() for _ in range(3)]
    await counter.began.wait()

    assert (1, [1, 1, 1], 2) == (first, at_once, counter.reads)


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
