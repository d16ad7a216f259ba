"""Server-sent events: resumed without a loss or a repetition, reset after a loss, ended with their token."""

import asyncio
import json
import random
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import httpx
import pytest
import redis

from tests.builders.web import Web
from tests.integration.web.raw import connected, head, read_until
from zsched import AsyncClient, Client
from zsched.aio.link import AsyncLink
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.web.events import Events, with_beats

CUTS = 100
STREAMS = 1000
WAITING = 1600  # more than a stream sends in one piece
FEW = 256  # descriptors


class Event(NamedTuple):
    id: str
    kind: str
    data: dict[str, Any]


@contextmanager
def streaming(client: httpx.Client, after: str | None = None) -> Iterator[Iterator[Event]]:
    """Open a stream; it is subscribed when this returns."""
    headers = {} if after is None else {"Last-Event-ID": after}
    with client.stream("GET", "/events", headers=headers) as response:
        assert 200 == response.status_code, response.read()
        lines = response.iter_lines()
        assert next(lines).startswith(":")
        yield _events(lines)


def _events(lines: Iterator[str]) -> Iterator[Event]:
    fields = dict[str, str]()
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields and not line:
            if "data" in fields:
                yield Event(fields.get("id", ""), fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}


def put(client: Client, *ids: str) -> None:
    for id in ids:
        client.schedule("app.x", id=id, after=3600)


def of(events: Iterator[Event], id: str) -> Event:
    """Return the next event of schedule *id*. The reader may be behind, so earlier ones may come first."""
    return next(event for event in events if event.kind == "message" and changed(event) == [id])


def changed(event: Event) -> list[str]:
    return [change["id"] for change in event.data["changes"]]


@pytest.fixture
def http(web: Web, redis_url: str) -> Iterator[httpx.Client]:
    """A client of a server that has seen that the test before left an empty Redis."""
    with web.client() as client:
        with streaming(client) as events:
            put(Client.from_url(redis_url), "present")
            while next(events).kind != "message":
                pass
        yield client


def test_a_stream_has_each_change_as_it_comes(http: httpx.Client, redis_url: str) -> None:
    client = Client.from_url(redis_url)
    put(client, "before")
    with streaming(http) as events:
        put(client, "a")
        first = of(events, "a")
        client.pause("a")
        second = of(events, "a")

    assert (["a"], ["a"]) == (changed(first), changed(second))
    assert ("put", "pause") == (first.data["kind"], second.data["kind"])
    assert [first.data["entry"], second.data["entry"]] == [each.id.rpartition("-")[0] for each in (first, second)]


def test_a_silent_stream_has_a_beat(http: httpx.Client) -> None:
    with streaming(http) as events:
        beat = next(event for event in events if event.kind != "message")

    assert ("beat", {}) == (beat.kind, beat.data)


def test_a_consumer_that_is_cut_off_again_and_again_gets_each_event_once(http: httpx.Client, redis_url: str) -> None:
    chosen, seen, last = random.Random(3), list[str](), ""
    client, is_over = Client.from_url(redis_url), threading.Event()
    put(client, "first")
    with streaming(http) as events:
        put(client, "p-0")
        event = of(events, "p-0")
        seen, last = [*seen, *changed(event)], event.id

    def write() -> None:
        for number in range(1, 2000):
            put(client, f"p-{number}")
            if is_over.is_set() and number % 10 == 0:
                break
        put(client, "end")

    writer = threading.Thread(target=write)
    writer.start()
    cuts = 0
    while seen[-1] != "end":
        with streaming(http, last) as events:
            for event in (each for each in events if each.kind != "beat"):
                assert "message" == event.kind
                seen, last = [*seen, *changed(event)], event.id
                if seen[-1] == "end" or (cuts < CUTS and chosen.random() < 0.1):
                    break
        cuts += 1
        if cuts >= CUTS:
            is_over.set()
    writer.join()

    assert cuts >= CUTS
    assert [f"p-{number}" for number in range(len(seen) - 1)] == seen[:-1]


def test_a_position_that_the_log_does_not_hold_is_reset(http: httpx.Client, redis_url: str) -> None:
    client = Client.from_url(redis_url)
    put(client, "a")
    for after in ("0-1-5", "7-1-1795650943297123"):
        with streaming(http, after) as events:
            assert "reset" == next(events).kind
            put(client, "b")
            client.cancel("b")
            told = [of(events, "b") for _ in range(2)]
            assert ["put", "cancel"] == [event.data["kind"] for event in told]


def test_a_stream_is_reset_after_a_flush_and_continues(
    http: httpx.Client, web: Web, redis_url: str, redis_client: redis.Redis
) -> None:
    client = Client.from_url(redis_url)
    put(client, "a", "b", "c")
    with streaming(http) as events:
        put(client, "d")
        last = of(events, "d").id
        redis_client.flushall()
        put(client, "e")
        assert "reset" == next(event.kind for event in events if event.kind != "beat")
        assert "put" == of(events, "e").data["kind"]
    with streaming(http, last) as events:
        assert "reset" == next(events).kind


