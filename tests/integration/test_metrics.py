"""Real daemons with ``[metrics] listen``, asked over HTTP as Prometheus and a service manager ask them."""

import json
import signal
import socket

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families
from rq import Queue

from tests.builders.redises import connect
from tests.builders.workers import work_off
from tests.faults.leases import lapse
from tests.integration.asking import Answer, a_daemon, ask, pages, pages_of
from tests.prefix import RQ
from tests.unit.metrics.counting import outcomes_of
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.core.clock import ManualClock
from zsched.core.entry import Entry
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.metrics.meter import MOST
from zsched.storage.keys import Keys
from zsched.storage.troubled import BLOCKED, FAILING

pytestmark = pytest.mark.once
FUNC, FAILS = "builtins.len", "builtins.int"
PATHS = ("/metrics", "/healthz", "/readyz", "/elsewhere")
SECRET = "t0p-Secret"


class Page:
    """A scrape, parsed like by Prometheus; names without their prefix."""

    def __init__(self, text: str) -> None:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        self.values = {
            (sample.name.removeprefix("zsched_"), frozenset(sample.labels.items())): sample.value for sample in samples
        }
        assert len(samples) == len(self.values), "a series is there twice: Prometheus refuses the page"

    def __getitem__(self, name: str) -> float:
        return self.values[name, frozenset()]

    def by(self, name: str, *labels: str) -> dict[str, float]:
        """Return the values of *name* by its *labels*, joined by a space."""
        return {
            " ".join(dict(given)[label] for label in labels): value
            for (each, given), value in self.values.items()
            if each == name
        }

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.values}


def scrape(where: str) -> Page:
    answer = ask(where, "/metrics")
    assert 200 == answer.status
    return Page(answer.text)


def log_of(client: redis.Redis) -> list[Entry]:
    """Return the log of the namespace "default"."""
    found = []
    for id, fields in client.execute_command("XRANGE", "zsched:{default}:log", "-", "+"):
        found.append(Entry.of(id, [text for pair in fields.items() for text in pair]))
    return found


def is_nothing_due(client: redis.Redis) -> bool:
    return not client.zcard("zsched:{default}:due:normal")


# -- what a scrape says -------------------------------------------------------------------------------


def test_a_scrape_agrees_with_the_log(client: Client, redis_client: redis.Redis, redis_url: str, guard: Guard) -> None:
    daemon = a_daemon(guard, redis_url, DAEMON_RENEW_MS="200")
    where = pages_of(daemon)
    daemon.wait_for("term_began")
    mail, bulk = (Queue(name, connection=redis_client) for name in ("mail", "bulk"))
    for n in range(20):
        client.schedule(FUNC, id=f"once-{n}", after=0, args=("abc",), queue="mail")
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
    assert {"high": 0, "normal": 0, "low": 0} == page.by("waiting", "lane") == page.by("overdue", "lane")
    assert (1, 1, 1, 1) == (page["leader"], page["led"], page["epoch"], page["terms_total"])
    assert (1, 0, 0) == (page["redis_up"], page["oldest_due_age_seconds"], page["clock_jumps_total"])
    assert [1] == list(page.by("archive_following", "archive").values())
    assert [0] == list(page.by("archive_unknown_entries", "archive").values())
    assert {"fire", "advance"} == page.by("script_seconds_count", "script").keys()
    eventually(lambda: scrape(where)["lease_renewal_seconds_count"] > 0)
    assert page["process_resident_memory_bytes"] > 0
    assert page["archivist_process_resident_memory_bytes"] > 0


