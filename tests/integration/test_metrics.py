"""Real daemons with ``[metrics] listen``, asked over HTTP as Prometheus and a service manager ask them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families
from rq import Queue
from structlog.testing import capture_logs

from tests.faults.ledger import connect
from tests.faults.processes import WITHIN_S, DaemonProcess, eventually
from tests.faults.threads import know
from tests.integration.in_process import work_off
from tests.unit.metrics.ground import outcomes_of
from zsched import Client
from zsched.config import MetricsSettings, RedisSettings, Settings
from zsched.core.clock import ManualClock
from zsched.core.log import Entry
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.errors import ConfigError
from zsched.metrics.serving import serving

pytestmark = pytest.mark.redis
ANYWHERE = "127.0.0.1:0"
FUNC, FAILS = "builtins.len", "builtins.int"
TERM = {"DAEMON_LEASE_MS": "1000", "DAEMON_RENEW_MS": "200"}
PATHS = ("/metrics", "/healthz", "/readyz", "/elsewhere")
SECRET = "t0p-Secret"


class Answer(NamedTuple):
    """Of one request."""

    status: int
    text: str


class Page:
    """A scrape, parsed as Prometheus does it; names without their prefix."""

    def __init__(self, text: str) -> None:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        self.values = {
            (sample.name.removeprefix("zsched_"), frozenset(sample.labels.items())): sample.value for sample in samples
        }
        assert len(samples) == len(self.values), "a series is there twice: Prometheus refuses the page"

    def __getitem__(self, name: str) -> float:
        return self.values[name, frozenset()]

    def by(self, name: str, *labels: str) -> dict[str, float]:
        """The values of *name* by its *labels*, joined by a space."""
        return {
            " ".join(dict(given)[label] for label in labels): value
            for (each, given), value in self.values.items()
            if each == name
        }

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.values}


def ask(where: str, path: str, method: str = "GET") -> Answer:
    request = urllib.request.Request(f"http://{where}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_S) as reply:
            return Answer(reply.status, reply.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode())


def scrape(where: str) -> Page:
    answer = ask(where, "/metrics")
    assert 200 == answer.status
    return Page(answer.text)


def a_daemon(guard: Guard, url: str, **settings: str) -> DaemonProcess:
    return DaemonProcess(guard, url, **({"METRICS_LISTEN": ANYWHERE} | TERM | settings))


def pages_of(daemon: DaemonProcess) -> str:
    """Host and port of its pages."""
    return str(daemon.wait_for("metrics_served")["listen"])


def log_of(client: redis.Redis) -> list[Entry]:
    """The log of the namespace "default"."""
    found = []
    for id, fields in client.execute_command("XRANGE", "zsched:{default}:log", "-", "+"):
        found.append(Entry.of(id, [text for pair in fields.items() for text in pair]))
    return found


def is_nothing_due(client: redis.Redis) -> bool:
    return not client.zcard("zsched:{default}:due:normal")


@pytest.fixture
def guard() -> Iterator[Guard]:
    with Guard() as guard:
        yield guard


@pytest.fixture
def client(redis_url: str, redis_client: redis.Redis) -> Client:
    know(redis_client)
    return Client.from_url(redis_url)


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A server that the test may stop."""
    with EmbeddedRedis(tcp=True) as server, connect(server.url) as client:
        know(client)
        yield server


# -- what a scrape says -------------------------------------------------------------------------------


