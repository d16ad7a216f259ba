"""``AsyncClient``: the face of ``Client``, cancelled calls, an event loop that goes on, and its connections."""

import asyncio
import contextlib
import inspect
import random
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.breadth import everything
from tests.integration.aio.turns import Turns, turn
from tests.integration.client.calls import KEYS, SOON
from tests.ledger import queued
from tests.waiting import WITHIN_S, eventually
from zsched import AsyncClient, Client, InvalidSchedule, ScheduleNotFound
from zsched.client import preview
from zsched.embedded import EmbeddedRedis
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.log import Log

pytestmark = pytest.mark.anyio
CANCELLATIONS = 10_000 if everything() else 2_000
AT_ONCE = 20


def public(of: type) -> dict[str, Any]:
    return {name: getattr(of, name) for name in dir(of) if not name.startswith("_")}


def test_the_asynchronous_client_has_the_methods_and_signatures_of_client() -> None:
    blocking, asynchronous = public(Client), public(AsyncClient)
    rewritten = {"from_url", "acting_as", "schedule_many", "log", "follow_log"}

    assert blocking.keys() | {"aclose"} == asynchronous.keys()
    for name in blocking.keys() - rewritten - {"by"}:
        assert inspect.signature(blocking[name]) == inspect.signature(asynchronous[name]), name
        assert blocking[name] is inspect.unwrap(asynchronous[name]), name  # nothing is written twice
    for name in rewritten:
        kept = set(inspect.signature(asynchronous[name]).parameters) - {"max_calls"}
        assert set(inspect.signature(blocking[name]).parameters) == kept


async def test_rows_and_callbacks_may_be_asynchronous(redis_url: str) -> None:
    seen = list[int]()

    async def rows() -> AsyncIterator[Any]:
        for number in range(250):
            await turn()
            yield {"func": "app.task", "id": f"r{number}", "at": SOON}

    async def note(done: int) -> None:
        await turn()
        seen.append(done)

    async def agree(plan: Any) -> bool:
        await turn()
        return plan.found == 250

    async with AsyncClient.from_url(redis_url) as client:
        many = await client.schedule_many(rows(), note)
        cancelled = await client.cancel_many(match="r*", confirm=agree)

    assert (250, 250) == (many.created, seen[-1])
    assert 250 == cancelled.done


async def test_errors_are_those_of_client(redis_url: str) -> None:
    async with AsyncClient.from_url(redis_url) as client:
        with pytest.raises(ScheduleNotFound, match="'nobody'"):
            await client.get("nobody")
        with pytest.raises(InvalidSchedule, match=r"^queue="):
            await client.schedule("app.task", after=5, queue="a\nb")
        with pytest.raises(InvalidSchedule, match=r"^state="):
            client.list(state="gone")


async def test_a_listing_that_is_left_early_leaves_no_reply_behind(redis_url: str) -> None:
    async with AsyncClient.from_url(redis_url) as client:
        await client.schedule_many({"func": "app.task", "id": f"r{n:04}", "at": SOON} for n in range(1500))

        async for schedule in client.list(match="r*"):
            assert "r0000" == schedule.id
            break

        assert "r0007" == (await client.get("r0007")).id


async def test_a_call_never_reads_the_reply_of_a_cancelled_one(redis_url: str) -> None:
    chosen, wrong, ended = random.Random(5), list[tuple[str, str]](), {"whole": 0, "cancelled": 0}
    async with AsyncClient.from_url(redis_url, max_calls=AT_ONCE) as client:
        await client.schedule_many({"func": "app.task", "id": f"s{n}", "at": SOON} for n in range(100))

        async def ask(id: str) -> None:
            found = (await client.get(id)).id
            if found != id:
                wrong.append((id, found))

        async def ask_and_cancel() -> None:
            while ended["cancelled"] < CANCELLATIONS or ended["whole"] <= 100:
                task = asyncio.create_task(ask(f"s{chosen.randrange(100)}"))
                asyncio.get_running_loop().call_later(chosen.expovariate(100), task.cancel)
                await asyncio.wait([task])
                ended["cancelled" if task.cancelled() else "whole"] += 1

        await asyncio.gather(*(ask_and_cancel() for _ in range(AT_ONCE)))
        after = await asyncio.gather(*(client.get(f"s{n}") for n in range(100)))

    assert [] == wrong
    assert [f"s{n}" for n in range(100)] == [one.id for one in after]


async def test_a_cancelled_put_repeated_by_its_id_happens_once(redis_url: str, redis_client: redis.Redis) -> None:
    chosen = random.Random(7)
    async with AsyncClient.from_url(redis_url) as client:
        for number in range(300):
            call = client._schedule_as(f"op-{number}", "app.task", after=3600)
            task = asyncio.create_task(call)
            asyncio.get_running_loop().call_later(chosen.random() * 0.002, task.cancel)
            await asyncio.wait([task])
            await client._schedule_as(f"op-{number}", "app.task", after=3600)

    assert 300 == redis_client.zcard(KEYS.due_normal())


