"""lib/liveness.lua: the common judgement of overlap, chains and lost runs about a dead worker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lua.ground import SERVER, TOKEN, Ground
from tests.lua.overlapping import advance, becomes, fired
from tests.lua.test_lost import PACKED
from tests.prefix import RQ
from zsched.core.job import rq_time

HOUR_S = 3600


def skip(led: Ground, run: str) -> bool:
    """Return whether ``overlap="skip"`` ignores the run."""
    return advance(led, "skip")[0] == "fired"


def chain(led: Ground, run: str) -> bool:
    """Return whether ``overlap="queue"`` releases the next run."""
    waits = advance(led, "queue")[1]
    _, *needs = led.call("survey", cursor="0", count=100)
    return [f"r\0release\0{waits}\0urgent\0the worker w of {run} died"] == needs


def lost(led: Ground, run: str) -> bool:
    """Return True if ``lost`` ends the run as lost."""
    heartbeat = led.job(run).get("last_heartbeat", "")
    dead = ["r", run, "started", heartbeat, "", "end", "lost", "{}", PACKED]
    seen = {"seen_entry": led.last.id, "seen_t": led.last.t}
    return led.call("lost", dead, token=TOKEN, expected_server=SERVER, ended_ms=1, **seen)[4] == [run]


JUDGES = [skip, chain, lost]


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    ("silent_s", "execution", "is_dead"),
    [
        (1, "lapsed", False),
        (61.9, "lapsed", False),  # a worker that lost its connection, or the memory of Redis, is back by then
        (62.1, "lapsed", True),
        (62.1, None, True),  # RQ forgets the list of executions a minute later
        (62.1, "alive", False),
        (HOUR_S, "alive", False),  # by a clock that is behind; or of a SimpleWorker, which beats once
        (-HOUR_S, "lapsed", False),  # by a clock that is ahead: it is found as much later
        (None, "lapsed", False),  # no worker of RQ's writes that
    ],
)
def test_overlap_chains_and_lost_runs_agree_on_whether_a_worker_is_dead(
    led: Ground, judge: Callable[[Ground, str], bool], silent_s: float | None, execution: str | None, is_dead: bool
) -> None:
    [run] = fired(led, "skip")
    heartbeat = {} if silent_s is None else {"last_heartbeat": rq_time(led.now_ms - int(silent_s * 1000))}
    becomes(led, run, "started", worker_name="w", **heartbeat)
    if execution is not None:
        led.redis.zadd(f"{RQ}:executions:{run}", {"x": 1})
    if execution == "alive":
        led.redis.set(f"{RQ}:execution:{run}:x", "")

    assert is_dead == judge(led, run)


@pytest.mark.parametrize("status", ["queued", "deferred", "scheduled"])
def test_a_run_that_has_not_started_has_no_dead_worker(led: Ground, status: str) -> None:
    [run] = fired(led, "skip")
    becomes(led, run, status, worker_name="w", last_heartbeat=rq_time(led.now_ms - HOUR_S * 1000))

    assert [False, False, False] == [judge(led, run) for judge in (lost, chain, skip)]
