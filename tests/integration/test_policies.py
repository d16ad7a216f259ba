"""A real daemon after a time without one: executed and recorded occurrences under each policy of a rule."""

from typing import Any

import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.clocks import now_ms, set_back
from tests.ledger import doubles, fired, queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.triggers.trigger import build, due_of

pytestmark = pytest.mark.once
FUNC = "app.tasks.run"
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
AGO_MS = HOUR_MS + 90_000  # when rules were put: of every minute the last one passed half a minute ago

Told = tuple[str, str, int, int, int]  # outcome, why, first and last in minutes after the first, how many


def _put_an_hour_ago(client: Client, redis_client: redis.Redis, id: str = "tick", **options: Any) -> int:
    """
    Put a rule of every minute, with 61 occurrences that passed without a leader. Return the nominal time of the first.

    The clock is right again before a daemon starts: the daemon finds a Redis whose daemons were away.
    """
    with set_back(redis_client, AGO_MS):
        client.schedule(FUNC, id=id, **({"every": 60} | options))
    return client.get(id).nominal_ms or 0


def _catch_up(client: Client, redis_client: redis.Redis, redis_url: str, id: str = "tick") -> None:
    """Run a daemon until nothing is overdue."""
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        eventually(lambda: client.get(id).state.value == "ended" or not _is_overdue(client, redis_client, id))


def _is_overdue(client: Client, redis_client: redis.Redis, id: str) -> bool:
    return (client.get(id).next_ms or 0) <= now_ms(redis_client)


def _history(client: Client, first_ms: int) -> list[Told]:
    """Return the outcomes of occurrences, oldest first, with consecutive runs as one range."""
    told: list[Told] = []
    for one in reversed(client.history("tick", limit=200)):
        times = (one.first_ms, one.last_ms) if one.first_ms is not None else (one.nominal_ms,) * 2
        first, last = ((ms or 0) - first_ms for ms in times)
        assert first % MINUTE_MS == last % MINUTE_MS == 0
        row = (one.what.value, one.why, first // MINUTE_MS, last // MINUTE_MS, max(one.count, 1))
        if told and told[-1][:2] == row[:2] == ("fired", "") and told[-1][3] + 1 == row[2]:
            row = (*row[:2], told[-1][2], row[3], told[-1][4] + 1)
            told.pop()
        told.append(row)
    return told


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [("coalesced", "", 0, 59, 60), ("fired", "", 60, 60, 1)]),
        ({"catch_up_window": 600}, [("coalesced", "", 0, 59, 60), ("fired", "", 60, 60, 1)]),
        ({"catch_up": "none"}, [("skipped", "missed", 0, 60, 61)]),
        (
            {"catch_up": "all", "overlap": "allow", "catch_up_limit": 61},
            [("fired", "", 0, 60, 61)],
        ),
        (
            {"catch_up": "all", "overlap": "allow", "catch_up_limit": 5},
            [("skipped", "limit", 0, 55, 56), ("fired", "", 56, 60, 5)],
        ),
        (
            {"catch_up": "all", "overlap": "allow", "catch_up_window": 655},
            [("skipped", "missed", 0, 49, 50), ("fired", "", 50, 60, 11)],
        ),
        (
            {"catch_up": "all", "overlap": "allow", "catch_up_window": 655, "catch_up_limit": 2},
            [("skipped", "missed", 0, 49, 50), ("skipped", "limit", 50, 58, 9), ("fired", "", 59, 60, 2)],
        ),
    ],
    ids=["latest", "latest in a window", "none", "all", "all in a limit", "all in a window", "all in both"],
)
def test_every_missed_occurrence_of_an_hour_has_the_outcome_of_its_policy(
    client: Client, redis_client: redis.Redis, redis_url: str, options: dict[str, Any], expected: list[Told]
) -> None:
    first_ms = _put_an_hour_ago(client, redis_client, **options)

    _catch_up(client, redis_client, redis_url)

    assert expected == _history(client, first_ms)
    runs = queued(redis_client)
    assert [run for run, _ in fired(redis_client)] == runs, "in the order of their times"
    assert sorted(runs) == runs
    assert [] == doubles(runs)
    assert sum(row[4] for row in expected if row[0] == "fired") == len(runs)


@pytest.mark.parametrize("bound", [{"count": 30}, {"ends": "after the thirtieth"}], ids=["count", "ends"])
@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("latest", [("coalesced", "", 0, 28, 29), ("fired", "", 29, 29, 1)]),
        ("none", [("skipped", "missed", 0, 29, 30)]),
        ("all", [("fired", "", 0, 29, 30)]),
    ],
)
def test_a_rule_that_ended_without_a_daemon_is_caught_up_and_ends(
    client: Client,
    redis_client: redis.Redis,
    redis_url: str,
    bound: dict[str, Any],
    catch_up: str,
    expected: list[Told],
) -> None:
    if "ends" in bound:
        bound = {"ends": from_ms(now_ms(redis_client) - AGO_MS + 30 * MINUTE_MS + 30_000)}
    overlap = {"overlap": "allow"} if catch_up == "all" else {}
    first_ms = _put_an_hour_ago(client, redis_client, catch_up=catch_up, **overlap, **bound)

    _catch_up(client, redis_client, redis_url)

    assert expected == _history(client, first_ms)
    assert "ended" == client.get("tick").state.value