def test_a_stream_that_had_no_event_is_resumed_from_its_beginning(http: httpx.Client, redis_url: str) -> None:
    with http.stream("GET", "/events") as response:
        lines = response.iter_lines()
        greeting = [next(lines), next(lines), next(lines)]
    put(Client.from_url(redis_url), "meanwhile")
    with streaming(http, greeting[1].removeprefix("id: ")) as events:
        first = next(events)

    assert [": events of zsched", ""] == greeting[::2]
    assert ("message", ["meanwhile"]) == (first.kind, changed(first))


@pytest.mark.parametrize("after", ["", "1-2", "a-b-c", "1-2-3-4", "9" * 40 + "-1-1"])
def test_a_malformed_position_is_refused(http: httpx.Client, after: str) -> None:
    answer = http.get("/events", headers={"Last-Event-ID": after})

    assert (422, "Last-Event-ID") == (answer.status_code, answer.json()["option"])


def test_a_stream_ends_with_its_token_and_a_limited_token_has_none(web: Web) -> None:
    with web.client("eve", "viewer") as client, streaming(client) as events:
        web.zsched.json("tokens", "revoke", "eve")
        assert {"beat"} >= {event.kind for event in events}
    assert "Traceback" not in web.log.read_text()

    with web.client("shop", "viewer", queues=("mail",)) as client:
        assert [403, 403] == [client.get(path).status_code for path in ("/events", "/log")]


def test_many_streams_share_one_reader(http: httpx.Client, redis_url: str, redis_client: redis.Redis) -> None:
    client = Client.from_url(redis_url)
    open, found = [streaming(http) for _ in range(60)], list[list[str]]()
    started = [each.__enter__() for each in open]
    before = len(redis_client.client_list())
    put(client, "a")
    found = [changed(of(events, "a")) for events in started]
    for each in open:
        each.__exit__(None, None, None)

    assert [["a"]] * 60 == found
    assert len(redis_client.client_list()) - before < 10


def test_the_log_tells_what_changed_without_arguments(http: httpx.Client, redis_url: str) -> None:
    Client.from_url(redis_url).schedule("app.x", id="a", after=60, args=("secret",))

    answer = http.get("/log", params={"limit": 5})

    assert (["a"], True) == (
        [change["id"] for change in answer.json()["entries"][-1]["changes"]],
        "secret" not in answer.text,
    )


@pytest.fixture
def few_descriptors() -> Iterator[Callable[[], None]]:
    """Give the next process few descriptors, which it may raise; then this process gets many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * STREAMS + FEW:
        pytest.skip(f"this process may open only {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, hard))
    yield lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_streams_get_each_event_and_delay_no_put(
    few_descriptors: Callable[[], None], start_web: Callable[..., Web], redis_url: str, redis_client: redis.Redis
) -> None:
    web = start_web()
    few_descriptors()
    secret = web.token("eve", "viewer")
    with ExitStack() as open, web.client() as other:
        streams = [open.enter_context(connected(web)) for _ in range(STREAMS)]
        for one in streams:
            one.sendall(head("GET", "/events", secret))
        for one in streams:
            read_until(one, b": events")
        put = other.put("/schedules/a", json={"func": "app.x", "after": 60})
        for one in streams:
            read_until(one, b'"id": "a"')

        assert 201 == put.status_code
        assert len(redis_client.client_list()) < 40
        web.zsched.json("tokens", "revoke", "eve")
        for one in streams:
            read_until(one, b"0\r\n\r\n")  # the end of its chunks
    assert "Traceback" not in web.log.read_text()


def test_events_that_wait_are_not_sent_to_a_token_that_was_revoked(redis_url: str) -> None:
    writer = Client.from_url(redis_url)

    async def read() -> int:
        link, keys = AsyncLink.from_url(redis_url, 5), Keys("default")
        events, admitted, seen = Events(AsyncClient(link), Log(link, keys), ""), True, 0

        texts = events.stream(None)
        stream = with_beats(await anext(texts), texts, lambda: admitted, look_s=0)
        await anext(stream)
        for number in range(WAITING):
            writer.schedule("app.x", id=f"s{number}", after=60)
        async for _ in stream:
            seen, admitted = seen + 1, False
        await events.close()
        link.pool.disconnect()
        return seen

    assert 1 == asyncio.run(read())


def test_news_is_one_word_for_many_changes(redis_url: str) -> None:
    writer = Client.from_url(redis_url)

    async def read() -> list[bytes]:
        link, keys = AsyncLink.from_url(redis_url, 5), Keys("default")
        events = Events(AsyncClient(link), Log(link, keys), "")
        texts = events.news(calm_s=0)
        words = with_beats(await anext(texts), texts, lambda: True)
        told = [await anext(words)]
        for number in range(100):
            writer.schedule("app.x", id=f"s{number}", after=60)
        told += [await anext(words), await anext(words)]  # the second of what came late, or a beat
        await events.close()
        link.pool.disconnect()
        return told

    hello, first, second = asyncio.run(read())

    assert (b":", b"event: news\ndata: {}\n\n") == (hello[:1], first)
    assert second.startswith((b"event: beat", b"event: news"))
