"""Values of other programs in zsched's keys: they hide no schedule, break no call, and are named with a remedy."""

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from tests.builders.command_line import Zsched
from tests.builders.namespaces import EPOCH, LEASE_MS, SERVER, TOKEN, Namespace
from tests.lua.scene import DUE_MS, furnish, kept, set_back, spoil
from tests.lua.test_wrong_values import SPOILS
from tests.prefix import RQ
from zsched import Client
from zsched.cli.program import FAILED, UNHEALTHY
from zsched.config.settings import DaemonSettings
from zsched.core.clock import LAST_MS, SystemClock, from_ms
from zsched.daemon.releases import Native
from zsched.daemon.tick import Ticker
from zsched.errors import Garbled, InvalidSchedule, ZschedError
from zsched.storage.dispatch import Dispatch, NativeJobs
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.records import Scanner

KEYS = Keys("default")
META = KEYS.meta()
NUMBERS = ["epoch", "seq", "hold", "doubt", "format"]
REPORT = "1-1 1 {now} following {about}"


@pytest.fixture
def ns(redis_client: redis.Redis, redis_url: str) -> Iterator[Namespace]:
    ns = Namespace(redis_client, redis_url)
    ns.lead()
    furnish(ns)
    ns.limit()
    yield ns
    ns.close()


@pytest.mark.parametrize("kind", SPOILS)
def test_a_corrupted_value_hides_no_schedule_from_a_client_or_a_bootstrap(ns: Namespace, kind: str) -> None:
    at_first, client = kept(ns), Client(ns.redis)

    for name, id, write in SPOILS[kind]:
        set_back(ns, at_first)
        write(ns)
        listed = {one.id: one for one in client.list()}
        with ns.link.wire() as wire:
            scanner = Scanner(wire, ns.keys)
            held = {one.id for _, page in scanner.schedules(scanner.ids()) for one in page}

        assert json.dumps([one.to_dict() for one in listed.values()])
        is_listed = "score" not in name  # one below 0 is not listed: fire takes it at once
        assert {"missed", "due-rule", *([id] if is_listed else [])} <= listed.keys() & held, name
        assert client.get(id).id == id


CALLS: dict[str, Callable[[Client, str], Any]] = {
    "update": lambda client, id: client.update(id, timeout="5m"),
    "preview": lambda client, id: client.preview(id),
    "pause": lambda client, id: client.pause(id),
    "resume": lambda client, id: client.resume(id, missed="skip"),
    "run_now": lambda client, id: client.run_now(id),
    "cancel": lambda client, id: client.cancel(id),
}


@pytest.mark.parametrize("kind", SPOILS)
def test_a_call_on_a_corrupted_value_works_or_raises_an_error_that_says_why(ns: Namespace, kind: str) -> None:
    at_first, client = kept(ns), Client(ns.redis)

    for _, id, write in SPOILS[kind]:
        for call in CALLS.values():
            set_back(ns, at_first)
            write(ns)
            told = len(ns.link.execute("XRANGE", ns.keys.log(), "-", "+"))
            try:
                call(client, id)
            except ZschedError:
                assert told == len(ns.link.execute("XRANGE", ns.keys.log(), "-", "+"))


@pytest.mark.parametrize("place", ["paused", "quarantine"])
def test_a_schedule_with_an_unreadable_place_is_shown_as_quarantined(ns: Namespace, place: str) -> None:
    client = Client(ns.redis)
    ns.redis.hset(f"{ns.keys.prefix}{place}", "odd", "nonsense")

    odd = client.get("odd")

    assert ("quarantined", None, "its value in paused or quarantine is broken") == (
        odd.state.value, odd.next_at, odd.note,
    )  # fmt: skip
    assert "created" != client.schedule("app.task", id="odd", after=60).outcome
    assert "active" == client.get("odd").state.value