def test_a_rule_late_beyond_its_catch_up_window_runs_only_at_its_next_time(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    first_ms = _put_an_hour_ago(client, redis_client, every=1800, catch_up_window=60, count=3)

    _catch_up(client, redis_client, redis_url)

    assert [("skipped", "missed", 0, 30, 2)] == _history(client, first_ms)
    assert ([], first_ms + 2 * 1800 * 1000) == (queued(redis_client), client.get("tick").next_ms)


def test_why_names_missed_and_expired_occurrences(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    _put_an_hour_ago(client, redis_client, every=1800, catch_up_window=60)
    _put_an_hour_ago(client, redis_client, "old", every=1800, expires_after=60)
    with set_back(redis_client, HOUR_MS):
        client.schedule(FUNC, id="once", after=60, expires_after=60)

    with DaemonThread(redis_url):
        eventually(lambda: {"tick", "old"} == {one.id for one in client.list(due_after=from_ms(now_ms(redis_client)))})

    missed, old, once = ("\n".join(text for _, text in client.why(id).lines) for id in ("tick", "old", "once"))
    assert "too late for its catch_up and catch_up_window" in missed
    assert "expired: the occurrence of " in old
    assert "more than expires_after allows" in old
    assert "expired: the occurrence of " in once
    assert [] == queued(redis_client)


# -- expiry ---------------------------------------------------------------------------------------


def test_a_run_past_its_deadline_is_recorded_and_not_pushed(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with set_back(redis_client, HOUR_MS):
        late = client.schedule(FUNC, id="late", after=60, expires_after=1800)
        client.schedule(FUNC, id="patient", after=60, expires_after=7200)

    with DaemonThread(redis_url) as daemon:
        assert {"run_id": late.run_id}.items() <= daemon.wait_for("run_expired").items()
        eventually(lambda: redis_client.llen(f"{RQ}:queue:default") == 1)

    [run] = queued(redis_client)
    assert run.startswith("patient-")
    assert 0 == redis_client.exists(f"{RQ}:job:{late.run_id}")
    assert HOUR_MS < redis_client.pttl(f"{RQ}:job:{run}") <= HOUR_MS + MINUTE_MS, "what is left of two hours"
    [expired] = client.history("late")
    assert (What.EXPIRED, late.run_id) == (expired.what, expired.run_id)
    assert HOUR_MS - MINUTE_MS <= (expired.late_ms or 0) < HOUR_MS


def test_late_occurrences_of_a_rule_expire_individually(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    options = {"catch_up": "all", "overlap": "allow", "expires_after": 655}
    first_ms = _put_an_hour_ago(client, redis_client, **options)

    _catch_up(client, redis_client, redis_url)

    told = _history(client, first_ms)
    assert [("expired", "", minute, minute, 1) for minute in range(50)] == told[:50]
    assert [("fired", "", 50, 60, 11)] == told[50:]
    assert 11 == len(queued(redis_client))


# -- jitter ---------------------------------------------------------------------------------------


def test_schedules_of_one_rule_are_spread_over_its_jitter_and_never_early(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        starts = from_ms(now_ms(redis_client) // 1000 * 1000 + 2000)  # timing: early would be wrong, late never is
        rule = {"func": FUNC, "every": 3600, "jitter": 2, "starts": starts}
        with set_back(redis_client, MINUTE_MS):  # so that the put comes in time
            client.schedule_many({**rule, "id": f"s{n}"} for n in range(40))
            schedules = list(client.list())  # before one fires
        eventually(lambda: redis_client.llen(f"{RQ}:queue:default") == 40)

    dues = {one.id: one.next_ms or 0 for one in schedules}
    runs = {run.rpartition("-")[0]: t_us for run, t_us in fired(redis_client)}
    [nominal_ms] = {one.nominal_ms or 0 for one in schedules}
    assert all(nominal_ms <= due_ms <= nominal_ms + 2000 for due_ms in dues.values())
    assert len(set(dues.values())) > 30
    assert all(runs[id] >= dues[id] * 1000 for id in dues)
    assert {f"{id}-{nominal_ms}" for id in dues} == {run for run, _ in fired(redis_client)}
    for one in client.list():
        assert one.trigger is not None
        trigger = build(one.trigger, one.anchor_ms or 0)
        assert nominal_ms + HOUR_MS == one.nominal_ms
        assert due_of(trigger, one.id, nominal_ms + HOUR_MS) == one.next_ms
