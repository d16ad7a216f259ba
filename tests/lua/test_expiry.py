"""Expiry, in every script that pushes: a run past its deadline is recorded, not pushed; a pushed run has a deadline."""

from collections.abc import Callable

import pytest

from tests.builders.namespaces import EPOCH, FIELDS, HOUR_MS, TEMPLATE, Namespace
from tests.builders.progress import change_progress
from tests.builders.records import open_run, texts_of
from tests.lua.restoring import restore
from tests.lua.test_retry import retry
from tests.prefix import RQ
from zsched.core.runs.run import EXPIRED, EXPIRED_OR_ENDED, RunStatus, of_job
from zsched.storage.jobs import Deadlines, Jobs

MINUTE_MS = 60_000
EXPIRES = {"zs_expires": str(MINUTE_MS)}
ONCE = FIELDS | EXPIRES | {"zs": "1e"}
CALL = {"op": "op-1"}


def _put(ns: Namespace, late_ms: int, *ids: str, **fields: str) -> list[str]:
    """Put one-shots that expire after a minute and are *late_ms* late; return their run ids."""
    due_ms = ns.now_ms - late_ms
    ns.put(*((id, due_ms) for id in ids), allow_past=1, fields=ONCE | fields)
    return [f"{id}-{due_ms}" for id in ids]


def _due_rule(ns: Namespace, late_ms: int = 1000, template: dict[str, str] | None = None) -> list[str]:
    """Return the row of fire for rule r, which is *late_ms* late."""
    ns.put_recurring("r", next=ns.now_ms - late_ms, template=EXPIRES if template is None else template)
    [row] = ns.fire().recurring
    return row


def _has_deadline_at(ns: Namespace, run: str, deadline_ms: int) -> bool:
    """
    Return True if a run has that deadline and Redis deletes its job at that time: its time to live when it was pushed,
    minus at most the time that passed since the test began.
    """
    left_ms, whole_ms = int(ns.redis.pttl(ns.keys.rq.job(run))), deadline_ms - int(ns.last.t) // 1000
    is_told = str(deadline_ms) == ns.job(run)["zs_deadline"]
    return is_told and whole_ms - (ns.server_ms - ns.began_ms) - 1 <= left_ms <= whole_ms  # whole ms, so 1 less


# -- fire -----------------------------------------------------------------------------------------


def test_a_one_shot_past_its_deadline_is_recorded_as_expired_and_removed(led: Namespace) -> None:
    [run] = _put(led, MINUTE_MS + 1, "a")  # now_ms is rounded up

    fired = led.fire()

    assert ([run], 0, 1, []) == (fired.expired, fired.runs, fired.looked, fired.skipped)
    assert ([], {}, {}) == (led.queue(), led.places(), led.job(run))
    assert (f"{EPOCH}-2", "fire", ["expired", run]) == (led.last.id, led.last.kind, led.last.texts)


@pytest.mark.parametrize(("moved_ms", "late_ms"), [(0, MINUTE_MS - 5000), (-HOUR_MS, 1000)])  # also a test's clock
def test_a_one_shot_before_its_deadline_fires_with_the_time_left(led: Namespace, moved_ms: int, late_ms: int) -> None:
    led.pass_time(moved_ms)
    [run] = _put(led, late_ms, "a")

    fired = led.fire()

    assert ([], 1, [run]) == (fired.expired, fired.runs, led.queue())
    assert _has_deadline_at(led, run, int(run.rpartition("-")[2]) + MINUTE_MS)
    assert "queued" == led.job(run)["status"]


def test_only_the_late_one_shots_of_a_batch_expire(led: Namespace) -> None:
    late, early = _put(led, HOUR_MS, "l1", "l2"), _put(led, 1000, "e")
    led.put(("plain", led.now_ms - HOUR_MS), allow_past=1)

    fired = led.fire()

    assert (late, 2) == (fired.expired, fired.runs)
    assert {"plain", "e"} == {run.rpartition("-")[0] for run in led.queue()}
    assert " ".join(late) == led.last.fields["expired"]
    assert early[0] in led.last.fields["runs"]
    assert -1 == led.redis.pttl(led.keys.rq.job(next(run for run in led.queue() if run.startswith("plain"))))


@pytest.mark.parametrize("flags", ["1e", "1fe", "1se", "1fse"])
def test_expiry_is_decided_before_doubt_and_front_flag(led: Namespace, flags: str) -> None:
    led.redis.hset(led.keys.meta(), "doubt", led.now_ms + HOUR_MS)
    [late], [early] = _put(led, HOUR_MS, "l", zs=flags), _put(led, 1000, "e", zs=flags)

    fired = led.fire()

    assert [late] == fired.expired
    if "s" in flags:
        assert ([early], {}) == (fired.skipped, led.job(early))
    else:
        assert (1, "1") == (fired.uncertain, led.job(early)["zs_uncertain"])
        assert "zs_deadline" in led.job(early)