def test_a_scrape_says_what_the_log_says(
    client: Client, redis_client: redis.Redis, redis_url: str, guard: Guard
) -> None:
    daemon = a_daemon(guard, redis_url)
    where = pages_of(daemon)
    daemon.wait_for("term_began")
    mail, bulk = (Queue(name, connection=redis_client) for name in ("mail", "bulk"))
    for n in range(20):
        client.schedule(FUNC, id=f"once-{n}", after=0.2, args=("abc",), queue="mail")
    client.schedule(FUNC, id="ticks", every=0.1, count=5, args=("abc",), queue="mail")
    client.schedule(FUNC, id="gone", after=3600)
    client.cancel("gone")
    client.schedule(FUNC, id="paused", after=3600)
    client.pause("paused")
    client.schedule(FUNC, id="early", after=3600)
    client.run_now("early")
    client.enqueue(FUNC, id="now", args=("abc",), queue="mail", timeout=1000)
    client.enqueue(FAILS, id="fails", args=("no number",), queue="bulk")

    eventually(lambda: is_nothing_due(redis_client) and client.get("ticks").state.value == "ended")
    ran = len(mail)
    assert ran > 21
    eventually(lambda: {"mail": ran, "bulk": 1, "default": 1} == scrape(where).by("queue_depth", "queue"))
    for queue in (mail, bulk):
        work_off(queue, redis_client)
    eventually(lambda: sum(scrape(where).by("runs_ended_total", "queue", "status").values()) == ran + 1)
    eventually(lambda: len(log_of(redis_client)) == scrape(where)["log_entries"])

    page = scrape(where)
    outcomes = page.by("fires_total", "outcome")
    assert outcomes_of(log_of(redis_client)) == outcomes
    assert (3, 1) == (outcomes["enqueued"], outcomes["cancelled"])
    assert outcomes["fired"] == page["lateness_seconds_count"] == page["fired_per_tick_sum"]
    assert {"mail succeeded": ran, "bulk failed": 1} == page.by("runs_ended_total", "queue", "status")
    assert {"mail": ran, "bulk": 1} == page.by("run_duration_seconds_count", "queue")
    assert {"mail": ran, "bulk": 1} == page.by("queue_wait_seconds_count", "queue")
    assert ran + 1 == page["run_timeout_ratio_count"]
    states = {"waiting": 0, "recurring": 1, "paused": 1, "quarantined": 0, "held_back": 0}
    assert states == page.by("schedules", "state")
    assert {"high": 0, "normal": 0, "low": 0} == page.by("due", "lane") == page.by("overdue", "lane")
    assert (1, 1, 1) == (page["leader"], page["epoch"], page["terms_total"])
    assert (1, 0, 0) == (page["redis_up"], page["oldest_due_age_seconds"], page["clock_jumps_total"])
    assert [1] == list(page.by("archive_following", "archive").values())
    assert {"fire", "advance"} == page.by("script_seconds_count", "script").keys()
    assert page["lease_renewal_seconds_count"] > 0
    assert page["process_resident_memory_bytes"] > 0


