"""The recovery protocol keeps its promises, and breaks one without any of its rules."""

from typing import NamedTuple

import pytest

from tests.model.invariants import Broken, Invariant
from tests.model.rules import ALL_KEPT, Rule
from tests.model.search import Run, make_run, search
from tests.model.world import World, outcome, read, show


class Case(NamedTuple):
    """A history that breaks *invariant* when *rule* is left out, and is harmless when the rule is kept."""

    rule: Rule
    invariant: Invariant
    history: str


# Who leads has named the data set, and the hold of its first acquire is over.
NAMED = "acquire {0} · fire {0} · tick ×2 · fire {0} · tick · fire {0} · "

# A leads, and has archived that.
LED = NAMED.format("A") + "follow A ×5 · "

RETURNS_WITH_AN_OLD_NAME = (
    LED + "put 0 999 · follow B ×8 · pause B · new_disk A · flush · tick ×9 · acquire A · tick ×2 · fire A ×2 · "
    "put 1 999 · follow A ×8 · flush · tick ×9 · pause B · "
)

# A and B have archived the put of 0, then A alone its cancel; all is lost, and A has recovered when B returns. It is
# silent for longer than B waits, and then reads that B put back what it knows to be cancelled.
SILENT_FOR_LONG = (
    "put 0 999 · follow A ×5 · follow B ×5 · {}cancel 0 · follow A ×2 · crash B · flush · "
    "follow A · tick · follow A ×8 · crash B · follow B · tick ×5 · follow B ×3"
)

# A knows that the run of 0 has ended, B that it was fired, and B returns when A follows the new log, and is slow.
END_KNOWN_TO_A = (
    f"{LED}put 0 0 · follow A · follow B ×9 · fire A · follow B ×2 · "
    "crash B · work · track A · follow A ×5 · flush · follow A · tick · follow A ×8 · crash B · follow B ×3 · "
    "follow A · tick ×2 · follow B ×3 · follow A · follow B ×5"
)

# Redis is restarted while the clock is ahead; then it is right, and 3 (skip) is put. Nothing was lost.
CLOCK_WAS_AHEAD = LED + "clock ahead · restart · acquire A · clock right · acquire A · fire A · put 3 5 · tick ×9"

# A has archived the put of 3, a rollback loses it, A puts it back and says so; then all is lost.
LOST_AFTER_A_MERGE = (
    "acquire A · follow A ×5 · snapshot · put 3 999 · follow A ×2 · rollback · follow A · tick · follow A ×{} · "
    "flush · acquire B"
)

# A rollback to a lower epoch; 4 is fired and done and all that is trimmed, before the ids are where A's ended.
TRIMMED_AT_LOWER_IDS = (
    f"{NAMED.format('B')}put 4 8 · put 1 999 · snapshot · tick ×3 · acquire B · tick ×3 · acquire B · put 1 999 ×3 · "
    "trim B · follow A ×5 · pause A · rollback · acquire B · tick ×2 · fire B · tick · fire B · work · track B · "
    "put 1 999 ×3 · trim B · pause A · follow A"
)