def test_a_put_whose_run_was_pushed_returns_already_fired(ns: Namespace) -> None:
    client, at = Client(ns.redis), from_ms(DUE_MS * 2)
    first = client.schedule("app.task", id="invoice", at=at)
    ns.redis.zrem(ns.keys.due_normal(), "invoice")
    ns.redis.hset(ns.keys.rq.job(str(first.run_id)), mapping={"status": "finished", "enqueued_at": "then"})

    again = client.schedule("app.task", id="invoice", at=at)
    many = client.schedule_many([{"func": "app.task", "id": "invoice", "at": at}])

    assert ("already_fired", None, first.run_id) == (again.outcome, again.next_at, again.run_id)
    assert (1, 0, []) == (many.already_fired, many.unchanged, many.errors)


def test_a_put_repeated_after_a_loss_does_not_blame_another_program(ns: Namespace) -> None:
    client, at = Client(ns.redis), from_ms(DUE_MS * 2)
    run = str(client.schedule("app.task", id="invoice", at=at).run_id)
    ns.redis.flushall()
    ended = {"status": "finished", "ended_at": "then", "last_heartbeat": "then"}
    ns.redis.hset(ns.keys.rq.job(run), mapping=ended)

    again = client.schedule("app.task", id="invoice", at=at)

    assert ("already_fired", run) == (again.outcome, again.run_id)


def test_a_foreign_job_is_not_taken_for_a_schedule(ns: Namespace) -> None:
    client, at = Client(ns.redis), from_ms(DUE_MS * 2)
    run = ns.keys.run_id("invoice", round(at.timestamp() * 1000))
    ns.redis.hset(ns.keys.rq.job(run), mapping={"status": "finished", "data": "theirs"})

    with pytest.raises(InvalidSchedule, match="zsched did not make it"):
        client.schedule("app.task", id="invoice", at=at)
    ns.redis.delete(ns.keys.rq.job(run))
    ns.redis.hset(ns.keys.rq.job(run), "x", "1")

    assert "created" == client.schedule("app.task", id="invoice", at=at).outcome


@pytest.fixture
def ticker(ns: Namespace) -> Iterator[Ticker]:
    with ns.link.wire() as wire:
        native = Native(NativeJobs(wire, ns.keys), False, SystemClock())
        yield Ticker(Dispatch(wire, ns.keys), native, DaemonSettings(), SystemClock())


@pytest.fixture
def term(ns: Namespace) -> Term:
    """A term in a namespace whose clock goes on."""
    ns.redis.hdel(ns.keys.meta(), "frozen_ms", "frozen_by")
    return Term(TOKEN, EPOCH, SERVER, LEASE_MS, SystemClock().monotonic_ms() + LEASE_MS, ns.now_ms, 0)


def test_a_leader_logs_a_corrupted_set_of_queues_once_per_term_and_fires(
    ns: Namespace, ticker: Ticker, term: Term
) -> None:
    spoil(ns, f"{RQ}:queues")

    with capture_logs() as told:
        for _ in range(3):
            ticker.tick(term)
        ticker.begin(term)
        ticker.tick(term)

    said = [one for one in told if one["event"] == "key_of_wrong_type"]
    assert [f"{RQ}:queues"] * 2 == [one["key"] for one in said]
    assert f"RENAME {RQ}:queues" in said[0]["remedy"]
    assert f"due-{DUE_MS}" in ns.queue()


STOPPED, IGNORED = "nothing fires until it is", "firing continues without it"


@pytest.mark.parametrize(
    ("key", "effect"),
    [
        (f"{RQ}:queues", IGNORED),
        (KEYS.archivers(), IGNORED),
        *((key, STOPPED) for key in (KEYS.deadlines(), KEYS.limits(), KEYS.due_low(), KEYS.recurring())),
    ],
)
def test_status_names_a_key_of_a_wrong_type_and_its_effect(
    zsched: Zsched, ns: Namespace, key: str, effect: str
) -> None:
    spoil(ns, key)

    told = json.loads(zsched("status", "--json").stdout)

    [alarm] = [one for one in told["alarms"] if one["name"] == "wrong_type"]
    assert f"{key} is a " in alarm["problem"]
    assert alarm["problem"].endswith(f"another program wrote it; {effect}")
    assert f"RENAME {shlex.quote(key)}" in alarm["remedy"]


# -- status and doctor --------------------------------------------------------------------------------