@pytest.mark.parametrize("broken", ["", "soon", "1e400x"])
def test_a_corrupted_deadline_is_ignored(led: Namespace, broken: str) -> None:
    [run] = _put(led, HOUR_MS, "a", zs_expires=broken)

    fired = led.fire()

    assert (1, [run]) == (fired.runs, led.queue())
    assert -1 == led.redis.pttl(led.keys.rq.job(run))


# -- advance --------------------------------------------------------------------------------------


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_occurrence_past_its_deadline_is_recorded_and_its_rule_continues_or_ends(
    led: Namespace, goes_on: bool
) -> None:
    row, next_ms = _due_rule(led, MINUTE_MS + 1000), led.now_ms + HOUR_MS
    change_progress(led.redis, led.keys, "r", last="r-1")  # an overlap, which does not matter
    led.redis.hset(led.keys.rq.job("r-1"), mapping={"status": "queued", "enqueued_at": "2999-01-01T00:00:00.000000Z"})

    words = led.advance(([*row[:3], led.progress("r")], int(row[2]), next_ms if goes_on else ""))

    assert (["expired"], [], {"r": f"normal {next_ms}"} if goes_on else {}) == (words, led.queue(), led.places())
    told = next_ms if goes_on else "-"
    assert [f"r expired {row[2]} {told} {told} -"] == led.last.rows
    assert 0 == led.redis.exists(f"{RQ}:job:r-{row[2]}")
    schedule = led.schedule("r")
    assert ("r-1", not goes_on) == (schedule["last"], "ended_at" in schedule)
    assert (str(next_ms) if goes_on else None) == schedule.get("nominal")


@pytest.mark.parametrize("jitter_ms", [0, HOUR_MS])
def test_the_deadline_of_a_run_of_a_rule_counts_from_its_due_time(led: Namespace, jitter_ms: int) -> None:
    row = _due_rule(led)
    due_ms, next_ms = int(row[2]), led.now_ms + HOUR_MS

    assert ["fired"] == led.advance((row, due_ms - jitter_ms, next_ms), jitter_ms=jitter_ms)

    run = f"r-{due_ms - jitter_ms}"
    assert [run] == led.queue()
    assert _has_deadline_at(led, run, due_ms + MINUTE_MS)
    assert TEMPLATE | EXPIRES | {"status": "queued"} == led.template("r"), "the template is copied, and does not expire"
    assert -1 == led.redis.pttl(led.keys.template("r"))


@pytest.mark.parametrize("next", ["goes on", "ends"])
def test_dropped_occurrences_without_a_run_are_recorded_and_the_schedule_continues(led: Namespace, next: str) -> None:
    row, then = _due_rule(led), led.now_ms + HOUR_MS if next == "goes on" else ""
    passed = f"missed:{int(row[2]) - 5000}:{int(row[2]) - 1000}:5,limit:{row[2]}:{row[2]}:1"

    assert ["passed"] == led.advance((row, "", then, passed))

    told = then or "-"
    assert [f"r passed - {told} {told} {passed}"] == led.last.rows
    assert ([], "last" in led.schedule("r")) == (led.queue(), False)
    assert ({"r": f"normal {then}"} if then else {}) == led.places()
    assert ("ended_at" in led.schedule("r")) == (not then)


def test_dropped_occurrences_are_recorded_in_the_row_of_the_run_that_fired(led: Namespace) -> None:
    row, next_ms = _due_rule(led), led.now_ms + HOUR_MS

    assert ["fired"] == led.advance((row, int(row[2]), next_ms, "missed:5:7:3"))
    assert [f"r fired {row[2]} {next_ms} {next_ms} missed:5:7:3"] == led.last.rows


# -- on request -----------------------------------------------------------------------------------


def _enqueue(ns: Namespace, **fields: str) -> str:
    return str(ns.enqueue("a", TEMPLATE | fields, **CALL)[-1])


def _run_rule(ns: Namespace, **fields: str) -> str:
    ns.put_recurring("r", template=fields)
    return str(ns.call("run_now", id="r", **CALL)[-1])


def _run_one_shot(ns: Namespace, **fields: str) -> str:
    ns.put(("a", ns.now_ms + HOUR_MS), fields=FIELDS | fields | {"zs": "1e" if fields else "1"})
    return str(ns.call("run_now", id="a", **CALL)[-1])


def _retry(ns: Namespace, **fields: str) -> str:
    """Retry a finished run that had a deadline."""
    of_it = {"status": "failed", "zs_deadline": "5"} if fields else {"status": "failed"}
    ns.redis.hset(ns.keys.rq.job("a-1700000000000"), mapping=TEMPLATE | of_it | fields)
    return str(retry(ns)[-1])