def test_a_scrape_counts_waiting_and_overdue_schedules(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    client.schedule(FUNC, id="later", after=3600, priority="high")
    client.schedule(FUNC, id="soon", after=0.001)
    client.schedule(FUNC, id="rule", every=3600)
    redis_client.hincrby("zsched:{default}:meta", "offset_ms", 30_000)

    with pages(redis_url) as where:
        page = scrape(where)

    assert {"high": 1, "normal": 2, "low": 0} == page.by("waiting", "lane")
    assert {"high": 0, "normal": 1, "low": 0} == page.by("overdue", "lane")
    assert 29 < page["oldest_due_age_seconds"] < 30 + WITHIN_S
    assert 0 == page["led"]
    states = {"waiting": 3, "recurring": 1, "paused": 0, "quarantined": 0, "held_back": 0}
    assert states == page.by("schedules", "state")


def test_two_daemons_count_each_fire_once_across_a_take_over(
    client: Client, redis_client: redis.Redis, redis_url: str, guard: Guard
) -> None:
    first = a_daemon(guard, redis_url)
    first.wait_for("term_began")
    second = a_daemon(guard, redis_url)
    both = [pages_of(first), pages_of(second)]
    eventually(lambda: [1, 0] == [scrape(where)["leader"] for where in both])
    for n in range(50):
        client.schedule(FUNC, id=f"before-{n}", after=0)
    client.enqueue(FUNC, id="asked-for")
    eventually(lambda: is_nothing_due(redis_client))

    first.send_to_all(signal.SIGSTOP)
    lapse(redis_client)
    second.wait_for("term_began")
    first.send_to_all(signal.SIGCONT)
    first.wait_for("term_lost")
    for n in range(30):
        client.schedule(FUNC, id=f"after-{n}", after=0)
    eventually(lambda: is_nothing_due(redis_client))

    expected = outcomes_of(log_of(redis_client))
    assert (80, 1) == (expected["fired"], expected["enqueued"])

    def counted() -> list[dict[str, float]]:
        return [scrape(where).by("fires_total", "outcome") for where in both]

    eventually(lambda: expected == {name: sum(one[name] for one in counted()) for name in expected})
    assert [50, 30] == [one["fired"] for one in counted()]
    assert [(0, 1, 1), (1, 1, 1)] == [(page["leader"], page["led"], page["terms_total"]) for page in map(scrape, both)]
    assert [Answer(200, "standby\n"), Answer(200, "leader\n")] == [ask(where, "/readyz") for where in both]


def test_only_the_deepest_of_a_thousand_queues_have_labels(redis_client: redis.Redis, redis_url: str) -> None:
    with redis_client.pipeline() as pipeline:
        for n in range(1000):
            pipeline.sadd(f"{RQ}:queues", f"{RQ}:queue:q{n}")
            pipeline.rpush(f"{RQ}:queue:q{n}", *["job"] * (1 + n % 7))
        pipeline.set(f"{RQ}:queue:q1001", "no list")
        pipeline.sadd(f"{RQ}:queues", f"{RQ}:queue:q1001")
        pipeline.execute()

    with pages(redis_url) as where:
        depths = scrape(where).by("queue_depth", "queue")

    assert MOST + 1 == len(depths)
    assert sum(1 + n % 7 for n in range(1000)) == sum(depths.values())
    assert {7} == {value for queue, value in depths.items() if queue != "other"}


def test_jobs_that_guards_only_warned_of_are_counted_by_queue(redis_client: redis.Redis, redis_url: str) -> None:
    redis_client.hset(f"{RQ}:zsched:warned", mapping={"mail": 3, "sms": 1, "odd": "no number"})

    with pages(redis_url) as where:
        assert {"mail": 3, "sms": 1, "odd": 0} == scrape(where).by("jobs_warned_total", "queue")


def test_a_scrape_continues_beside_a_count_of_warned_jobs_of_a_wrong_type(
    redis_client: redis.Redis, redis_url: str
) -> None:
    redis_client.set(f"{RQ}:zsched:warned", "no hash")

    with pages(redis_url) as where:
        page = scrape(where)

    assert (1, {}) == (page["redis_up"], page.by("jobs_warned_total", "queue"))


def test_archives_have_a_label_per_place_and_a_bounded_number(redis_client: redis.Redis, redis_url: str) -> None:
    now_ms = int(redis_client.time()[0]) * 1000

    def report(archive: str, ago_ms: int, state: str = "following", **about: object) -> None:
        text = f"1-1 1 {now_ms - ago_ms} {state} {json.dumps({'path': '/x'} | about)}"
        redis_client.hset("zsched:{default}:archivers", archive, text)

    report("old", 40_000, host="a")
    report("new", 5_000, host="a", audit={"at": now_ms - 60_000, "checked": 7, "alarms": 2, "repaired": 1})
    report("silent", 3_700_000, host="b")
    latest = {"at": now_ms - 30_000, "checked": 8, "alarms": 3, "repaired": 1}
    report("stopped", 1_000, "stopped", host="c", audit=latest)
    for n in range(200):
        report(f"many-{n}", 10_000, host=f"\ud800{n}")

    with pages(redis_url) as where:
        page = scrape(where)

    ages = page.by("archive_seconds_since_report", "archive")
    assert MOST == len(ages)
    assert 5 <= ages["a:/x"] < 5 + WITHIN_S
    assert {"b:/x", "c:/x"}.isdisjoint(ages)
    assert (3, 8) == (page["audit_alarms"], page["audit_checked"])  # its daemon stopped since; it was the last one
    assert 30 <= page["audit_age_seconds"] < 30 + WITHIN_S


def test_a_scrape_counts_schedules_in_trouble(redis_client: redis.Redis, redis_url: str) -> None:
    keys = Keys("default")
    redis_client.zadd(keys.failing(), {"once": FAILING - 1, "nightly": FAILING, "weekly": 9})
    redis_client.zadd(keys.blocked(), {"hourly": BLOCKED, "often": 1})
    redis_client.hset(keys.paused(), mapping={"past": "low 5 5 why", "ahead": f"low {9 * 10**12} 5 why"})

    with pages(redis_url) as where:
        page = scrape(where)

    kinds = ("schedules_failing", "schedules_blocked", "schedules_overdue_paused")
    assert [2, 1, 1] == [page[kind] for kind in kinds]


def test_a_scrape_counts_what_is_due_soon_by_queue(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    for n, after in enumerate((30, 300, 3000, 9000)):
        client.schedule(FUNC, id=f"s{n}", after=after, queue="email")

    with pages(redis_url) as where:
        soon = scrape(where).by("due_soon", "within", "queue")

    assert {"1m email": 1, "10m email": 2, "60m email": 3} == soon


def test_schedules_due_soon_have_labels_of_a_bounded_number_of_queues(client: Client, redis_url: str) -> None:
    client.schedule_many({"func": FUNC, "id": f"s{n}", "after": 30, "queue": f"q{n}"} for n in range(90))

    with pages(redis_url) as where:
        soon = scrape(where).by("due_soon", "within", "queue")

    assert 3 * (MOST + 1) == len(soon)
    assert 90 == sum(value for name, value in soon.items() if name.startswith("1m "))


# -- whether it lives, whether it is of use -----------------------------------------------------------


def test_a_scrape_is_answered_while_redis_is_down(own_redis: EmbeddedRedis, guard: Guard) -> None:
    daemon = a_daemon(guard, own_redis.url)
    where = pages_of(daemon)
    daemon.wait_for("term_began")
    Client.from_url(own_redis.url).schedule(FUNC, id="a", after=0)
    eventually(lambda: scrape(where).by("fires_total", "outcome")["fired"] == 1)
    assert Answer(200, "leader\n") == ask(where, "/readyz")

    own_redis.kill()
    eventually(lambda: scrape(where)["redis_up"] == 0)

    eventually(lambda: "cannot reach Redis" in ask(where, "/readyz").text)
    page, ready = scrape(where), ask(where, "/readyz")
    assert 503 == ready.status
    assert 200 == ask(where, "/healthz").status
    assert (0, 1) == (page["redis_up"], page.by("fires_total", "outcome")["fired"])
    assert {"oldest_due_age_seconds", "queue_depth", "archive_following", "epoch"}.isdisjoint(page.names)
    eventually(lambda: scrape(where)["leader"] == 0)

    own_redis.start()
    eventually(lambda: ask(where, "/readyz") == Answer(200, "leader\n"))
    assert 1 == scrape(where)["redis_up"]


def test_scrapes_read_redis_at_most_once_a_second(redis_client: redis.Redis, redis_url: str) -> None:
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


def test_pages_of_metrics_never_contain_the_password(own_redis: EmbeddedRedis, guard: Guard) -> None:
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
