"""
HTTP servers of the benchmark, and callers that keep their connections open.

``python -m bench.web`` is the *empty route*: FastAPI on the server of ``zsched web``, with a route that reads a body
and answers an empty object.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import FastAPI

from bench.arena import Arena
from bench.children import CHECKOUT, end
from bench.results import Broken
from zsched.config.settings import Settings, WebSettings
from zsched.core.clock import SystemClock
from zsched.daemon.supervisor import Supervisor
from zsched.web.accounts import Account, AccountRole
from zsched.web.accounts_file import AccountsFile
from zsched.web.serving import bound, serve, url_of

PATH: Final = "/api/v1/schedules"
_EMPTY: Final = [sys.executable, "-m", "bench.web"]
_OURS: Final = [sys.executable, "-m", "zsched.cli", "web", "--listen", "127.0.0.1:0", "--json"]


@contextmanager
def web(arena: Arena, redis_url: str) -> Iterator[tuple[str, str]]:
    """``zsched web`` during the block: its URL, and an operator's token."""
    with TemporaryDirectory() as folder:
        accounts = Path(folder, "accounts.toml")
        secret = AccountsFile(accounts).add(Account("bench", AccountRole.OPERATOR))
        settings = {"ZSCHED_WEB_ACCOUNTS_FILE": str(accounts), "ZSCHED_RQ_ALLOW_CALLABLES": "app.tasks.*"}
        with _serving(arena, _OURS, ZSCHED_REDIS_URL=redis_url, **settings) as url:
            yield url, secret


@contextmanager
def empty_route(arena: Arena) -> Iterator[str]:
    """The empty route during the block: its URL."""
    with _serving(arena, _EMPTY) as url:
        yield url


@contextmanager
def _serving(arena: Arena, command: list[str], **settings: str) -> Iterator[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")} | settings
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHECKOUT), environment.get("PYTHONPATH"))))
    child = arena.guard.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    try:
        line = child.stdout.readline() if child.stdout else b""
        if not line:
            raise Broken(f"{' '.join(command[2:4])} did not start")
        yield json.loads(line)["url"]
    finally:
        end(child)


class Caller:
    """A connection that sends a request and waits for its answer; then the next."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: str) -> None:
        self._reader, self._writer, self._headers = reader, writer, headers

    async def call(self, method: str, path: str, body: bytes) -> bytes:
        """Return the body of the answer. Raises Broken: it is no success."""
        head = await self._begin(method, path, body, "application/json")
        return await self._reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))

    async def count_lines(self, method: str, path: str, body: bytes, word: bytes) -> int:
        """Send the lines in *body* while the answer is read, and count *word* in it. Raises Broken as ``call``."""
        await self._begin(method, path, body, "application/x-ndjson")
        found = 0
        while (size := int(await self._reader.readuntil(b"\r\n"), 16)) > 0:
            found += (await self._reader.readexactly(size + 2)).count(word)
        return found

    async def open_stream(self, path: str) -> asyncio.StreamReader:
        """Ask for a stream, and return its reader, behind the head. Raises Broken as ``call``."""
        await self._begin("GET", path)
        return self._reader

    async def _begin(self, method: str, path: str, body: bytes = b"", form: str = "text/plain") -> bytes:
        """Send a request with *body*, and return the head of its answer. Raises Broken: it is no success."""
        about = f"{self._headers}Content-Type: {form}\r\nContent-Length: {len(body)}"
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{about}\r\n\r\n".encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if head[9:11] != b"20":
            raise Broken(f"{method} {path}: {head[9:12].decode()} {(await self._reader.read(200)).decode()}")
        return head


@asynccontextmanager
async def callers(url: str, count: int, secret: str = "") -> AsyncIterator[list[Caller]]:
    """Return *count* connections to *url*."""
    place = urlsplit(url)
    headers = f"Host: {place.netloc}\r\nAuthorization: Bearer {secret}\r\n"
    pairs = [await asyncio.open_connection(place.hostname, place.port) for _ in range(count)]
    try:
        yield [Caller(*pair, headers) for pair in pairs]
    finally:
        for _, writer in pairs:
            writer.close()


async def flood(callers: list[Caller], count: int, call: Callable[[Caller, int], Awaitable[Any]]) -> None:
    """Make *count* calls, one after the other on each connection."""
    numbers = iter(range(count))

    async def work(caller: Caller) -> None:
        for number in numbers:
            await call(caller, number)

    await asyncio.gather(*map(work, callers))


async def pace(
    arena: Arena, callers: list[Caller], per_s: int, count: int, call: Callable[[Caller, int], Awaitable[Any]]
) -> list[float]:
    """
    Make *count* calls, *per_s* a second, evenly. Return the ms of each, from the moment when it was to be made.
    """
    free = asyncio.Queue[Caller]()
    for caller in callers:
        free.put_nowait(caller)
    first_ms, took = arena.clock.monotonic_ms(), list[float]()

    async def one(number: int) -> None:
        due_ms = first_ms + number * 1000 / per_s
        await asyncio.sleep(max(due_ms - arena.clock.monotonic_ms(), 0) / 1000)
        caller = await free.get()
        await call(caller, number)
        took.append(arena.clock.monotonic_ms() - due_ms)
        free.put_nowait(caller)

    await asyncio.gather(*map(one, range(count)))
    return took


def drive(
    arena: Arena, redis_url: str, per_s: int, streams: int, seconds: int, body: Any, begun: Callable[[], Any]
) -> None:
    """Put schedules over HTTP, *per_s* a second, and read *streams* of events, for *seconds*."""

    async def call(caller: Caller, number: int) -> None:
        await caller.call("PUT", f"{PATH}/beside-{number}", json.dumps(body).encode())

    async def run(url: str, secret: str) -> None:
        async with callers(url, streams, secret) as readers, callers(url, 16, secret) as writers:
            opened = [await reader.open_stream("/api/v1/events") for reader in readers]
            reading = [asyncio.create_task(drain(stream)) for stream in opened]
            begun()
            await pace(arena, writers, per_s, per_s * seconds, call)
            for task in reading:
                task.cancel()

    with web(arena, redis_url) as (url, secret):
        asyncio.run(run(url, secret))


async def drain(stream: asyncio.StreamReader) -> None:
    """Read a stream until its end."""
    while await stream.read(65_536):
        pass


def _serve_empty() -> None:
    app = FastAPI()

    @app.put(PATH + "/{id}")
    async def put(id: str, options: dict[str, Any]) -> dict[str, Any]:
        return {}

    settings = WebSettings(listen="127.0.0.1:0")
    listening = bound(Settings(web=settings))
    sys.stdout.write(json.dumps({"url": url_of(listening)}) + "\n")
    sys.stdout.flush()
    serve(app, listening, Supervisor(SystemClock()), settings.timeout_s)


if __name__ == "__main__":
    _serve_empty()