CASES = [
    Case(Rule.IDENTITY, Invariant.I3, "put 1 1 · follow A ×4 · flush · put 3 1"),
    Case(Rule.SERVER, Invariant.I2, LED + "put 4 0 · fire A · failover 1 · fire A"),
    Case(Rule.SERVER, Invariant.I2, LED + "put 3 0 · fire A · failover 1 · fire A"),
    Case(Rule.DOUBT, Invariant.I2, LED + "put 4 0 · fire A · failover 1"),
    Case(Rule.HOLD_ENDS, Invariant.I5, "put 4 2 · follow A ×4 · flush"),
    Case(
        Rule.COMPARE_AND_SET,
        Invariant.I2,
        LED + "put 2 1 · follow A ×2 · flush · follow A · tick · follow A · acquire B · fire B · tick ×4 · put 2 0 · "
        "acquire B · fire B · work · follow A · fire B ×2",
    ),
    Case(
        Rule.BRANCH,
        Invariant.I2,
        "acquire B · put 0 2 · tick ×2 · fire B · tick · follow A ×2 · fire B · follow A ×2 · flush · follow A · "
        "tick · follow A ×2 · work · acquire B · track B",
    ),
    Case(
        Rule.GONE_TOO,
        Invariant.I1,
        "put 2 999 · snapshot · flush · put 2 999 · follow A ×4 · cancel 2 · follow A · rollback",
    ),
    Case(
        Rule.LATEST_CHANGE,
        Invariant.I1,
        "put 2 999 · follow A ×4 · follow B ×4 · crash A · put 2 999 · follow B · crash B · crash A · flush · "
        "follow A · tick · follow A ×7 · crash B",
    ),
    Case(Rule.OPEN_IS_UNCERTAIN, Invariant.I2, LED + "put 4 0 · fire A · follow A ×3 · flush"),
    Case(Rule.OPEN_IS_UNCERTAIN, Invariant.I2, LED + "put 3 0 · fire A · follow A ×3 · flush"),
    Case(Rule.CORRECTS, Invariant.I1, SILENT_FOR_LONG.format("")),
    Case(Rule.NEWEST_ONLY, Invariant.I1, SILENT_FOR_LONG.format("") + " · put 0 999 · new_disk B"),
    Case(Rule.BY_ORDER, Invariant.I1, SILENT_FOR_LONG.format("back · ")),
    Case(Rule.TOLD_ONCE, Invariant.I5, SILENT_FOR_LONG.format("back · ")),
    Case(Rule.WHENEVER_PUT, Invariant.I2, LED + "put 3 0 · fire A · flush · acquire A · put 3 0"),
    # B has archived the push that a failover loses, and is away when A shows that it lacks nothing.
    Case(
        Rule.ALL_SHOW,
        Invariant.I2,
        LED + "follow B ×9 · put 2 0 · follow B ×2 · follow A ×2 · fire A · follow B ×2 · crash B · failover 1 · "
        "acquire A · tick ×4 · acquire A · follow A ×3 · put 2 0 · follow A · acquire A · fire A ×2",
    ),
    Case(
        Rule.OLD_SHOW,
        Invariant.I2,
        "put 0 2 · acquire B · follow A · tick · follow B · tick · follow A · fire B · tick · follow A · "
        "follow B · follow A · follow B · fire B · follow B · flush · acquire A · fire A · new_disk A · "
        "new_disk B · put 0 999",
    ),
    # The loss is found before the leader notices the change of server; then after another restart.
    Case(
        Rule.LOSS_STAYS,
        Invariant.I2,
        "put 2 2 · acquire A · tick · follow A · fire A · put 1 2 · tick · follow A · tick · fire A · follow A ×2 · "
        "failover 3 · follow A · tick · follow A ×3 · acquire A · put 2 1",
    ),
    Case(
        Rule.LOSS_STAYS,
        Invariant.I2,
        "put 1 2 · acquire A · follow A · follow B · tick · follow A · follow B ×2 · tick · follow B · "
        "crash B · fire A · tick · fire A · follow A ×2 · failover 3 · follow A · tick · follow A ×6 · "
        "crash B · acquire B · put 1 999 · follow B · tick · follow A ×2",
    ),
    Case(Rule.PASSED_BY_TIME, Invariant.I2, TRIMMED_AT_LOWER_IDS),
    Case(
        Rule.COMPLETE,
        Invariant.I2,
        "flush · "
        + LED
        + "put 4 0 · follow A ×2 · acquire B · pause A · tick ×3 · acquire B · fire B · work · track B · "
        "put 1 999 ×3 · trim B · pause A · follow A · tick · follow A",
    ),
    Case(
        Rule.ONE_HISTORY, Invariant.I4, "put 1 2 · follow B · put 0 999 · put 0 1 · put 4 999 · follow B · failover 3"
    ),
    Case(Rule.KEEP_OLD, Invariant.I1, LOST_AFTER_A_MERGE.format(4)),
    Case(Rule.MERGED_STAYS, Invariant.I1, LOST_AFTER_A_MERGE.format(4)),
    Case(Rule.NAME, Invariant.I7, LED + "put 1 999 · follow A ×3 · swap · follow A · tick"),
    Case(Rule.ASK, Invariant.I4, LED + "put 0 999 · follow A ×3 · new_disk B · flush · acquire B · fire B"),
    # B comes back with an old name when the Redis of a new one is flushed. Then the leader names it, or B restores.
    Case(Rule.FURTHEST, Invariant.I4, RETURNS_WITH_AN_OLD_NAME + "acquire B · fire B · follow A"),
    Case(Rule.FURTHEST, Invariant.I4, RETURNS_WITH_AN_OLD_NAME + "follow B ×2 · tick ×2 · follow B ×4"),
    # The archive was behind: it followed, and knew no name yet, when the leader fired.
    Case(
        Rule.NEW,
        Invariant.I2,
        "acquire A · follow A ×5 · fire A · tick ×2 · fire A · tick · fire A · put 4 0 · fire A · flush · "
        "acquire A · put 4 0 · fire A · tick ×2 · fire A · tick · fire A ×2",
    ),
]

# No promise depends on these: they spare work, or a mark on a run that nobody lost, and have tests of their own.
SPARE_WORK = {Rule.HOLD, Rule.YIELD, Rule.WAIT, Rule.MERGED_COVERS, Rule.CLAMP}


def play(history: str, *left_out: Rule) -> tuple[Broken | None, World]:
    """Return the promise that *history* breaks, and the world afterwards."""
    world = World(frozenset(left_out), retain=3)
    return outcome(world, read(history)), world


@pytest.mark.parametrize(("daemons", "seeds"), [(2, 120), (3, 40)])
def test_random_histories_keep_every_promise(daemons: int, seeds: int) -> None:
    findings = list(search(range(seeds), daemons=daemons))[-1]

    assert {} == findings.broken


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule.name}-{case.invariant.name}")
def test_a_promise_breaks_without_the_rule(case: Case) -> None:
    broken, _ = play(case.history, case.rule)

    assert broken is not None
    assert case.invariant is broken.invariant, broken.what


