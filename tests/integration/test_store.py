"""Connections, streams of scripts and reading, on a real Redis."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from zsched import Client, RedisRefused, RedisUnavailable
from zsched.core.clock import to_ms
from zsched.core.options.choices import Priority
from zsched.core.runs.job import rq_time
from zsched.core.runs.run_id import RunId
from zsched.embedded import EmbeddedRedis
from zsched.storage import scripts
from zsched.storage.connection import Link, Wire
from zsched.storage.jobs import queue_keys
from zsched.storage.keys import Keys
from zsched.storage.reader import Reader
from zsched.storage.rqjob import Encoder
from zsched.storage.server import Server

KEYS = Keys("default")
FIELDS = ["description", "app.task", "origin", "default", "timeout", "180", "zs", "1"]


def _calls(count: int) -> Iterator[scripts.BulkCall]:
    """Yield puts of one row each, an hour from now."""
    due_ms = to_ms(datetime.now(UTC) + timedelta(hours=1))
    arguments = {
        "lane": "normal", "if_exists": "replace", "allow_past": 0, "op": "-", "enabled": "",
        "seen_version": "", "field_size": len(FIELDS),
    }  # fmt: skip
    for n in range(count):
        yield "put", [*FIELDS, f"i-{n:03}", due_ms, "data", "call"], arguments


def _words(replies: Iterator[list[Any]]) -> list[bytes]:
    return [reply[2] for reply in replies]


# -- streams of scripts -----------------------------------------------------------------------------------


def test_replies_of_a_stream_come_in_order(link: Link, redis_client: redis.Redis) -> None:
    assert [b"created"] * 50 == _words(scripts.stream(link, KEYS, ["put"], _calls(50)))

    entries = redis_client.xrange(KEYS.log())
    assert [f"i-{n:03}".encode() in str(fields).encode() for n, (_, fields) in enumerate(entries)] == [True] * 50


def test_a_stream_reads_only_a_little_ahead(link: Link) -> None:
    read: list[int] = []

    def source() -> Iterator[scripts.BulkCall]:
        for n, call in enumerate(_calls(50)):
            read.append(n)
            yield call

    replies = scripts.stream(link, KEYS, ["put"], source())
    for _ in range(3):
        next(replies)

    assert len(read) <= 6
    replies.close()  # type: ignore[attr-defined]
    assert link.execute("PING") == b"PONG"


def test_a_stream_continues_after_a_script_flush(link: Link, redis_client: redis.Redis) -> None:
    replies = scripts.stream(link, KEYS, ["put"], _calls(30))
    words = [next(replies)[2] for _ in range(10)]
    redis_client.script_flush()

    words += _words(replies)

    assert {b"created"} >= {word for word in words if word != b"unchanged"}
    assert (30, 30) == (len(words), redis_client.zcard(KEYS.due_normal()))


class FlushedFirst:
    """A wire that flushes the scripts before a script is called, *times* times."""

    def __init__(self, wire: Wire, flush: Callable[[], object], times: int) -> None:
        self._wire, self._flush, self._left = wire, flush, times

    def execute(self, *parts: Any) -> Any:
        if parts[0] == "EVALSHA" and self._left:
            self._left -= 1
            self._flush()
        return self._wire.execute(*parts)


def test_a_call_whose_script_is_flushed_again_and_again_is_answered(link: Link, redis_client: redis.Redis) -> None:
    [(name, rows, arguments)] = _calls(1)
    with link.wire() as wire:
        called = scripts.Scripts(FlushedFirst(wire, redis_client.script_flush, 3), KEYS)

        assert b"created" in called.call(name, rows=rows, **arguments)


def test_a_call_whose_script_is_flushed_each_time_is_refused_and_writes_nothing(
    link: Link, redis_client: redis.Redis
) -> None:
    [(name, rows, arguments)] = _calls(1)
    with link.wire() as wire, pytest.raises(RedisUnavailable, match="flushed at each of 10 attempts") as refused:
        scripts.Scripts(FlushedFirst(wire, redis_client.script_flush, 99), KEYS).call(name, rows=rows, **arguments)

    assert (False, []) == (refused.value.may_have_been_applied, redis_client.keys("*"))


def test_a_stream_whose_connection_is_killed_resends_unanswered_calls(link: Link, redis_client: redis.Redis) -> None:
    replies = scripts.stream(link, KEYS, ["put"], _calls(30))
    words = [next(replies)[2] for _ in range(10)]
    redis_client.client_kill_filter(_type="normal", skipme=True)

    words += _words(replies)

    assert (30, 30) == (len(words), redis_client.zcard(KEYS.due_normal()))


def test_a_stream_connects_again_after_a_node_that_no_longer_owns_its_slot(
    link: Link, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies, wire, refusals = scripts.stream(link, KEYS, ["put"], _calls(30)), link.wire, [1, 2]
    words = [next(replies)[2] for _ in range(10)]
    redis_client.client_kill_filter(_type="normal", skipme=True)

    @contextmanager
    def wire_to_the_owner() -> Iterator[Wire]:
        if refusals:
            raise RedisUnavailable(f"refusal {refusals.pop()}")
        with wire() as opened:
            yield opened

    monkeypatch.setattr(link, "wire", wire_to_the_owner)

    words += _words(replies)

    assert (30, 30) == (len(words), redis_client.zcard(KEYS.due_normal()))


def test_a_stream_that_loses_its_server_reports_may_have_been_applied() -> None:
    with EmbeddedRedis() as server:
        link = Link.from_url(server.url, 5.0)
        replies = scripts.stream(link, KEYS, ["put"], _calls(30))
        next(replies)
        server.kill()

        with pytest.raises(RedisUnavailable) as caught:
            list(replies)

        assert caught.value.may_have_been_applied


def test_a_stream_that_finds_no_server_reports_not_applied() -> None:
    link = Link.from_url("redis://127.0.0.1:1/0", 0.5)

    with pytest.raises(RedisUnavailable) as caught:
        list(scripts.stream(link, KEYS, ["put"], _calls(1)))
    assert not caught.value.may_have_been_applied


# -- one connection ---------------------------------------------------------------------------------------


def test_a_connection_to_a_read_only_server_is_closed(link: Link, redis_client: redis.Redis) -> None:
    wire = link.open()
    redis_client.replicaof("127.0.0.1", "1")
    try:
        with pytest.raises(RedisUnavailable, match="refuses writes: it is a replica"):
            wire.execute("SET", "a", "b")
        assert wire.is_broken
        assert "it is a replica: writes would be refused" == Server.of(link.open()).objection(False)
    finally:
        redis_client.replicaof("NO", "ONE")


def test_a_broken_wire_stays_broken(link: Link, redis_client: redis.Redis) -> None:
    wire = link.open()
    redis_client.client_kill_filter(_type="normal", skipme=True)

    with pytest.raises(RedisUnavailable) as caught:
        wire.execute("INCR", "a")
    assert caught.value.may_have_been_applied
    with pytest.raises(RedisUnavailable, match="is closed") as again:
        wire.execute("INCR", "a")
    assert not again.value.may_have_been_applied
    assert redis_client.get("a") is None


def test_a_link_replaces_a_broken_connection(link: Link, redis_client: redis.Redis) -> None:
    assert 1 == link.execute("INCR", "a")
    redis_client.client_kill_filter(_type="normal", skipme=True)

    assert 2 == link.execute("INCR", "a")


def test_an_interrupt_between_command_and_reply_does_not_mix_up_replies(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    with link.wire() as wire:
        connection = wire.connection

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(connection, "read_response", interrupt)
        with pytest.raises(KeyboardInterrupt):
            link.execute("ECHO", "of the interrupted one")

    assert b"mine" == link.execute("ECHO", "mine")


def test_an_unread_reply_is_not_taken_for_the_next_reply(link: Link) -> None:
    with link.wire() as wire:
        wire.send("ECHO", "left behind")

    assert b"mine" == link.execute("ECHO", "mine")


def test_an_error_reply_leaves_the_connection_usable(link: Link) -> None:
    with link.wire() as wire:
        with pytest.raises(RedisRefused, match="wrong number of arguments"):
            wire.execute("GET")
        assert b"x" == wire.execute("ECHO", "x")
        assert (False, 0) == (wire.is_broken, wire.in_flight)


def test_a_refusal_among_many_commands_is_raised_when_all_replies_were_read(link: Link) -> None:
    with link.wire() as wire:
        with pytest.raises(RedisRefused, match="wrong number of arguments"):
            wire.execute_all([("ECHO", "a"), ("GET",), ("ECHO", "b")])
        assert b"x" == wire.execute("ECHO", "x")
        assert [b"a", b"b"] == wire.execute_all(("ECHO", text) for text in "ab")


def test_a_server_is_identified_by_its_run_id_and_replication_id(link: Link, redis_client: redis.Redis) -> None:
    info = redis_client.info()

    with link.wire() as wire:
        server = Server.of(wire)

    assert info["run_id"] + info["master_replid"] == server.id
    assert (False, None) == (server.is_replica, server.objection(False))
    assert server.product.endswith(f" {info.get('valkey_version', info['redis_version'])}")


def test_a_server_that_may_evict_schedules_is_refused(link: Link, redis_client: redis.Redis) -> None:
    redis_client.config_set("maxmemory-policy", "allkeys-lru")
    redis_client.config_set("maxmemory", "1gb")
    try:
        with link.wire() as wire:
            server = Server.of(wire)
        assert "may evict schedules; set noeviction" in str(server.objection(False))
        assert server.objection(True) is None
    finally:
        redis_client.config_set("maxmemory", 0)
        redis_client.config_set("maxmemory-policy", "noeviction")


def test_a_link_is_shown_without_its_password() -> None:
    assert "s3cret" not in Link.from_url("redis://user:s3cret@localhost:1/0", 1.0).where
    assert "localhost:1/0" == Link.adopt(redis.Redis.from_url("redis://user:s3cret@localhost:1/0")).where


def test_an_adopted_client_sends_nothing_twice_by_itself() -> None:
    link = Link.adopt(redis.Redis(socket_timeout=30))

    connection = link.pool.connection_class(**link.pool.connection_kwargs)

    assert (30, 0) == (link.timeout_s, connection.retry.get_retries())
    assert isinstance(Wire(connection, "x"), Wire)


# -- reading ----------------------------------------------------------------------------------------------


def test_a_run_is_found_in_older_pages_of_the_log_and_never_under_a_longer_id(
    redis_url: str, link: Link, redis_client: redis.Redis
) -> None:
    client, reader = Client.from_url(redis_url), Reader(link, KEYS, Encoder())
    client.schedule("app.task", id="a-1", after=3600)
    run = client.run_now("a-1")
    for n in range(450):
        redis_client.xadd(KEYS.log(), {"kind": "fire", "t": "0", "runs": f"x-{n} y-1"}, id=f"9-{n + 1}")

    assert run == reader.has_fired("a-1")
    assert RunId("x", 449, "default", 0) == RunId.parse(str(reader.has_fired("x")))
    assert (None, None) == (reader.has_fired("a"), reader.has_fired("a-1-1"))


# -- keys of a wrong type, and addresses ------------------------------------------------------------------


def test_queues_of_a_wrong_type_are_not_queues_and_a_denied_read_is_refused(
    link: Link, redis_client: redis.Redis
) -> None:
    key = KEYS.rq.queues()
    redis_client.set(key, "broken")
    with link.wire() as wire:
        assert [] == queue_keys(wire, KEYS.rq)

    redis_client.delete(key)
    redis_client.sadd(key, "a queue")
    with link.wire() as wire:
        wire.execute("ACL", "SETUSER", "default", "-smembers")
        try:
            with pytest.raises(RedisRefused):
                queue_keys(wire, KEYS.rq)
        finally:
            wire.execute("ACL", "SETUSER", "default", "+@all")


def test_an_overview_counts_lateness_from_the_later_of_due_time_and_put(
    redis_client: redis.Redis, client: Client
) -> None:
    at = datetime.now(UTC) - timedelta(hours=20)
    client.schedule("app.run", id="put", at=at, allow_past=True)
    client.schedule("app.run", id="resumed", at=at, allow_past=True, enabled=False)
    client.resume("resumed")
    job = KEYS.rq.job(f"resumed-{to_ms(at)}")
    redis_client.hset(job, "created_at", rq_time(to_ms(at - timedelta(hours=1))))
    held = KEYS.throttled(Priority.NORMAL, "mail")
    redis_client.hset(KEYS.meta(), "throttled", "normal:mail")

    late = client._overview()
    redis_client.zadd(held, {"put": to_ms(at)})
    redis_client.hdel(job, "zs_version")
    later = client._overview()

    assert to_ms(at) == late.oldest_due_ms
    assert late.late_ms < 3_600_000
    assert later.late_ms > 19 * 3_600_000  # it was put before it was due
    assert [True] == [one.since_ms > to_ms(at) for one in later.held_back]