async def test_a_call_that_is_cancelled_while_it_connects_leaves_a_usable_client(redis_server: EmbeddedRedis) -> None:
    for url in (redis_server.url, redis_server.tcp_url):
        async with AsyncClient.from_url(url) as client:
            tasks = [asyncio.create_task(client.get("a")) for _ in range(AT_ONCE)]
            await turn()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

            assert [] == [one async for one in client.list(match="nobody")]


@contextlib.asynccontextmanager
async def server_in_the_loop(server: EmbeddedRedis, folder: Path) -> AsyncIterator[str]:
    """A way to *server* through the event loop of the test: who waits there without it gets no reply."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while data := await reader.read(65_536):
                writer.write(data)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        replies, requests = await asyncio.open_unix_connection(server.url.removeprefix("unix://").partition("?")[0])
        await asyncio.gather(forward(reader, requests), forward(replies, writer))

    async with await asyncio.start_unix_server(pass_on, folder / "in-the-loop"):
        yield f"unix://{folder}/in-the-loop"


async def test_the_loop_continues_while_a_call_waits_for_a_reply(
    redis_server: EmbeddedRedis, redis_client: redis.Redis, tmp_path: Path
) -> None:
    async with server_in_the_loop(redis_server, tmp_path) as url, AsyncClient.from_url(url) as client:
        made = await client.schedule("app.task", id="a", at=SOON)
        many = await client.schedule_many({"func": "app.task", "id": f"r{n}", "at": SOON} for n in range(3_000))

        assert ("created", 3_000) == (made.outcome, many.created)
        assert 3_001 == len([one.id async for one in client.list()])


async def test_the_loop_continues_while_a_call_waits_for_an_archive(redis_url: str, link: Link) -> None:
    archivers, log = Archivers(link, KEYS), Log(link, KEYS)
    archivers.report("slow", None, ArchiveState.FOLLOWING, {})
    async with AsyncClient.from_url(redis_url, durable_timeout_s=WITHIN_S) as client:
        call = asyncio.create_task(client.schedule("app.task", id="a", at=SOON, durable=True))
        while (last := log.last()) is None:
            await turn()
        archivers.report("slow", last.position, ArchiveState.FOLLOWING, {})

        assert "created" == (await call).outcome


async def test_the_loop_continues_during_long_calculations(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, calculate = threading.Event(), preview.occurrences

    def calculate_while_the_loop_goes_on(*arguments: Any) -> Any:
        assert goes_on.wait(WITHIN_S)
        return calculate(*arguments)

    monkeypatch.setattr(preview, "occurrences", calculate_while_the_loop_goes_on)
    async with AsyncClient.from_url(redis_url) as client:
        call = asyncio.create_task(client.preview(cron="*/5 * * * *", tz="Europe/Berlin", n=10))
        await turn()
        goes_on.set()

        assert 10 == len(await call)


async def test_the_loop_continues_during_a_bulk_insert(redis_url: str) -> None:
    async with AsyncClient.from_url(redis_url) as client, Turns() as turns:
        await client.schedule_many({"func": "app.task", "at": SOON, "args": (n,)} for n in range(20_000))
    assert turns.number > 20


async def test_calls_beyond_max_calls_wait_and_closed_connections_are_not_used_again(
    redis_url: str, redis_client: redis.Redis
) -> None:
    async with AsyncClient.from_url(redis_url, max_calls=3) as client:
        before = len(redis_client.client_list())
        made = await asyncio.gather(*(client.enqueue("app.task") for _ in range(60)))

        assert 3 >= len(redis_client.client_list()) - before
        assert sorted(one.run_id or "" for one in made) == sorted(queued(redis_client))

    async with AsyncClient.from_url(redis_url) as client:
        await asyncio.gather(*(client.enqueue("app.task") for _ in range(20)))
        redis_client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

        made = await asyncio.gather(*(client.enqueue("app.task") for _ in range(20)))

        assert 20 == len({one.run_id for one in made})


async def test_aclose_closes_all_connections(redis_url: str, redis_client: redis.Redis) -> None:
    before = {each["id"] for each in redis_client.client_list()}
    client = AsyncClient.from_url(redis_url)
    await asyncio.gather(*(client.enqueue("app.task") for _ in range(10)))

    await client.aclose()

    eventually(lambda: before.issuperset(each["id"] for each in redis_client.client_list()))  # older ones may end


def test_a_client_is_used_in_one_loop_after_another_and_never_without(redis_url: str) -> None:
    client = AsyncClient.from_url(redis_url)

    with pytest.raises(RuntimeError, match="await one of these"):
        client._client.get("a")

    client = AsyncClient.from_url(redis_url, max_calls=2)

    async def use() -> list[str | None]:
        return [one.run_id for one in await asyncio.gather(*(client.enqueue("app.task") for _ in range(20)))]

    runs = [run for _ in range(3) for run in asyncio.run(use())]

    assert 60 == len(set(runs))
    asyncio.run(client.aclose())
