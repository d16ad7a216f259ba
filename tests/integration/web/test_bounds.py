"""Clients that send too much, too slowly, or read nothing: each costs little, and the others are served."""

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import redis

from tests.builders.web import Web
from tests.integration.client.calls import KEYS
from tests.integration.web.raw import (
    connected,
    head,
    is_ended,
    peak_kib,
    put_bytes,
    read_until,
    rest_of,
    status_of,
)
from tests.waiting import eventually
from zsched import Client

MIB = 1_048_576
TOO_LARGE, LARGE = 1_100_000, 100 * MIB
GROWTH_KIB = 6 * 1024
EVENTS = 10_000
SHORT = {"ZSCHED_WEB_TIMEOUT_S": "1"}


def send(one: socket.socket, part: bytes, times: int) -> None:
    """Send *part* so often, or until the server has ended the connection."""
    with suppress(ConnectionError):
        for _ in range(times):
            one.sendall(part)


def test_a_body_that_says_it_is_too_large_is_refused_before_any_of_it_is_sent(web: Web) -> None:
    with connected(web) as one:
        one.sendall(head("PUT", "/schedules/a", web.token("ann"), f"Content-Length: {TOO_LARGE}"))

        assert 413 == status_of(one)


@pytest.mark.parametrize(
    "length", [f"Content-Length: {LARGE}", "Transfer-Encoding: chunked", f"Content-Length: {'9' * 18}"]
)
def test_a_body_of_a_hundred_mebibytes_costs_the_server_no_memory(
    web: Web, http: httpx.Client, redis_client: redis.Redis, length: str
) -> None:
    http.put("/schedules/a", json={"func": "app.x", "after": 60})
    part = b"x" * MIB
    framed = part if "Length" in length else b"%x\r\n" % MIB + part + b"\r\n"
    before, entries = peak_kib(web), redis_client.xlen(KEYS.log())

    with connected(web) as one:
        one.sendall(head("PUT", "/schedules/b", web.token("big"), length))
        send(one, framed, LARGE // MIB)
        assert 413 == status_of(one)

    assert peak_kib(web) - before < GROWTH_KIB
    assert (entries, 200) == (redis_client.xlen(KEYS.log()), http.get("/schedules/a").status_code)


@pytest.mark.parametrize("part", ["X-A: {}\r\n", "X-A: {}\r\n" * 4, "Cookie: {}\r\n"])
@pytest.mark.parametrize(("size", "status"), [(16_000, 401), (17_000, 431), (70_000, 431)])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_header_beyond_sixteen_kib_is_answered_with_431_also_in_one_piece(
    web: Web, part: str, size: int, status: int, is_first: bool
) -> None:
    number = part.count("{}")
    more = part.format(*["a" * (size // number)] * number)

    with connected(web) as one:
        if not is_first:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            read_until(one, b"ok\n")
        one.sendall(f"GET /api/v1/schedules HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())

        assert status == status_of(one)


def test_a_path_beyond_sixteen_kib_is_answered_with_431(web: Web) -> None:
    with connected(web) as one:
        one.sendall(b"GET /api/v1/schedules?match=%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 16_400))

        assert 431 == status_of(one)


def test_a_change_whose_header_is_too_large_changes_nothing(web: Web, http: httpx.Client) -> None:
    with connected(web) as one:
        more = f"X-A: {'a' * 17_000}"
        one.sendall(put_bytes("/schedules/a", web.token("big"), {"func": "app.x", "after": 60}, more))
        assert 431 == status_of(one)
        rest_of(one)

    assert 404 == http.get("/schedules/a").status_code


@pytest.mark.parametrize(("hosts", "version", "status"), [
    ([], "1.1", 400), (["Host: x"], "1.1", 200), (["Host: x", "Host: x"], "1.1", 400), ([], "1.0", 200),
])  # fmt: skip
def test_a_request_of_http_1_1_needs_one_host(web: Web, hosts: list[str], version: str, status: int) -> None:
    with connected(web) as one:
        one.sendall("\r\n".join([f"GET /healthz HTTP/{version}", *hosts, "", ""]).encode())

        assert status == status_of(one)


@pytest.mark.parametrize("begin", ["GET / HTTP/1.1\r\nX-A: ", "GET /", "GET / HTTP/1.1\r\n"])
def test_a_header_without_end_is_refused(web: Web, http: httpx.Client, begin: str) -> None:
    http.get("/schedules")
    before = peak_kib(web)

    with connected(web) as one:
        one.sendall(begin.encode())
        send(one, b"a: b\r\n" * 10_000 if begin.endswith("\r\n") else b"a" * MIB, 50)
        assert status_of(one) in (0, 400, 431)

    assert peak_kib(web) - before < GROWTH_KIB
    assert 200 == http.get("/schedules").status_code


def test_a_trailer_without_end_is_cut_off(web: Web, http: httpx.Client) -> None:
    http.get("/schedules")
    before = peak_kib(web)

    with connected(web) as one:
        one.sendall(head("PUT", "/schedules/a", "wrong", "Transfer-Encoding: chunked") + b"0\r\n")
        send(one, b"a: b\r\n" * 10_000, 50)
        eventually(lambda: is_ended(one))

    assert peak_kib(web) - before < GROWTH_KIB


def test_requests_that_wait_for_no_answer_are_few(web: Web, http: httpx.Client) -> None:
    secret = web.token("eve", "viewer")
    with connected(web) as one:
        one.sendall(head("GET", "/schedules", secret) * 5 + head("GET", "/schedules", secret, "Connection: close"))
        few = rest_of(one).count(b"HTTP/1.1 200")
    before = peak_kib(web)

    with connected(web) as one:
        send(one, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10_000, 20)
        eventually(lambda: is_ended(one))

    assert 6 == few
    assert peak_kib(web) - before < 2 * GROWTH_KIB
    assert 200 == http.get("/schedules").status_code


def test_a_client_that_sends_its_header_a_byte_at_a_time_is_ended(start_web: Callable[..., Web]) -> None:
    web = start_web(**SHORT)
    text = iter(head("GET", "/schedules", web.token("slow"), f"X-A: {'a' * 16_000}"))

    with connected(web) as one, web.client() as other:
        one.sendall(bytes([next(text)]))
        eventually(lambda: status(other, "/schedules") == 200)
        assert eventually(lambda: is_over_after(one, next(text)))


@pytest.mark.parametrize("dribbles", [True, False])
def test_a_body_that_comes_too_slowly_is_answered_with_408(start_web: Callable[..., Web], dribbles: bool) -> None:
    web = start_web(**SHORT)
    header = head("PUT", "/schedules/a", web.token("slow"), "Content-Length: 100000")

    with web.client() as other, connected(web) as one:  # which has a second to begin
        other.headers["Connection"] = "close"  # an idle one would end within the same second
        one.sendall(header + b'{"func": "')
        eventually(lambda: status(other, "/schedules") == 200)
        if dribbles:
            eventually(lambda: has_answer_after(one, b"x"))

        answer = rest_of(one)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"urn:zsched:error:too-slow" in answer
        eventually(lambda: status(other, "/schedules/a") == 404)


def status(http: httpx.Client, path: str) -> int:
    """Return the status of an answer; 0: the server has ended the connection, on which nothing came for too long."""
    try:
        return http.get(path).status_code
    except httpx.TransportError:
        return 0


def is_over_after(one: socket.socket, byte: int) -> bool:
    """Send a byte, and return True if the connection is over."""
    with suppress(ConnectionError):
        one.sendall(bytes([byte]))
    return is_ended(one)


def has_answer_after(one: socket.socket, part: bytes) -> bool:
    """Send *part*, and return True if an answer has begun to come."""
    with suppress(ConnectionError):
        one.sendall(part)
    try:
        return bool(one.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False


def test_a_connection_without_a_request_or_with_a_refused_body_is_ended(start_web: Callable[..., Web]) -> None:
    web = start_web(**SHORT)
    with connected(web) as one:
        assert b"" == rest_of(one)
    with connected(web) as one:
        one.sendall(head("PUT", "/schedules/a", "wrong", "Content-Length: 100000"))
        assert 401 == status_of(one)
        assert eventually(lambda: is_over_after(one, 32))


def stalled(web: Web, secret: str, receive_bytes: int | None = 4096) -> socket.socket:
    """Return an open stream of events that nobody reads further."""
    one = connected(web, receive_bytes)
    one.sendall(head("GET", "/events", secret))
    read_until(one, b": events")
    return one


# KEYS: meta, log · ARGV: number
REPEAT = """
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local epoch, seq = last[1]:match('(%d+)-(%d+)')
for n = 1, ARGV[1] do
  redis.call('XADD', KEYS[2], epoch .. '-' .. seq + n, unpack(last[2]))
end
redis.call('HINCRBY', KEYS[1], 'seq', ARGV[1])
"""


def write_events(url: str, number: int, last: str) -> None:
    """Put a schedule, repeat the entry of that *number* times in the log, and put *last*."""
    client = Client.from_url(url)
    client.schedule("app.x", id=f"before-{last}", after=3600)
    with redis.Redis.from_url(url) as plain:
        plain.eval(REPEAT, 2, KEYS.meta(), KEYS.log(), number)
    client.schedule("app.x", id=last, after=60)


def test_a_reader_that_reads_nothing_costs_the_server_no_memory(start_web: Callable[..., Web], redis_url: str) -> None:
    web = start_web()
    secret = web.token("eve", "viewer")
    with stalled(web, secret, None) as live, stalled(web, secret), web.client() as other:
        write_events(redis_url, EVENTS, "first")  # as many as the server keeps for all readers
        read_until(live, b'"first"')
        before = peak_kib(web)
        write_events(redis_url, EVENTS, "second")
        read_until(live, b'"second"')

        assert peak_kib(web) - before < GROWTH_KIB
        assert 200 == other.get("/schedules").status_code


def test_a_reader_that_reads_nothing_for_too_long_is_cut_off(start_web: Callable[..., Web], redis_url: str) -> None:
    web = start_web(**SHORT)
    Client.from_url(redis_url).schedule_many({"func": "app.x", "after": 3600} for _ in range(1000))
    secret = web.token("eve", "viewer")
    with connected(web, receive_bytes=4096) as one:
        one.sendall(head("GET", "/schedules?page_size=1000", secret) * 10)  # 10 MB, more than the system keeps
        assert one.recv(1)
        assert eventually(lambda: connections(web) == 0)


def connections(web: Web) -> int:
    """Count the established connections of the server's port, from its side."""
    port = f":{int(web.url.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(port) and row[3] == "01" for row in rows)