def findings(zsched: Zsched) -> dict[str, dict[str, str]]:
    """Return the first finding of each of the doctor's checks."""
    result = zsched("doctor", "--json")
    assert UNHEALTHY == result.exit_code
    return {one["check"]: one for one in reversed(json.loads(result.stdout))}


@pytest.mark.parametrize(
    "garbage", ["", "no number", "1.5", "nan", "inf", "1e300", "0x7", "-", b"\xff\x00", "9" * 5000, LAST_MS + 1]
)
@pytest.mark.parametrize("field", [*NUMBERS, "offset_ms", "frozen_ms"])
def test_a_corrupted_number_in_meta_is_reported_with_a_remedy(
    zsched: Zsched, redis_client: redis.Redis, field: str, garbage: Any
) -> None:
    redis_client.hset(META, field, garbage)

    for told in (zsched("status"), zsched("status", "--json")):
        assert FAILED == told.exit_code
        assert f"{META} has {field} '" in told.output
        assert f"HDEL {META} " in told.output
    found = findings(zsched)["meta" if field in NUMBERS else "test clock"]
    assert "problem" == found["verdict"]
    assert field in found["said"]
    assert f"HDEL {META}" in found["remedy"].replace("'", "")


@pytest.mark.parametrize("garbage", ["1e300", "nan", LAST_MS])
def test_add_refuses_a_corrupted_test_clock(zsched: Zsched, redis_client: redis.Redis, garbage: str | int) -> None:
    redis_client.hset(META, "offset_ms", garbage)

    told = zsched("add", "a", "app.tasks.run", "--after", "1h")

    assert FAILED == told.exit_code
    assert f"{META} has offset_ms '{garbage}'" in told.output
    assert 0 == redis_client.exists(KEYS.log())


@pytest.mark.parametrize("key", [META, KEYS.lease(), KEYS.log()])
def test_a_key_of_a_wrong_type_is_named(zsched: Zsched, redis_client: redis.Redis, key: str) -> None:
    redis_client.lpush(key, "mine")

    with pytest.raises(Garbled, match="zsched doctor looks at the types of all keys") as caught:
        Client(redis_client)._overview()

    assert caught.value.problem.startswith(f"{key}: ")
    assert f"{key} is a list" in findings(zsched)["key types"]["said"]


@pytest.mark.parametrize(
    "report",
    [
        "", b"\xff\xfe", "x", "1-1 x {now} following {}", "1-1 1 -100000000000000000000 following {}",
        "1-1 1 {now}9999999999999999999 following {}", "9" * 5000 + "-1 1 {now} following {}",
        "1-1 1 {now} nonsense {}", "1-1 1 {now} following", "1-1 1 {now} following {", "1-1 1 {now} following 5",
        "1-1 1 {now} following [1]", "1-1 1 {now} following null", "1-1 1 {now} following " + "[" * 100_000,
        '1-1 1 {now} following {"host": "\\ud800", "path": 5, "daemon": {"a": 1}, "audit": {"at": 1e999}}',
        '1-1 1 {now} following {"daemon": "\\ud800", "pid": "x", "started": 1e999, "complete_since": -1}',
    ],
)  # fmt: skip
def test_a_corrupted_report_hides_no_other_report(
    zsched: Zsched, redis_client: redis.Redis, report: str | bytes
) -> None:
    seconds, _ = redis_client.time()
    now = str(seconds * 1000)
    text = report if isinstance(report, bytes) else report.replace("{now}", now)
    mine = REPORT.format(now=now, about='{"daemon": "d", "host": "box", "path": "/mine.db"}')
    redis_client.hset(KEYS.archivers(), mapping={b"\xff": text, "mine": mine})

    for told in (zsched("status"), zsched("status", "--json")):
        assert UNHEALTHY == told.exit_code
        assert "/mine.db" in told.output
    assert "ok" == findings(zsched)["archives"]["verdict"]


def test_a_binary_lease_is_shown_escaped(zsched: Zsched, redis_client: redis.Redis) -> None:
    redis_client.set(KEYS.lease(), b"\xff\xfe:1")

    assert r"\xff\xfe" in zsched("status").output
    assert r"daemon \xff\xfe leads" in findings(zsched)["daemons"]["said"]