def test_what_waits_and_what_is_late_is_told(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    client.schedule(FUNC, id="later", after=3600, priority="high")
    client.schedule(FUNC, id="soon", after=0.001)
    client.schedule(FUNC, id="rule", every=3600)
    redis_client.hincrby("zsched:{default}:meta", "offset_ms", 30_000)

    with pages(redis_url) as where:
        page = scrape(where)

    assert {"high": 1, "normal": 1, "low": 0} == page.by("due", "lane")
    assert {"high": 0, "normal": 1, "low": 0} == page.by("overdue", "lane")
    assert 29 < page["oldest_due_age_seconds"] < 30 + WITHIN_S
    states = {"waiting": 3, "recurring": 1, "paused": 0, "quarantined": 0, "held_back": 0}
    assert states == page.by("schedules", "state")


def test_two_daemons_count_each_fire_once_across_a_take_over(
    client: Client, redis_client: redis.Redis, redis_url: str, guard: Guard
) -> None:
    steady = {"DAEMON_LEASE_MS": "4000", "DAEMON_RENEW_MS": "500"}  # no third term, however busy the machine is
    first = a_daemon(guard, redis_url, **steady)
    first.wait_for("term_began")
    second = a_daemon(guard, redis_url, **steady)
    both = [pages_of(first), pages_of(second)]
    eventually(lambda: [1, 0] == [scrape(where)["leader"] for where in both])
    for n in range(50):
        client.schedule(FUNC, id=f"before-{n}", after=0.1)
    client.enqueue(FUNC, id="asked-for")
    eventually(lambda: is_nothing_due(redis_client))

    first.send(signal.SIGSTOP)
    second.wait_for("term_began")
    first.send(signal.SIGCONT)
    first.wait_for("term_lost")
    for n in range(30):
        client.schedule(FUNC, id=f"after-{n}", after=0.1)
    eventually(lambda: is_nothing_due(redis_client))

    expected = outcomes_of(log_of(redis_client))
    assert (80, 1) == (expected["fired"], expected["enqueued"])

    def counted() -> list[dict[str, float]]:
        return [scrape(where).by("fires_total", "outcome") for where in both]

    eventually(lambda: expected == {name: sum(one[name] for one in counted()) for name in expected})
    assert [50, 30] == [one["fired"] for one in counted()]
    assert [(0, 1), (1, 1)] == [(page["leader"], page["terms_total"]) for page in map(scrape, both)]
    assert [Answer(200, "standby\n"), Answer(200, "leader\n")] == [ask(where, "/readyz") for where in both]


def test_a_thousand_queues_take_a_hundred_labels(redis_client: redis.Redis, redis_url: str) -> None:
    with redis_client.pipeline() as pipeline:
        for n in range(1000):
            pipeline.sadd("rq:queues", f"rq:queue:q{n}")
            pipeline.rpush(f"rq:queue:q{n}", *["job"] * (1 + n % 7))
        pipeline.set("rq:queue:q1001", "no list")
        pipeline.sadd("rq:queues", "rq:queue:q1001")
        pipeline.execute()

    with pages(redis_url) as where:
        depths = scrape(where).by("queue_depth", "queue")

    assert 101 == len(depths)
    assert sum(1 + n % 7 for n in range(1000)) == sum(depths.values())
    assert {7} == {value for queue, value in depths.items() if queue != "other"}


def test_archives_are_told_apart_by_place_and_their_number_is_bounded(
    redis_client: redis.Redis, redis_url: str
) -> None:
    now_ms = int(redis_client.time()[0]) * 1000

    def report(archive: str, ago_ms: int, **about: object) -> None:
        text = f"1-1 1 {now_ms - ago_ms} following {json.dumps({'path': '/x'} | about)}"
        redis_client.hset("zsched:{default}:archivers", archive, text)

    report("old", 40_000, host="a")
    report("new", 5_000, host="a", audit={"at": now_ms - 60_000, "checked": 7, "alarms": 2, "repaired": 1})
    report("silent", 3_700_000, host="b")
    report("stopped", 1_000, host="c", stopped=True)
    for n in range(200):
        report(f"many-{n}", 10_000, host=f"\ud800{n}")

    with pages(redis_url) as where:
        page = scrape(where)

    ages = page.by("archive_seconds_since_report", "archive")
    assert 100 == len(ages)
    assert 5 <= ages["a:/x"] < 5 + WITHIN_S
    assert {"b:/x", "c:/x"}.isdisjoint(ages)
    assert (2, 7) == (page["audit_alarms"], page["audit_checked"])
    assert 60 <= page["audit_age_seconds"] < 60 + WITHIN_S


# -- whether it lives, whether it is of use -----------------------------------------------------------


def test_a_scrape_while_redis_is_down_answers(own_redis: EmbeddedRedis, guard: Guard) -> None:
    daemon = a_daemon(guard, own_redis.url)
    where = pages_of(daemon)
    daemon.wait_for("term_began")
    Client.from_url(own_redis.url).schedule(FUNC, id="a", after=0)
    eventually(lambda: scrape(where).by("fires_total", "outcome")["fired"] == 1)
    assert Answer(200, "leader\n") == ask(where, "/readyz")

    own_redis.kill()
    eventually(lambda: ask(where, "/readyz").status == 503)

    page, ready = scrape(where), ask(where, "/readyz")
    assert (503, True) == (ready.status, "cannot reach Redis" in ready.text)
    assert 200 == ask(where, "/healthz").status
    assert (0, 1) == (page["redis_up"], page.by("fires_total", "outcome")["fired"])
    assert {"oldest_due_age_seconds", "queue_depth", "archive_following", "epoch"}.isdisjoint(page.names)
    eventually(lambda: scrape(where)["leader"] == 0)

    own_redis.start()
    eventually(lambda: ask(where, "/readyz") == Answer(200, "leader\n"))
    assert 1 == scrape(where)["redis_up"]


def test_a_daemon_whose_loop_is_stuck_is_not_alive() -> None:
    clock = ManualClock()
    last_pass_ms = clock.monotonic_ms()
    with pages("unix:///nowhere", clock=clock, last_pass_ms=lambda: last_pass_ms) as where:
        clock.advance(50_000)
        assert Answer(200, "the main loop ended a pass 50.0 s ago\n") == ask(where, "/healthz")

        clock.advance(30_000)
        assert Answer(503, "the main loop ended a pass 80.0 s ago\n") == ask(where, "/healthz")

        last_pass_ms = clock.monotonic_ms()
        assert 200 == ask(where, "/healthz").status


def test_redis_is_looked_at_once_a_second_however_many_ask(redis_client: redis.Redis, redis_url: str) -> None:
    clock = ManualClock()

    def looks() -> int:
        calls = redis_client.info("commandstats").get("cmdstat_xrevrange", {"calls": 0})["calls"]
        return int(calls)

    with pages(redis_url, clock=clock) as where:
        before = looks()
        for path in ("/metrics", "/readyz", "/metrics", "/readyz"):
            assert 200 == ask(where, path).status
        assert 1 == looks() - before

        clock.advance(1000)
        scrape(where)
        assert 2 == looks() - before


def test_what_is_no_page_says_which_there_are() -> None:
    with pages("unix:///nowhere") as where:
        assert Answer(404, "there are /metrics, /healthz, /readyz\n") == ask(where, "/elsewhere")
        assert 405 == ask(where, "/healthz", "POST").status
        assert Answer(200, "") == ask(where, "/healthz", "HEAD")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_daemon_and_pages(number: signal.Signals, client: Client, redis_url: str, guard: Guard) -> None:
    daemon = a_daemon(guard, redis_url)
    where = pages_of(daemon)
    daemon.wait_for("term_began")
    host, _, port = where.rpartition(":")

    with socket.create_connection((host, int(port))) as idle:  # a client that never says what it wants
        assert 200 == ask(where, "/healthz").status
        daemon.send(number)
        assert 0 == daemon.wait()
        assert idle

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


# -- where it listens ---------------------------------------------------------------------------------


@contextmanager
def pages(
    url: str,
    listen: str = ANYWHERE,
    clock: ManualClock | None = None,
    last_pass_ms: Callable[[], float] = lambda: 0.0,
) -> Iterator[str]:
    """Where the pages of a daemon are that does nothing."""
    settings = Settings(redis=RedisSettings(url=url), metrics=MetricsSettings(listen=listen))
    with capture_logs() as events, serving(settings, clock or ManualClock(), last_pass_ms, {"rq": None}):
        yield str(events[0]["listen"])


def test_ipv6_is_listened_on_in_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")

    with pages("unix:///nowhere", "[::1]:0") as where:
        assert where.startswith("[::1]:")
        assert 200 == ask(where, "/healthz").status


def test_a_port_in_use_is_an_error_that_names_setting_and_value() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(ConfigError, match=rf"^\[metrics\] listen='{listen}': Address already in use; give an"):
            pages("unix:///nowhere", listen).__enter__()


def test_a_host_that_is_not_here_is_an_error_too() -> None:
    with pytest.raises(ConfigError, match=r"^\[metrics\] listen='192\.0\.2\.1:9464': .+; give an address"):
        pages("unix:///nowhere", "192.0.2.1:9464").__enter__()


def test_without_the_extra_the_daemon_says_what_to_install(tmp_path: Path) -> None:
    without = "import sys; sys.modules['prometheus_client'] = None; from zsched.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", without, "daemon"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ZSCHED_METRICS_LISTEN": "localhost:9464"}
    env["ZSCHED_REDIS_URL"] = f"unix://{tmp_path}/nowhere"

    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=WITHIN_S)

    assert 2 == ended.returncode
    place, remedy = "[metrics] listen='localhost:9464'", "install it: pip install 'zsched[ops]'"
    assert f"{place}: prometheus_client is not installed; {remedy}" in ended.stderr


def test_the_password_is_on_no_page(own_redis: EmbeddedRedis, guard: Guard) -> None:
    url = own_redis.tcp_url.replace("redis://", f"redis://:{SECRET}@")
    with connect(own_redis.url) as commands:
        commands.config_set("requirepass", SECRET)
    daemon = a_daemon(guard, url)
    where = pages_of(daemon)
    daemon.wait_for("term_began")
    eventually(lambda: ask(where, "/readyz").status == 200)
    told = [ask(where, path).text for path in PATHS]

    own_redis.kill()
    eventually(lambda: ask(where, "/readyz").status == 503)
    told += [ask(where, path).text for path in PATHS]

    assert not [text for text in told if SECRET in text]
    assert not [event for event in daemon.events if SECRET in str(event)]
