"""Lifetimes of RQ's registries in the search for ends: RQ's own and observed ones, a bounded number. No Redis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.prefix import RQ
from zsched.daemon.endings import Endings

NOW_S = 1_800_000_000
KEY = f"{RQ}:finished:mail"


@dataclass
class _Registries:
    """Registries with given lifetimes, which remember the requested spans."""

    shown: list[int] = field(default_factory=list)
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    learnt: int = 0  # how often lifetimes were asked for

    def now_s(self) -> int:
        return NOW_S

    def keys(self) -> dict[str, str]:
        return {KEY: "finished"}

    def lifetimes(self, keys: Sequence[str]) -> dict[str, list[int]]:
        self.learnt += 1
        return {KEY: self.shown}

    def members(self, spans: Sequence[tuple[str, int, int]]) -> list[list[bytes]]:
        self.asked = list(spans)
        return [[b"a-1"] for _ in spans]

    @property
    def lifetimes_s(self) -> list[int]:
        """Return the lifetimes of the last look, which ends a minute after now."""
        return [until_s - NOW_S - 60 for _, _, until_s in self.asked]


def _look(registries: _Registries, endings: Endings | None = None) -> list[str]:
    return (endings or Endings()).look(registries)  # type: ignore[arg-type]  # the fake


def test_ends_are_searched_with_rqs_lifetime_and_the_learnt_lifetimes() -> None:
    registries = _Registries([86_400, 3600])

    assert ["a-1"] == _look(registries)
    assert [500, 3600, 86_400] == registries.lifetimes_s


def test_lifetimes_that_differ_by_clock_errors_are_treated_as_equal() -> None:
    registries = _Registries([3600, 3599, 3604])
    _look(registries)
    assert [500, 3600] == registries.lifetimes_s

    registries = _Registries([3600, 3598, 3605])
    _look(registries)
    assert [500, 3598, 3600, 3605] == registries.lifetimes_s


def test_endings_are_looked_for_under_the_newest_16_lifetimes_and_rqs_own() -> None:
    registries = _Registries([1000 * number for number in range(1, 41)])

    _look(registries)

    assert [500, *(1000 * number for number in range(26, 41))] == registries.lifetimes_s


def test_an_end_is_returned_once_and_a_scan_begins_where_the_last_ended() -> None:
    registries, endings = _Registries(), Endings()

    assert (["a-1"], []) == (_look(registries, endings), _look(registries, endings))
    [(_, since_s, _)] = registries.asked
    assert NOW_S - 2 + 500 == since_s


def test_the_first_look_goes_back_half_a_minute() -> None:
    registries = _Registries()

    _look(registries)

    [(_, since_s, _)] = registries.asked
    assert NOW_S - 30 - 2 + 500 == since_s


def test_lifetimes_are_read_at_the_first_look_and_at_every_twentieth_after_that() -> None:
    registries, endings = _Registries(), Endings()

    learnt = [(_look(registries, endings), registries.learnt)[1] for _ in range(41)]

    assert [1] * 20 + [2] * 20 + [3] == learnt
