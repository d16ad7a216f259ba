"""A program between zsched and Redis answers with bytes that are no Redis reply; faults of the proxy."""

from typing import Any

import pytest
import redis
from redis._parsers import _HiredisParser, _RESP2Parser
from redis.connection import ConnectionPool

from tests.builders.daemons import Start
from tests.builders.leaders import know
from tests.builders.proxies import Proxy
from tests.builders.redises import connect
from tests.ledger import queued
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.errors import RedisUnavailable
from zsched.storage.connection import Link
from zsched.storage.found import our_options

HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
GARBAGE = [HTTP, b"\x15\x03\x01\x00\x02\x02\x50\r\n", b"$many\r\n", b"*x\r\n", b"*1\r\n" * 5000]


def link_by(parser: Any, proxy: Proxy) -> Link:
    options: dict[str, Any] = {"socket_timeout": WITHIN_S, **our_options()}
    return Link(ConnectionPool.from_url(proxy.url, parser_class=parser, **options), proxy.url, WITHIN_S)


@pytest.mark.once
@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("parser", [_HiredisParser, _RESP2Parser])
def test_an_invalid_reply_counts_as_lost_and_closes_the_connection(proxy: Proxy, parser: Any, garbage: bytes) -> None:
    wire = link_by(parser, proxy).open()
    proxy.garbage = garbage

    with pytest.raises(RedisUnavailable, match="not a Redis reply") as caught:
        wire.execute("INCR", "a")

    assert caught.value.may_have_been_applied
    assert wire.is_broken


@pytest.mark.once
@pytest.mark.parametrize("parser", [_HiredisParser, _RESP2Parser])
def test_an_invalid_reply_while_connecting_means_not_applied(proxy: Proxy, parser: Any) -> None:
    proxy.garbage = HTTP
    link = link_by(parser, proxy)
    link.pool.connection_kwargs["db"] = 1  # so that connecting waits for a reply

    with pytest.raises(RedisUnavailable, match="not a Redis reply") as caught:
        link.open()

    assert not caught.value.may_have_been_applied


@pytest.mark.once
def test_a_client_call_with_an_invalid_reply_reports_may_have_been_applied(proxy: Proxy, watch: redis.Redis) -> None:
    client = Client.from_url(proxy.url)
    client.schedule("app.run", id="one", after=3600)
    proxy.garbage = HTTP

    with pytest.raises(RedisUnavailable, match="may have been applied") as caught:
        client.schedule("app.run", id="two", after=3600)

    assert caught.value.may_have_been_applied
    proxy.mend()
    assert "unchanged" == client.schedule("app.run", id="two", at=client.get("two").next_at).outcome


@pytest.mark.once
def test_a_daemon_logs_garbled_replies_once_and_continues(
    proxy: Proxy, watch: redis.Redis, start_daemon: Start
) -> None:
    know(watch)
    daemon = start_daemon(proxy.url, DAEMON_RENEW_MS="100")
    daemon.wait_for("term_began")

    proxy.garbage = HTTP
    daemon.wait_for("redis_lost")
    proxy.mend()
    daemon.wait_for("redis_back")

    Client.from_url(proxy.url).schedule("app.run", id="one", after=0)
    eventually(lambda: queued(watch))
    assert 1 == len(daemon.of("redis_lost"))
    assert [] == daemon.of("archiver_crashed") + daemon.of("chore_failed")


@pytest.mark.parametrize(("cut", "executed"), [("cut_replies", b"1"), ("cut_requests", None)])
def test_a_command_was_executed_if_its_reply_was_cut_and_not_if_its_request_was(
    proxy: Proxy, watch: redis.Redis, cut: str, executed: bytes | None
) -> None:
    with connect(proxy.url) as client:
        client.ping()
        setattr(proxy, cut, 1.0)
        with pytest.raises(redis.ConnectionError):
            client.incr("a")

    assert (executed, 1) == (watch.get("a"), proxy.cuts)


def test_a_half_open_connection_does_not_answer(proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        client.ping()
        client.connection_pool.connection_kwargs["socket_timeout"] = 0.1
        client.connection_pool.disconnect()
        client.connection_pool.reset()
        proxy.half_open = True

        with pytest.raises(redis.TimeoutError):
            client.incr("a")
