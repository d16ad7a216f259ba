"""The loop of a recovery by itself: its next step, and its waits."""

from collections.abc import Callable, Iterator
from itertools import groupby
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tests.builders.entries import entry
from zsched.core.clock import ManualClock
from zsched.core.entry import Position
from zsched.daemon.merge import OtherRestores
from zsched.daemon.reconciler import HistoryChanged
from zsched.daemon.recovery import WAIT_MS, RecoveryLoop, RecoveryStep
from zsched.storage.keys import Keys
from zsched.storage.restoring import OtherDataSet

FIRST, SECOND = Position(1, 5, 50), Position(1, 6, 60)
COMPARES_AND_RESTORES = [RecoveryStep.COMPARING, RecoveryStep.RESTORING]


class Comparison:
    """A merge that finds *restored* by another archive, and then fails with *error* or restores all."""

    archive = "own"

    def __init__(
        self, restored: Position | None = None, error: Exception | None = None, is_lacking: bool = True
    ) -> None:
        self.restored_by_other, self._error, self._is_lacking = restored, error, is_lacking
        self.branch = SimpleNamespace(merged=[])
        self.is_done = False

    def comparing(self) -> Iterator[None]:
        yield

    def find_lacking(self) -> Iterator[bool]:
        yield self._is_lacking

    def run(self) -> Iterator[int]:
        yield 200
        if self._error is not None:
            raise self._error
        self.is_done = True


class Driver:
    """A driver of a loop through *comparisons*, one after the other; a second passes with each part of a wait."""

    def __init__(self, *comparisons: Comparison, is_manual: bool = False, is_lost: bool = True) -> None:
        self.log, self.clock, self.left = Mock(), ManualClock(), list(comparisons)
        self.log.execute.return_value = []  # the log's newest entries
        self.loop = RecoveryLoop(
            self.log, Keys("default"), self.clock, lambda: self.left.pop(0), lambda merge: is_lost, is_manual=is_manual
        )  # type: ignore[arg-type]  # in their place

    def run(self, most: int = 50, between: Callable[[], None] = lambda: None) -> list[RecoveryStep]:
        """Return the steps of the loop, each once."""
        did: list[RecoveryStep] = []
        for step, _ in zip(self.loop.steps(), range(most), strict=False):
            did.append(step)
            if not step.is_busy:
                self.clock.advance(WAIT_MS / 3)
                between()
        return [step for step, _ in groupby(did)]


def test_a_lost_history_is_compared_and_restored_and_a_complete_history_is_only_compared() -> None:
    driver = Driver(Comparison())

    assert COMPARES_AND_RESTORES == driver.run()
    assert (True, 200) == (driver.loop.merge.is_done, driver.loop.compared)  # type: ignore[attr-defined]
    assert [RecoveryStep.COMPARING] == Driver(Comparison(), is_lost=False).run()


def test_recovery_yields_to_another_restore_until_it_is_done() -> None:
    driver = Driver(Comparison(FIRST), Comparison(SECOND), Comparison(SECOND))

    assert [RecoveryStep.COMPARING, RecoveryStep.YIELDING] * 2 + COMPARES_AND_RESTORES == driver.run()


def test_recovery_yields_twice_to_a_restore_that_interrupts_it() -> None:
    first = Comparison(None, OtherRestores())
    driver = Driver(first, Comparison(FIRST), Comparison(FIRST))
    run = first.run

    def restored_meanwhile() -> Iterator[int]:
        first.restored_by_other = FIRST
        yield from run()

    first.run = restored_meanwhile  # type: ignore[method-assign]

    compares = COMPARES_AND_RESTORES[: COMPARES_AND_RESTORES.index(RecoveryStep.RESTORING)]
    yields = [RecoveryStep.YIELDING, *compares, RecoveryStep.YIELDING]
    assert [*COMPARES_AND_RESTORES, *yields, *COMPARES_AND_RESTORES] == driver.run()


def test_a_wait_ends_as_soon_as_another_archive_has_merged() -> None:
    driver, waits = Driver(Comparison(FIRST), Comparison(FIRST)), list[int]()

    def merge() -> None:
        waits.append(1)
        merged = entry(9, "merged", "archive", "other", "positions", "")
        texts = [b"kind", b"merged", b"t", b"5", *merged.body]
        driver.log.execute.return_value = [(merged.position.id.encode(), texts)]

    driver.run(between=merge)

    assert [1] == waits


@pytest.mark.parametrize("error", [HistoryChanged(), OtherDataSet()])
def test_a_redis_that_loses_its_history_again_is_compared_again(error: Exception) -> None:
    driver = Driver(Comparison(error=error), Comparison())

    assert [*COMPARES_AND_RESTORES, RecoveryStep.STARTING_OVER, *COMPARES_AND_RESTORES] == driver.run()


def test_recovery_in_manual_mode_waits_for_people_while_something_is_missing() -> None:
    driver = Driver(Comparison(), Comparison(), Comparison(is_lacking=False), is_manual=True)

    assert [RecoveryStep.COMPARING, RecoveryStep.AWAITING_OPERATOR] * 2 + COMPARES_AND_RESTORES == driver.run()
