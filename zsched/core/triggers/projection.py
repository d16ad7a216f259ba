"""
From wall-clock rules to instants: the one place where gaps and folds of a zone are decided.

The time line of a zone is cut into pieces. In a ``Plain`` piece the offset is constant, and each matching
wall second is one instant. A policy may need other pieces: ``Silent`` (the pass of a fold without
occurrences) and ``Mended`` (just after a gap, with the occurrences that the gap skipped). Within a piece
occurrences are strictly ascending, and pieces do not overlap. So the whole is strictly ascending, without
repeats. ``Gap.SKIP`` with ``Fold.BOTH``, the wildcard cron job, needs only plain pieces.

Not guaranteed: sensible results for a zone with two changes less than a fold apart. tzdata has none; a test
checks that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from zsched.core.triggers.spec import Fold, Gap, Rule
from zsched.core.triggers.wall_clock import WallRule, bits_of
from zsched.core.triggers.zones import DAY_S, FLOOR_S, HORIZON_S, offset_changes, offset_s

_BLOCK_S: Final = 400 * DAY_S  # pieces are found and cached for this much time at once


@dataclass(frozen=True, slots=True)
class Plain:
    """[start_s, end_s) with a constant offset."""

    start_s: int
    end_s: int
    offset_s: int

    def first(self, rule: WallRule, at_s: int) -> int | None:
        """Return the first occurrence in this piece at or after *at_s*, or None."""
        wall = rule.next_wall(max(at_s, self.start_s) + self.offset_s)
        return wall - self.offset_s if wall is not None and wall - self.offset_s < self.end_s else None

    def last(self, rule: WallRule, at_s: int) -> int | None:
        """Return the last occurrence in this piece at or before *at_s*, or None."""
        wall = rule.last_wall(min(at_s, self.end_s - 1) + self.offset_s)
        return wall - self.offset_s if wall is not None and wall - self.offset_s >= self.start_s else None

    def count(self, rule: WallRule, start_s: int, end_s: int) -> int:
        """Count the occurrences in [start_s, end_s), which is within this piece."""
        return rule.count_wall_times(start_s + self.offset_s, end_s + self.offset_s)

    def times(self, rule: WallRule, start_s: int, end_s: int) -> Iterator[int]:
        """Yield the occurrences in [start_s, end_s), which is within this piece."""
        return (wall - self.offset_s for wall in rule.wall_times(start_s + self.offset_s, end_s + self.offset_s))


@dataclass(frozen=True, slots=True)
class Mended:
    """
    [start_s, end_s) right after a gap: the occurrences of these wall times, and those from inside the gap.

    ``Gap.SHIFT``: the piece is as long as the gap, and each time of the gap moves to one instant of it.
    ``Gap.FIRST_VALID``: one second long; all times of the gap move to it. Equal instants are one occurrence.
    """

    start_s: int
    end_s: int
    before_s: int = 0
    after_s: int = 0
    gap: Gap = Gap.SKIP

    def first(self, rule: WallRule, at_s: int) -> int | None:
        """Return the first occurrence in this piece at or after *at_s*, or None."""
        skipped = max(at_s - self.start_s, 0)
        mask = self._mask(rule) >> skipped
        return self.start_s + skipped + (mask & -mask).bit_length() - 1 if mask else None

    def last(self, rule: WallRule, at_s: int) -> int | None:
        """Return the last occurrence in this piece at or before *at_s*, or None."""
        mask = self._mask(rule) & (1 << at_s + 1 - self.start_s) - 1
        return self.start_s + mask.bit_length() - 1 if mask else None

    def count(self, rule: WallRule, start_s: int, end_s: int) -> int:
        """Count the occurrences in [start_s, end_s), which is within this piece."""
        return (self._mask(rule) >> start_s - self.start_s & (1 << end_s - start_s) - 1).bit_count()

    def times(self, rule: WallRule, start_s: int, end_s: int) -> Iterator[int]:
        """Yield the occurrences in [start_s, end_s), which is within this piece."""
        found = (self.start_s + bit for bit in bits_of(self._mask(rule)))
        return (at_s for at_s in found if start_s <= at_s < end_s)

    def _mask(self, rule: WallRule) -> int:
        kept = rule.wall_mask(self.start_s + self.after_s, self.end_s + self.after_s)
        lost = rule.wall_mask(self.start_s + self.before_s, self.start_s + self.after_s)
        return kept | (lost if self.gap is Gap.SHIFT else bool(lost))


class Silent(Mended):
    """[start_s, end_s) without occurrences."""

    __slots__ = ()

    def _mask(self, rule: WallRule) -> int:
        return 0


Piece = Plain | Silent | Mended


class Projection(Rule):
    """
    The instants of *rule* in *tz*: all of them from year 1 to ``HORIZON_S``, with no start or end of its own.

    Epoch milliseconds; every occurrence is a whole second.
    """

    def __init__(self, rule: WallRule, tz: ZoneInfo, gap: Gap, fold: Fold) -> None:
        self.rule, self.tz, self.gap, self.fold = rule, tz, gap, fold

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*, or None."""
        at_s = max(after_ms // 1000 + 1, FLOOR_S)
        while at_s < HORIZON_S:
            piece = self._piece(at_s)
            if (found := piece.first(self.rule, at_s)) is not None:
                return found * 1000
            # An instant and its wall second are less than a day apart, so a sparse rule can skip the pieces between.
            if (wall := self.rule.next_wall(piece.end_s - DAY_S)) is None:
                return None
            at_s = max(piece.end_s, wall - DAY_S)
        return None

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*, or None."""
        at_s = min(until_ms // 1000, HORIZON_S - 1)
        while at_s >= FLOOR_S:
            piece = self._piece(at_s)
            if (found := piece.last(self.rule, at_s)) is not None:
                return found * 1000
            if (wall := self.rule.last_wall(piece.start_s + DAY_S)) is None:
                return None
            at_s = min(piece.start_s - 1, wall + DAY_S)
        return None

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]. The cost grows with the years between them."""
        return sum(piece.count(self.rule, *part) for piece, *part in self._parts(after_ms, until_ms))

    def between(self, after_ms: int, until_ms: int) -> Iterator[int]:
        """Yield the occurrences in (after_ms, until_ms]."""
        for piece, start_s, end_s in self._parts(after_ms, until_ms):
            for at_s in piece.times(self.rule, start_s, end_s):
                yield at_s * 1000

    def _parts(self, after_ms: int, until_ms: int) -> Iterator[tuple[Piece, int, int]]:
        """Yield the pieces of (after_ms, until_ms], each with the beginning and end of its part."""
        at_s = max(after_ms // 1000 + 1, FLOOR_S)
        end_s = min(until_ms // 1000 + 1, HORIZON_S)
        while at_s < end_s:
            piece = self._piece(at_s)
            stop_s = min(piece.end_s, end_s)
            yield piece, at_s, stop_s
            at_s = stop_s

    def _piece(self, at_s: int) -> Piece:
        for piece in _pieces(self.tz, at_s // _BLOCK_S, self.gap, self.fold):
            if at_s < piece.end_s:
                return piece
        raise AssertionError("the pieces of a block cover it")


@lru_cache(maxsize=16_384)
def _pieces(tz: ZoneInfo, block: int, gap: Gap, fold: Fold) -> tuple[Piece, ...]:
    """Return the pieces that overlap a block, in order. Silent and mended pieces are not cut at its edge."""
    start_s, end_s = max(block * _BLOCK_S, FLOOR_S), min((block + 1) * _BLOCK_S, HORIZON_S)
    special: list[Piece] = []
    edges = {start_s, end_s}
    first_s, last_s = max(start_s - 2 * DAY_S, FLOOR_S), min(end_s + 2 * DAY_S, HORIZON_S)
    for at_s, before_s, after_s in offset_changes(tz, first_s, last_s):
        shift_s = after_s - before_s
        edges.add(at_s)
        if shift_s > 0 and gap is not Gap.SKIP:
            special.append(Mended(at_s, at_s + (shift_s if gap is Gap.SHIFT else 1), before_s, after_s, gap))
        elif shift_s < 0 and fold is Fold.FIRST:
            special.append(Silent(at_s, at_s - shift_s))
        elif shift_s < 0 and fold is Fold.SECOND:
            special.append(Silent(at_s + shift_s, at_s))
    for piece in special:
        edges |= {piece.start_s, piece.end_s}
    inside = sorted(edge for edge in edges if start_s <= edge <= end_s)
    result: list[Piece] = []
    for left, right in pairwise(inside):
        covering = next((piece for piece in special if piece.start_s <= left < piece.end_s), None)
        result.append(covering or Plain(left, right, offset_s(tz, left)))
    return tuple(result)
