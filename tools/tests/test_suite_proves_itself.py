"""
Remove one safeguard from a script: a check of this suite must report the consequence.

Each check below passes with the unchanged scripts, and fails without the one line. So does each script test that is
named beside a line of the fence, of the hold or of the doubt.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
import redis

from tests.builders.leaders import KEYS, Leader, know
from tests.builders.namespaces import Namespace
from tests.faults.overdue import put_due
from tests.ledger import doubles, queued
from tests.lua import test_advance, test_every_script, test_fire, test_fire_refused
from tests.prefix import RQ
from tools.campaign.safeguards import HOLD, WITHOUT_FENCE, WITHOUT_HOLD
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.errors import RedisRefused, ServerChanged, Stale
from zsched.storage import scripts
from zsched.storage.dispatch import DueRecurring


@dataclass(frozen=True)
class Case:
    """A namespace with a leader and a due schedule."""

    client: Client
    redis: redis.Redis
    leader: Leader

    def tick(self) -> tuple[int, list[DueRecurring]]:
        """Return a schedule "tick" that the leader found due, and the server's time of that."""
        put_due(self.client, self.redis, ["tick"], {"func": "app.run"})
        fired = self.leader.fire()
        return fired.now_ms, fired.recurring


def check_a_stale_leader_fires_nothing(case: Case) -> None:
    case.client.schedule("app.run", id="once", after=0)
    case.redis.set(KEYS.lease(), "another:9:60000:n", px=60_000)
    with suppress(Stale):
        case.leader.fire()
    assert [] == queued(case.redis), "pushed in a term that was over"


def check_a_rolled_back_history_pushes_nothing_twice_unmarked(case: Case) -> None:
    once = case.client.schedule("app.run", id="once", after=0)
    lane = case.redis.zrange(KEYS.due_normal(), 0, -1, withscores=True)
    case.leader.fire()
    case.redis.zadd(KEYS.due_normal(), dict(lane))  # a Redis that lost its last moments
    case.redis.hset(f"{RQ}:job:{once.run_id}", "status", "scheduled")
    case.redis.hset(KEYS.meta(), "server", "the one that was promoted")
    with suppress(ServerChanged):
        case.leader.fire()
    assert [] == doubles(queued(case.redis)), "pushed twice, and nothing says that it was uncertain"


def check_a_plan_of_an_old_rule_changes_nothing(case: Case) -> None:
    now_ms, due = case.tick()
    case.client.update("tick", args=("another payload",))  # the due time stays
    assert float(due[0].due_ms) == case.redis.zscore(KEYS.due_normal(), "tick")

    assert ["changed"] == case.leader.advance(due, now_ms), "fired by a definition that is no more"


def check_one_occurrence_is_advanced_once(case: Case) -> None:
    now_ms, due = case.tick()
    for _ in range(2):
        case.leader.advance(due, now_ms)
        for run in queued(case.redis):  # a worker ran it and nothing is kept of it
            case.redis.delete(f"{RQ}:job:{run}")
    assert [] == doubles(queued(case.redis)), "one occurrence was pushed twice"


