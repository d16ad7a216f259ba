"""Problems and warnings of ``zsched status``, with their remedies."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.entries import add_entry, end_fields, row_fields
from tests.builders.progress import change_progress
from tests.integration.standing import KEYS, LAST_T, now_ms, report, section, status, verdict
from zsched import Client
from zsched.cli.program import DONE, UNHEALTHY
from zsched.core.clock import from_ms
from zsched.core.entry import FORMAT
from zsched.core.record import Place, Portion, Record
from zsched.core.runs.job import rq_time
from zsched.core.runs.run import Run, RunStatus
from zsched.storage.connection import Link, Wire
from zsched.storage.troubled import BLOCKED, FAILING
from zsched.storage.workers import slot_waits

pytestmark = pytest.mark.once


def test_the_first_line_of_status_says_healthy(zsched: Zsched, well: redis.Redis) -> None:
    result = zsched("status")

    expected = "healthy: one daemon leads, 1 stands by; nothing is overdue; 2 archives follow"
    assert (DONE, [expected]) == (result.exit_code, verdict(result))


@pytest.mark.parametrize("state", ["silent", "stopped"])
def test_a_killed_or_stopped_daemon_does_not_count_as_standby(zsched: Zsched, led: redis.Redis, state: str) -> None:
    report(led, daemon="somebody")
    report(led, "gone", daemon="d2", ago_ms=10_001, state="following" if state == "silent" else state)

    result = zsched("status")
    told = status(zsched)

    expected = "healthy: one daemon leads, no standby; nothing is overdue; 1 archive follows"
    assert (DONE, expected) == (result.exit_code, verdict(result)[0])
    gone = " (the daemon of pid ? on box last reported 10s ago)" if state == "silent" else ""
    assert verdict(result)[1].startswith(f"warning: no standby daemon{gone}: when the leader dies, nothing")
    assert ["no_standby"] == [one["name"] for one in told["warnings"]]


@pytest.mark.parametrize(
    ("state", "about"),
    [("following", {"may_not_lead": "Redis may evict"}), ("outdated", {"trouble": "Redis may evict"})],
)
def test_a_daemon_that_may_not_lead_does_not_count_as_standby(
    zsched: Zsched, led: redis.Redis, state: str, about: dict[str, Any]
) -> None:
    report(led, daemon="somebody")
    report(led, "other", daemon="d2", pid=2, state=state, **about)

    result, warning = zsched("status"), said(zsched, "no_standby")

    assert (DONE, True) == (result.exit_code, "one daemon leads, no standby" in verdict(result)[0])
    assert "no standby daemon (box, pid 2 may not lead: Redis may evict): when the" in warning["problem"]
    assert ["leader", "barred"] == [line.split()[0] for line in section(result, "DAEMON")]


def test_status_prints_problems_first_and_each_with_a_remedy(redis_url: str, zsched: Zsched, led: redis.Redis) -> None:
    led.delete(KEYS.lease())
    report(led, "ill", state="failed", trouble="disk full")
    report(led, "lost", f"3-12 {LAST_T - 1}", state="lost", awaits_people=True)
    late = Client.from_url(redis_url).schedule("app.run", id="a", at=from_ms(now_ms(led) - 60_000), allow_past=True)
    led.hset(KEYS.rq.job(str(late.run_id)), "created_at", "2026-01-01T00:00:00.000000Z")  # it was not put late
    audit = {"at": now_ms(led), "checked": 10, "alarms": 3, "repaired": 2}
    report(led, "well", audit=audit)

    result = zsched("status")
    told = status(zsched)

    lines = [line for line in verdict(result) if not line.startswith("warning")][: 2 * len(told["alarms"])]
    assert UNHEALTHY == result.exit_code
    assert lines[0] == "UNHEALTHY: no daemon is leading: none of this namespace is running"
    assert all(line.startswith("also: ") for line in lines[2::2])
    assert all(re.match("  → .{10}", line) for line in lines[1::2])
    assert ["no_leader", "archive_lost", "late", "archive_failed", "audit"] == [one["name"] for one in told["alarms"]]
    assert told["problems"] == [one["problem"] for one in told["alarms"]]


def test_status_without_a_leader_names_the_running_daemons(zsched: Zsched, led: redis.Redis) -> None:
    led.delete(KEYS.lease())
    report(led, daemon="d1", host="box", pid=42)

    result = zsched("status")

    assert "UNHEALTHY: no daemon is leading; reported within 10 s: box, pid 42" == verdict(result)[0]
    assert "leading_refused" in verdict(result)[1]


@pytest.mark.parametrize(("failed", "sound", "warned"), [(3, 26, True), (3, 27, False), (2, 0, False)])
def test_a_failure_rate_of_a_tenth_is_a_warning(
    zsched: Zsched, led: redis.Redis, failed: int, sound: int, warned: bool
) -> None:
    report(led, daemon="d2")
    ended = [RunStatus.FAILED] * (failed - 1) + [RunStatus.LOST] + [RunStatus.SUCCEEDED] * sound
    errors = {RunStatus.FAILED: "KeyError: 'a'", RunStatus.LOST: "its worker died"}
    rows = end_fields(*(Run(f"a-{n}", status, error=errors.get(status, "")) for n, status in enumerate(ended)))
    add_entry(led, KEYS.log(), "3-13", "end", now_ms(led) * 1000, *rows)

    told = status(zsched)

    worst = "most often a, KeyError: 'a'"
    expected = [f"3 of {3 + sound} runs that ended in the last 5 min failed or were lost; {worst}"] if warned else []
    assert (expected, True) == ([one["problem"] for one in told["warnings"]], told["healthy"])


@pytest.mark.parametrize("name", ["no_standby", "no_leader"])
def test_a_daemon_that_fell_silent_is_named_with_its_log(zsched: Zsched, led: redis.Redis, name: str) -> None:
    report(led, "cut-off", daemon="d2", host="vm", pid=12719, ago_ms=33_000)
    report(led, "stopped", daemon="d3", host="vm", pid=3, ago_ms=33_000, state="stopped")
    report(led, "forgotten", daemon="d4", host="vm", pid=4, ago_ms=3_700_000)
    if name == "no_standby":
        report(led, daemon="somebody")
    else:
        led.delete(KEYS.lease())

    told = status(zsched)

    [found] = [one for one in (*told["alarms"], *told["warnings"]) if one["name"] == name]
    assert "the daemon of pid 12719 on vm last reported 33s ago" in found["problem"]
    assert "pid 3" not in found["problem"]
    assert "pid 4" not in found["problem"]
    assert found["remedy"].startswith("see its log there (journalctl -u zsched), as it may be cut off from Redis; ")
    assert "start one: systemctl start zsched" in found["remedy"]


class Case(NamedTuple):
    """A reason to warn; what ``status`` says of it, as patterns."""

    hurt: Callable[[redis.Redis], object]
    name: str
    problem: str
    remedy: str = "."


def differ(led: redis.Redis, **facts: str) -> None:
    """Let the two daemons differ in *facts*; what a stopped one and an older one tell does not count."""
    usual = {"version": "0.1.0", "tzdata": "2025b"}
    report(led, "one", daemon="somebody", pid=1, **usual)
    report(led, "two", daemon="d2", pid=2, **usual | facts)
    report(led, "stopped", daemon="d3", pid=3, state="stopped", version="0.0.1", tzdata="2001a")
    report(led, "old", daemon="d4", pid=4)  # tells neither


def come_too_late(led: redis.Redis) -> None:
    t = now_ms(led) * 1000
    add_entry(led, KEYS.log(), "3-13", "end", t, *end_fields(*(Run(f"a-{n}", RunStatus.EXPIRED) for n in range(2))))
    led.xadd(KEYS.log(), {"kind": "fire", "t": t, "expired": "b-5"}, id="3-14")
    add_entry(led, KEYS.log(), "3-15", "advance", t, "rows", 1, "c", "passed - 9 9 missed:1:8:20,limit:1:8:3")


def take_too_long(led: redis.Redis) -> None:
    error = "rq.timeouts.JobTimeoutException: Task exceeded maximum timeout value (180 seconds)"
    runs = [Run(f"{id}-{n}", RunStatus.FAILED, error=error, timeout_s=s) for n, (id, s) in enumerate(LIMITS)]
    add_entry(led, KEYS.log(), "3-13", "end", now_ms(led) * 1000, *end_fields(*runs))


LIMITS = (("report", 180), ("own", 60))


def pause_past_its_time(led: redis.Redis) -> None:
    client = Client(led)
    client.schedule("app.run", id="mail-paused-once", at=from_ms(now_ms(led) - 1000), allow_past=True)
    client.schedule("app.run", id="later", after=3600)
    client.pause("mail-paused-once")
    client.pause("later")
    led.hset(KEYS.paused(), "strange", "?")


def in_rq(led: redis.Redis, id: str, since_ms: int = 33_000, **job: str) -> str:
    """Let RQ have a run of *id*, in its state for *since_ms*."""
    run, at = f"{id}-1767225600000", rq_time(now_ms(led) - since_ms)
    led.hset(KEYS.rq.job(run), mapping={"origin": "mail", "enqueued_at": at, "started_at": at} | job)
    return run


def block(led: redis.Redis, id: str, in_a_row: int = BLOCKED, since_ms: int = 33_000, **job: str) -> str:
    """Let the last occurrences of *id* be skipped for a run with *job* in RQ."""
    led.zadd(KEYS.blocked(), {id: in_a_row})
    run = in_rq(led, id, since_ms, **job)
    change_progress(led, KEYS, id, last=run)
    return run


def wait_for_a_slot(led: redis.Redis, holder: str, for_s: int = 400, limit: str = "gw") -> None:
    waiting = in_rq(led, "report", for_s * 1000, status="rate_limited", rate_limit_key=limit)
    now_s = now_ms(led) / 1000
    led.sadd(KEYS.rq.limits(), limit)
    led.hset(KEYS.rq.limit(limit), "concurrency", 1)
    led.zadd(KEYS.rq.limit_allowed(limit), {holder: now_s - 500})
    led.zadd(KEYS.rq.limit_waiting(limit), {waiting: now_s - for_s, "other-1767225600000": now_s})


def listen(led: redis.Redis, queue: str) -> None:
    led.hset(KEYS.rq.worker("w"), "queues", queue)
    led.sadd(KEYS.rq.queue_workers(queue), KEYS.rq.worker("w"))
    led.sadd(KEYS.rq.workers(), KEYS.rq.worker("w"))


def wait_in_a_queue(led: redis.Redis, **job: str) -> None:
    listen(led, "mail")
    led.sadd(KEYS.rq.queues(), KEYS.rq.queue("mail"))
    led.rpush(KEYS.rq.queue("mail"), block(led, "report", 13, 120_000, status="queued", **job))


R_0_TO_7 = [f"r{n}" for n in range(8)]
REASONS = {
    "a failing thread": Case(
        lambda led: report(led, "one", daemon="somebody", failing={"thread waker": "'a bug'"}),
        "daemon_failing", "fails in part: thread waker: 'a bug'",
    ),
    "two versions": Case(
        lambda led: differ(led, version="0.2.0"), "versions", r"0\.1\.0 \(box, pid 1\), 0\.2\.0 \(box, pid 2\)$"
    ),
    "two zone rules": Case(
        lambda led: differ(led, tzdata="2026a"), "tzdata", r"2025b \(box, pid 1\), 2026a \(box, pid 2\)$"
    ),
    "an outdated archive": Case(
        lambda led: report(led, "old", state="outdated", trouble="a newer zsched keeps this namespace in format 2"),
        "archive_outdated", ".", "upgrade its daemon",
    ),
    "an unknown entry": Case(
        lambda led: report(led, "one", unknown_entries=2, unreadable_entries=0),
        "archive_unknown", "cannot read 2 entries of the log", "^upgrade its daemon",
    ),
    "an unreadable entry": Case(
        lambda led: report(led, "one", unknown_entries=2, unreadable_entries=2),
        "archive_unknown", "cannot read 2 entries of the log", "^it reads their effects from Redis within a minute",
    ),
    "expired and missed runs": Case(
        come_too_late, "too_late",
        "^in the last 5 min 2 runs expired in a queue, 1 occurrence expired before firing, "
        r"20 occurrences passed and will not fire \(paused, or no daemon led\)$", "zsched history --status expired",
    ),
    "runs without a timeout": Case(
        take_too_long, "default_timeout",
        "^RQ stopped runs after 180 s, its default without a timeout: report$", "zsched set ID --timeout 1h",
    ),
    "failing schedules": Case(
        lambda led: led.zadd(KEYS.failing(), {"nightly": 7, "once": FAILING - 1, **dict.fromkeys(R_0_TO_7, FAILING)}),
        "schedules_failing", r"^9 schedules whose last runs failed: nightly \(7 in a row\), r7 \(2 in a row\), "
        r"r6 \(2 in a row\), r5 \(2 in a row\) and 5 more$",
    ),
    "blocked schedules": Case(
        lambda led: led.zadd(KEYS.blocked(), {"hourly": BLOCKED, "often": BLOCKED - 1}),
        "schedules_blocked", r"^1 schedule skipped, because a run does not end: hourly \(5 in a row\)$",
    ),
    "a run that hangs": Case(
        lambda led: block(led, "stock", 20, status="started", worker_name="0123456789abcdef" * 2),
        "schedules_blocked", r"^1 schedule skipped, because a run does not end: stock \(20 in a row, running for "
        r"33\.0 s on worker 01234567…\)$", "^if it hangs, stop it: zsched cancel-run stock-1767225600000$",
    ),
    "two runs that hang": Case(
        lambda led: [block(led, id, status="started", worker_name="w") for id in ("stock", "trend")],
        "schedules_blocked", r"^2 schedules skipped, .*trend \(5 in a row, .*\), stock \(5 in a row, .* worker w\)$",
        "^zsched why ID names the run, zsched cancel-run RUN_ID stops it",
    ),
    "a queued run whose workers are busy": Case(
        wait_in_a_queue, "schedules_waiting", r"^1 schedule skipped, because a run waits in queue mail: "
        r"report \(13 in a row, queued for 2 min\)$", "start one more: .*rq worker mail$",
    ),
    "a run that waits for a slot": Case(
        lambda led: block(
            led, "report", status="rate_limited", rate_limit_key="gw", rate_limit_concurrency="1"
        ),
        "schedules_waiting", r"^1 schedule skipped, because a run waits for a slot of RQ's limit gw \(1\): ",
        "^see which run has the slot: zsched why report$",
    ),
    "a rate limit that a run holds": Case(
        lambda led: wait_for_a_slot(led, in_rq(led, "stock", status="started", worker_name="w")),
        "rate_limited", r"^RQ's limit gw \(1\) holds back 2 runs, one for 6 min.*; a slot has "
        r"stock-1767225600000 \(running for 33\.0 s on worker w\)$",
        "^if it hangs, stop it: zsched cancel-run stock-1767225600000$",
    ),
    "a rate limit that a queued run holds": Case(
        lambda led: wait_for_a_slot(led, in_rq(led, "stock", status="queued")),
        "rate_limited", r"; a slot has stock-1767225600000 \(queued for 33\.0 s\)$",
        "^see why it does not begin: zsched why stock-1767225600000$",
    ),
    "a rate limit that a job of RQ holds": Case(
        lambda led: wait_for_a_slot(led, "a-job"), "rate_limited", r"one for 6 min 40 s$", "rq info$",
    ),
    "a deadline at risk": Case(
        lambda led: report(led, "one", leads=True, at_risk=[["nightly", now_ms(led) + 600_000, 3_600_000], ["x", 5]]),
        "deadlines_at_risk", "^1 deadline at risk: nightly, in 10m, and it takes 1 h$",
        "^zsched why ID shows where its run is",
    ),
    "a paused one-shot past its time": Case(
        pause_past_its_time, "overdue_paused", "^1 paused schedule is past its time: mail-paused-once$",
        "zsched resume ID lets it fire",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_a_warning_has_a_problem_and_a_remedy(zsched: Zsched, well: redis.Redis, reason: str) -> None:
    case = REASONS[reason]
    case.hurt(well)

    result, told = zsched("status"), status(zsched)

    [warning] = told["warnings"]
    assert (DONE, True, case.name) == (result.exit_code, told["healthy"], warning["name"])
    assert re.search(case.problem, warning["problem"])
    assert re.search(case.remedy, warning["remedy"])
    first, *lines = verdict(result)
    assert first.startswith("healthy: ")
    assert [f"warning: {warning['problem']}", f"  → {warning['remedy']}"] == lines


def test_a_short_wait_for_a_slot_causes_no_warning_and_is_listed(zsched: Zsched, well: redis.Redis) -> None:
    wait_for_a_slot(well, holder := in_rq(well, "stock", status="started", worker_name="w"), for_s=200)

    told = status(zsched)

    assert [] == told["warnings"]
    [one] = told["rate_limited"]
    expected = ("gw (1)", 2, [{"id": holder, "status": "running", "worker": "w"}])
    assert expected == (one["limit"], one["waiting"], one["holders"])
    assert "held back    2 runs, by RQ's limit gw (1)" in zsched("status").stdout


def test_waits_for_the_slots_of_many_limits_take_few_round_trips(
    link: Link, well: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    holders = [in_rq(well, f"stock{n}", status="started", worker_name="w") for n in range(30)]
    for n, holder in enumerate(holders):
        wait_for_a_slot(well, holder, limit=f"gw{n:02}")
    trips, execute, replies = list[str](), Wire.execute, Wire.replies
    monkeypatch.setattr(Wire, "execute", lambda wire, *command: (trips.append("one"), execute(wire, *command))[1])
    monkeypatch.setattr(Wire, "replies", lambda wire, commands: (trips.append("many"), replies(wire, commands))[1])

    with link.wire() as wire:
        found = slot_waits(wire, KEYS).limits

    assert holders == [run.id for one in found for run in one.holders]
    assert {2} == {one.waiting for one in found}
    assert len(trips) < 10


def test_a_wait_for_a_run_that_no_worker_takes_is_reported_by_its_queue_alone(
    zsched: Zsched, well: redis.Redis
) -> None:
    holder = in_rq(well, "stock", status="queued")
    well.sadd(KEYS.rq.queues(), KEYS.rq.queue("mail"))
    well.rpush(KEYS.rq.queue("mail"), holder)
    wait_for_a_slot(well, holder)

    assert ["no_worker"] == [one["name"] for one in status(zsched)["warnings"]]


def test_a_run_that_no_worker_takes_is_reported_by_its_queue_alone(zsched: Zsched, well: redis.Redis) -> None:
    wait_in_a_queue(well)
    block(well, "stock", 20, status="started", worker_name="w")
    well.delete(KEYS.rq.queue_workers("mail"))

    told = status(zsched)

    assert ["schedules_blocked", "no_worker"] == [one["name"] for one in told["warnings"]]
    assert "report" not in told["warnings"][0]["problem"]


def test_more_waiting_schedules_than_are_read_are_reported_by_their_queue_alone(
    zsched: Zsched, well: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zsched.storage.troubled._LISTED", 2)
    wait_in_a_queue(well)
    for n in range(3):
        block(well, f"report-{n}", 9, status="queued")
    well.delete(KEYS.rq.queue_workers("mail"))

    assert ["no_worker"] == [one["name"] for one in status(zsched)["warnings"]]


def test_a_blocked_schedule_whose_run_is_over_causes_no_warning(zsched: Zsched, well: redis.Redis) -> None:
    run = block(well, "stock", status="finished", worker_name="w")

    told = status(zsched)

    assert [] == told["warnings"]
    [blocked] = told["troubled"]["blocked"]["schedules"]
    assert {"id": run, "status": "succeeded", "worker": "w"}.items() <= blocked["run"].items()


def test_the_run_in_the_way_of_a_chain_is_its_first_one(zsched: Zsched, well: redis.Redis) -> None:
    last, first = block(well, "stock", status="deferred"), block(well, "other", status="started", worker_name="w")
    well.zrem(KEYS.blocked(), "other")
    well.hset(KEYS.chains(), "stock", f"queue {first}")
    well.rpush(KEYS.waiting("stock"), last)

    [blocked] = status(zsched)["troubled"]["blocked"]["schedules"]

    assert (first, "running", "mail") == tuple(blocked["run"][name] for name in ("id", "status", "queue"))
    assert "schedules_blocked" == status(zsched)["warnings"][0]["name"]


# -- what happened lately -----------------------------------------------------------------------------


def said(zsched: Zsched, name: str) -> dict[str, str]:
    """Return the warning of that name."""
    [found] = [one for one in status(zsched)["warnings"] if one["name"] == name]
    return dict(found)


def test_a_rebuilt_redis_is_a_warning_for_half_an_hour(zsched: Zsched, led: redis.Redis) -> None:
    report(led, daemon="d2")
    at_ms = now_ms(led) - 240_000
    places = {"one-shot": "due", "rule": "due", "pushed": "open", "left": "skipped"}
    lost = [Record(id, "" if id == "rule" else "5", Place(place), "low", 5, ()) for id, place in places.items()]
    other = Record("other", "", Place.DUE, "low", 5, ())
    led.delete(KEYS.log())
    for seq, (reason, rows) in enumerate([("lost", lost), ("audit", [other])], 1):
        body = ["reason", reason, "archive", "x", *Portion(rows).texts]
        add_entry(led, KEYS.log(), f"3-{seq}", "restore", at_ms * 1000, *body, "format", FORMAT)
    for seq in (3, 4):
        add_entry(led, KEYS.log(), f"3-{seq}", "merged", at_ms * 1000, "archive", "x", "rows", 1, "3-1", 5)

    warning, result = said(zsched, "rebuilt"), zsched("status")

    at = from_ms(at_ms).strftime("%H:%M:%S")
    expected = f"Redis lost something and was rebuilt at {at} UTC: 2 restored, 1 pushed again, 1 skipped as uncertain"
    assert (DONE, expected) == (result.exit_code, warning["problem"])
    assert "zsched history --status pushed_again" in warning["remedy"]
    windows = section(result, "LAST")
    assert ["1m", "5m*", "30m*"] == [line.split()[0] for line in windows[:3]]
    assert "* Redis lost a part of that time: zsched history has more" == windows[3]
    assert "no run failed, was lost or expired in the last 30m*" in result.stdout


def test_a_merge_that_restored_nothing_is_not_a_warning(zsched: Zsched, led: redis.Redis) -> None:
    report(led, daemon="d2")
    add_entry(led, KEYS.log(), "3-13", "merged", LAST_T, "archive", "x", "rows", 1, "3-1", 5)

    told = status(zsched)

    assert ([], None) == (told["warnings"], told["recent"]["rebuilt"])
    assert all(stretch["is_whole"] for stretch in told["recent"]["stretches"])


def test_rules_blocked_by_a_clock_that_was_ahead_are_named_until_they_are_replaced(
    redis_url: str, zsched: Zsched, led: redis.Redis
) -> None:
    client, hour_ms = Client.from_url(redis_url), 3_600_000
    for id in ("changed", "silent"):
        client.schedule("app.run", id=id, every=1)
    went_on = now_ms(led) + hour_ms
    for id in ("changed", "silent"):
        led.zadd(KEYS.due_normal(), {id: went_on + 1000})
        change_progress(led, KEYS, id, nominal=went_on + 1000)
    lines = (f"{id} fired {went_on} {went_on + 1000} {went_on + 1000} -" for id in ("changed", "silent"))
    last = int(led.hget(KEYS.meta(), "epoch") or 0), int(led.hget(KEYS.meta(), "seq") or 0) + 1
    rows = row_fields("advance", *lines)
    add_entry(led, KEYS.log(), f"{last[0]}-{last[1]}", "advance", f"{went_on}000", *rows)
    led.hset(KEYS.meta(), "seq", last[1])

    client.update("changed", every=2)
    client.update("changed", every=1)

    warning = said(zsched, "clock_was_ahead")
    assert "it keeps silent 1 recurring schedule: silent" in warning["problem"]
    assert warning["problem"].endswith(": silent")
    assert "zsched set ID --every" in warning["remedy"]
    assert led.zscore(KEYS.due_normal(), "changed") < now_ms(led) + 5000


def test_a_doubt_in_the_future_is_a_warning_with_its_end(zsched: Zsched, led: redis.Redis) -> None:
    led.hset(KEYS.meta(), mapping={"doubt": now_ms(led) + 3_600_000, "hold": now_ms(led) + 3_600_000})

    warning = said(zsched, "doubt_ahead")

    assert "all that is due until" in warning["problem"]
    assert "hold" not in [line.split()[0] for line in zsched("status").stdout.splitlines() if line.strip()]


def test_the_number_of_many_paused_schedules_past_their_time_is_a_lower_bound(
    zsched: Zsched, well: redis.Redis
) -> None:
    due_ms = now_ms(well) - 1000
    well.hset(KEYS.paused(), mapping={f"p{n}": f"low {due_ms - n} 5 why" for n in range(20_000)})

    late = status(zsched)["troubled"]["overdue_paused"]

    assert 2000 <= late["count"] < 20_000
    assert (False, 100) == (late["is_all"], len(late["schedules"]))
    assert said(zsched, "overdue_paused")["problem"].startswith("at least ")


def test_keys_of_a_wrong_type_count_nothing_and_are_a_problem(zsched: Zsched, well: redis.Redis) -> None:
    well.set(KEYS.failing(), "?")
    well.set(KEYS.blocked(), "?")

    found = status(zsched)

    assert [0, 0] == [found["troubled"][kind]["count"] for kind in ("failing", "blocked")]
    assert ["wrong_type"] * 2 == [one["name"] for one in found["alarms"]]


def test_a_namespace_without_trouble_says_so_in_json(zsched: Zsched, well: redis.Redis) -> None:
    none = {"count": 0, "schedules": []}

    assert {"failing": none, "blocked": none, "overdue_paused": none | {"is_all": True}} == status(zsched)["troubled"]