@pytest.mark.parametrize("history", sorted({case.history for case in CASES}))
def test_a_history_that_breaks_a_promise_is_harmless_with_all_rules(history: str) -> None:
    broken, _ = play(history)

    assert broken is None, broken


def test_every_rule_has_a_history_that_needs_it() -> None:
    assert set(Rule) == {case.rule for case in CASES} | SPARE_WORK


def test_the_hold_prevents_a_second_push_of_a_run_that_ended() -> None:
    history = LED + "put 4 0 · snapshot · fire A · work · track A · follow A ×4 · rollback · fire A ×2"

    with_hold, without_hold = (play(history, *left_out)[1].witness for left_out in ([], [Rule.HOLD]))

    assert (0, 1) == (with_hold.pushed_in_vain, without_hold.pushed_in_vain)


def test_a_daemon_that_yields_is_refused_less_often() -> None:
    puts = " · ".join(f"put {id} 999" for id in range(5))
    history = (
        f"{puts} · follow A ×4 · follow B ×4 · flush · follow A · follow B · tick · " + "follow A · follow B · " * 20
    )

    yielding, insisting = (play(history + "tick", *left_out)[1].witness for left_out in ([], [Rule.YIELD]))

    assert yielding.refused < insisting.refused


@pytest.mark.parametrize("rule", [Rule.WAIT, Rule.MERGED_COVERS])
def test_waiting_for_a_following_archive_prevents_a_second_push_of_an_ended_run(rule: Rule) -> None:
    awaited, ignored = (play(END_KNOWN_TO_A, *left_out)[1].witness for left_out in ([], [rule]))

    assert (0, 1) == (awaited.pushed_in_vain, ignored.pushed_in_vain)


def test_runs_put_after_a_clock_was_corrected_are_not_uncertain() -> None:
    (broken, clamped), (_, believed) = play(CLOCK_WAS_AHEAD), play(CLOCK_WAS_AHEAD, Rule.CLAMP)

    assert broken is None
    assert (set(), {3}) == (clamped.witness.skipped, believed.witness.skipped)


@pytest.mark.parametrize("daemons", [2, 3])
def test_archives_whose_clocks_disagree_correct_each_other_once(daemons: int) -> None:
    world = World(retain=99, daemons=daemons)
    put, _, rest = SILENT_FOR_LONG.format("back · ").partition("follow A")

    broken = outcome(world, read(put + ("follow C ×5 · follow A" if daemons == 3 else "follow A") + rest))

    assert broken is None
    assert 1 == world.witness.corrections


def test_an_open_run_is_restored_into_its_queue_and_marked() -> None:
    broken, world = play(LED + "put 4 0 · put 3 0 · fire A ×2 · follow A ×5 · flush")

    assert broken is None
    assert [4] == world.redis.data.queue
    assert {3} == world.witness.skipped
    assert 1 == world.witness.pushed_again


def test_the_first_leader_after_a_flush_uses_the_archives_name_and_stays_in_doubt() -> None:
    history = LED + "put 4 0 · fire A · follow A ×5 · new_disk B · flush · acquire B · put 4 0 · "

    broken, world = play(history + "fire B · tick ×2 · fire B · tick · fire B")

    assert broken is None
    assert world.daemons["A"].archive.gens == world.daemons["B"].archive.gens
    assert (set(), 1) == (world.witness.missed, world.witness.pushed_again)


def test_an_archive_absent_while_the_data_set_was_renamed_restores_nothing() -> None:
    history = LED + "put 0 999 · follow A ×3 · pause A · new_disk B · flush · " + NAMED.format("B")

    broken, world = play(history + "follow B ×3 · pause A · follow A ×3")

    assert broken is None
    assert (True, {"A"}) == (world.daemons["A"].is_refused, world.witness.missed)
    assert {} == world.redis.data.records


def test_a_redis_flushed_without_an_archive_counts_as_new() -> None:
    history = LED + "put 4 0 · fire A · new_disk A · flush · put 4 0 · " + NAMED.format("A") + "fire A"

    broken, world = play(history)

    assert broken is None
    assert world.redis.data.doubt is None
    assert [4] == world.redis.data.queue


def test_a_search_without_a_rule_finds_a_short_history() -> None:
    findings = list(search(range(46, 51), frozenset({Rule.DOUBT})))[-1]

    (run, _) = min(findings.shortest.values(), key=lambda found: len(found[0].events))
    assert {"I2"} == set(findings.broken)
    assert len(run.events) < 15
    assert run.play()[0] is not None
    assert Run(run.seed, run.events, run.dead, run.retain, left_out=ALL_KEPT).play()[0] is None


def test_a_history_can_be_written_down_and_read() -> None:
    events = list(make_run(seed=1).events)

    assert events == read(show(events))