SAFEGUARDS: dict[str, tuple[Callable[[Case], None], str, str, str]] = {
    "the fence": (
        check_a_stale_leader_fires_nothing, "lib/fence.lua",
        "redis.call('GET', lease_key) ~= token", "false",
    ),
    "the server in the fence": (
        check_a_rolled_back_history_pushes_nothing_twice_unmarked, "lib/fence.lua",
        "server ~= expected_server", "false",
    ),
    "the progress in advance, of another rule": (
        check_a_plan_of_an_old_rule_changes_nothing, "advance.lua", "progress ~= seen_progress", "false",
    ),
    "the progress in advance, of another time": (
        check_one_occurrence_is_advanced_once, "advance.lua", "progress ~= seen_progress", "false",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A safeguard of a script: with *line* of *file* replaced by *instead*, *test* of tests/lua must fail."""

    file: str
    line: str
    instead: str
    test: Callable[..., None]
    arguments: tuple[object, ...] = ()

    def run(self, led: Namespace) -> None:
        """Run the script test."""
        self.test(led, *self.arguments)

    def __str__(self) -> str:
        """The name of the test case, as pytest shows it."""
        return f"{self.file}: {self.line} -> {self.instead or 'nothing'}"


_FENCE, _HOLD, _FIRE, _ADVANCE = "lib/fence.lua", "lib/hold.lua", "fire.lua", "advance.lua"
_REFUSED = test_fire_refused.test_a_leader_without_the_lease_or_on_another_server_can_do_nothing
_LEADS = test_every_script.test_a_leaders_script_needs_the_lease_and_its_server
_DUE, _OLDEST, _RUN_DUE = "tonumber(due_ms) <= doubt_ms and", "tonumber(times[1]) <= doubt_ms", "run_due_ms <= doubt_ms"
_JUMPS = test_fire_refused.test_fire_is_refused_when_the_clock_has_jumped_out_of_its_window
_HELD, _FORGOTTEN = (
    test_fire_refused.test_fire_is_refused_during_a_hold,
    test_fire_refused.test_a_hold_is_kept_unless_it_is_longer_than_any_lease,
)
_MARKED, _CLAMPED = (
    test_fire_refused.test_runs_due_before_the_doubt_are_marked_uncertain,
    test_fire_refused.test_a_doubt_in_the_future_is_lowered_to_the_current_time,
)
_SKIPPED = test_fire_refused.test_uncertain_runs_that_must_not_run_twice_are_skipped
_OCCURRENCE = test_advance.test_an_occurrence_due_before_the_doubt_is_uncertain_or_skipped
MUTANTS = [
    Mutant(_FENCE, "redis.call('GET', lease_key) ~= token", "false", _REFUSED, ("a lapsed lease",)),
    Mutant(_FENCE, "return {'STALE'}", "", _REFUSED, ("another token",)),
    Mutant(_FENCE, "server ~= expected_server", "false", _REFUSED, ("a server without a name",)),
    Mutant(_FENCE, "return {'SERVER'}", "", _REFUSED, ("a server without meta",)),
    Mutant(_FIRE, HOLD, WITHOUT_FENCE, _REFUSED, ("another token",)),
    Mutant(_ADVANCE, HOLD, WITHOUT_FENCE, _LEADS, (pytest.MonkeyPatch(), "advance")),
    Mutant(_HOLD, "now_ms < clock_from_ms or ", "", _JUMPS, (3000, 7000)),
    Mutant(_HOLD, " or now_ms > clock_until_ms", "", _JUMPS, (-7000, -3000)),
    Mutant(_HOLD, "return {'JUMPED', now_ms}", "", _JUMPS, (3000, 7000)),
    Mutant(_HOLD, "now_ms < hold_ms and ", "", test_fire.test_a_due_one_shot_moves_from_its_lane_to_its_queue),
    Mutant(_HOLD, "hold_ms <= now_ms + LONGEST_HOLD", "false", _HELD),
    Mutant(_HOLD, " + LONGEST_HOLD", " + 4000", _FORGOTTEN, (True,)),
    Mutant(_HOLD, " and hold_ms <= now_ms + LONGEST_HOLD", "", _FORGOTTEN, (False,)),
    Mutant(_HOLD, "return {'HELD', now_ms, hold_ms}", "", _HELD),
    Mutant(_FIRE, HOLD, WITHOUT_HOLD, _HELD),
    Mutant(_ADVANCE, HOLD, WITHOUT_HOLD, test_advance.test_advance_is_refused_during_a_hold_and_after_a_clock_jump),
    Mutant(_FIRE, _OLDEST, "false", _MARKED),
    Mutant(_FIRE, _OLDEST, "tonumber(times[1]) < doubt_ms", _MARKED),
    Mutant(_FIRE, _DUE, "true and", _MARKED),
    Mutant(_FIRE, _DUE, "false and", _SKIPPED, (True,)),
    Mutant(_FIRE, _DUE, "tonumber(due_ms) < doubt_ms and", _MARKED),
    Mutant(_FIRE, "new_doubt = doubt_ms > now_ms and", "new_doubt = false and", _CLAMPED),
    Mutant(_FIRE, "'doubt', new_doubt)", "'x', 1)", _CLAMPED),
    Mutant(_FIRE, "if hold_ms > now_ms then", "if false then", _FORGOTTEN, (False,)),
    Mutant(_ADVANCE, _RUN_DUE, "false", _OCCURRENCE, ("", "uncertain")),
    Mutant(_ADVANCE, _RUN_DUE, "run_due_ms < doubt_ms", _OCCURRENCE, ("", "uncertain")),
    Mutant(_ADVANCE, _RUN_DUE, "true", test_advance.test_the_doubt_is_compared_with_the_fired_occurrence),
]  # fmt: skip


@pytest.fixture
def fresh_scripts() -> Iterator[None]:
    scripts.load.cache_clear()
    yield
    scripts.load.cache_clear()


@pytest.fixture
def case(redis_client: redis.Redis, redis_url: str, fresh_scripts: None) -> Iterator[Case]:
    know(redis_client)
    leader = Leader(redis_url)
    yield Case(Client.from_url(redis_url), redis_client, leader)
    leader.close()


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_a_check_passes_with_its_safeguard(case: Case, name: str) -> None:
    SAFEGUARDS[name][0](case)


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_a_check_fails_without_its_safeguard(case: Case, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, file, line, without = SAFEGUARDS[name]
    mutate(monkeypatch, file, line, without)

    with pytest.raises(AssertionError, match=r"pushed|fired"):
        check(case)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_script_test_of_a_safeguard_line_fails_without_the_line(
    redis_server: EmbeddedRedis,
    redis_client: redis.Redis,
    fresh_scripts: None,
    mutant: Mutant,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ns = Namespace(redis_client, redis_server.url)
    ns.lead()
    ns.freeze()
    mutant.run(ns)
    redis_client.flushall()
    ns.lead()
    ns.freeze()
    mutate(monkeypatch, mutant.file, mutant.line, mutant.instead)
    ns = Namespace(redis_client, redis_server.url)

    with pytest.raises((AssertionError, pytest.fail.Exception, RedisRefused, ValueError, TypeError)):
        mutant.run(ns)


def mutate(monkeypatch: pytest.MonkeyPatch, file: str, line: str, instead: str) -> None:
    """Replace *line* of the script *file* by another one."""
    read = scripts.source

    def read_without(path: str) -> str:
        text = read(path)
        assert path != file or line in text, f"{file} has no such line any more: change this test with it"
        return text.replace(line, instead, 1) if path == file else text

    monkeypatch.setattr(scripts, "source", read_without)
    scripts.load.cache_clear()