def _retry_forgotten(ns: Namespace, **fields: str) -> str:
    return str(retry(ns, pairs=TEMPLATE | fields)[-1])


REQUESTS = [_enqueue, _run_rule, _run_one_shot, _retry, _retry_forgotten]


@pytest.mark.parametrize("fields", [EXPIRES, {}], ids=["with expiry", "without expiry"])
@pytest.mark.parametrize("push", REQUESTS)
def test_a_deadline_counts_from_the_request(led: Namespace, push: Callable[..., str], fields: dict[str, str]) -> None:
    run = push(led, **fields)

    assert ([run], fields.get("zs_expires")) == (led.queue(), led.job(run).get("zs_expires"))
    if fields:
        assert _has_deadline_at(led, run, int(led.last.t) // 1000 + MINUTE_MS)
    else:
        assert (False, -1) == ("zs_deadline" in led.job(run), led.redis.pttl(led.keys.rq.job(run)))


# -- afterwards -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pushed_ms_ago", [1000, 30_000])
def test_a_restored_runs_deadline_counts_from_its_push_not_its_nominal_time(ns: Namespace, pushed_ms_ago: int) -> None:
    pushed_ms, long_ago_ms = ns.now_ms - pushed_ms_ago, ns.now_ms - 7 * 24 * HOUR_MS
    job = texts_of(FIELDS | EXPIRES | {"data": "call", "zs": "1e"})

    restore(ns, open_run(run=str(long_ago_ms), job=job, t_us=pushed_ms * 1000), hold_for_ms=0)

    assert _has_deadline_at(ns, f"a-{long_ago_ms}", pushed_ms + MINUTE_MS)


@pytest.mark.parametrize(
    ("watched_since_ms", "expected"), [(59_000, EXPIRED), (61_000, EXPIRED_OR_ENDED), (None, EXPIRED_OR_ENDED)]
)
def test_expired_before_start_is_claimed_only_if_its_end_would_have_been_recorded(
    ns: Namespace, watched_since_ms: int | None, expected: str
) -> None:
    pushed_ms, run = ns.now_ms, _enqueue(ns, **EXPIRES)
    ns.redis.delete(ns.keys.rq.job(run))
    ns.pass_time(MINUTE_MS + 500)
    since_ms = None if watched_since_ms is None else pushed_ms + watched_since_ms

    [job] = Jobs(ns.link, ns.keys).read([run])
    told = of_job(run, job, pushed_ms * 1000, watched_since_ms=since_ms)

    assert (RunStatus.EXPIRED, expected) == (told.status, told.error)


def test_a_run_that_is_gone_before_its_deadline_did_not_expire(ns: Namespace) -> None:
    run = _enqueue(ns, **EXPIRES)
    ns.redis.delete(ns.keys.rq.job(run))

    assert [None] == Jobs(ns.link, ns.keys).read([run])


def test_a_run_with_an_execution_counts_as_running_not_as_expired(ns: Namespace) -> None:
    run = _enqueue(ns, **EXPIRES)
    ns.redis.delete(ns.keys.rq.job(run))
    ns.redis.zadd(f"{RQ}:executions:{run}", {"one": 1})
    ns.pass_time(2 * MINUTE_MS)

    [job] = Jobs(ns.link, ns.keys).read([run])

    assert RunStatus.RUNNING is of_job(run, job, None).status


def test_a_passed_deadline_is_kept_for_ten_minutes_after_it_was_returned(ns: Namespace) -> None:
    run = _enqueue(ns, **EXPIRES)
    ns.pass_time(24 * HOUR_MS)  # nobody led
    deadlines = Deadlines(ns.link, ns.keys)  # type: ignore[arg-type]  # a link does for a wire

    assert [[run], [], []] == [deadlines.passed() for _ in range(3)]
    assert 1 == ns.redis.zcard(ns.keys.deadlines())
    ns.pass_time(10 * MINUTE_MS + 1000)
    assert [] == deadlines.passed()

    assert 0 == ns.redis.zcard(ns.keys.deadlines())


def test_a_look_for_deadlines_is_one_command_while_there_are_none_and_returns_the_first_once(ns: Namespace) -> None:
    deadlines = Deadlines(ns.link, ns.keys)  # type: ignore[arg-type]  # a link does for a wire
    deadlines.passed()
    before = ns.redis.info("stats")["total_commands_processed"]
    assert [] == deadlines.passed()
    assert 2 == ns.redis.info("stats")["total_commands_processed"] - before  # with this INFO

    run = _enqueue(ns, **EXPIRES)
    ns.pass_time(24 * HOUR_MS)

    assert [[run], []] == [deadlines.passed(), deadlines.passed()]
