"""Restoring losses of Redis: the scripts of a merge, and the hold during it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from zsched.core.entry import Position, text
from zsched.core.record import Place, Portion, Record
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.scripts import Scripts

ROWS: Final = 400  # one-shots per script, at most; of other rows half as many: 2 to 5 ms of the server (measured)
_TEXTS: Final = 6000  # Lua's unpack fails near 8,000
_LINE_END: Final = b"\r\n"


class Written(NamedTuple):
    """A finished restore: its entry, which is the log's new end, and its rows with their logged places."""

    entry: Position
    rows: list[Record]


class Packed(NamedTuple):
    """Rows of one script, and their texts as they are sent: packing takes a tenth of the script's time (measured)."""

    rows: list[Record]
    number: int  # of texts
    texts: bytes


class NotAbsent(Exception):
    """Redis has at least one of the schedules, and they were not compared with it. Nothing was done."""


class OtherDataSet(Exception):
    """The data set has a name that the archive never followed. Nothing was done."""


class Restoring:
    """
    The restores of one archive over one wire. *gens*: names of the data sets that it followed; empty if it is known to
    follow this one. *by*: who asked for it; "": a daemon. ``is_forced``: it may restore into another data set.
    """

    def __init__(
        self,
        wire: Wire,
        keys: Keys,
        archive: str,
        reason: str,
        hold_for_ms: int,
        gens: Sequence[str] = (),
        by: str = "",
    ) -> None:
        self._wire, self._scripts = wire, Scripts(wire, keys, by)
        self._archive, self._reason, self._hold_for_ms, self._gens = archive, reason, hold_for_ms, gens
        self.is_forced = False

    def packed(self, rows: Iterable[Record]) -> Iterator[Packed]:
        """Yield *rows* in portions for one script each, packed: best while Redis works."""
        for portion in portions(rows):
            number, _, texts = self._wire.pack(tuple(portion.texts)).partition(_LINE_END)
            yield Packed(portion.rows, int(number[1:]), texts)

    def restore(
        self, portion: Packed, seen: Position | None, meanwhile: Callable[[], None], *, if_absent: bool = False
    ) -> Written | None:
        """
        Restore *portion*, which was decided from a log with the end *seen*; call *meanwhile* during the script. Return
        None if the log has another end: nothing was done then. *if_absent*: only if Redis has none of the schedules.

        Raises:
            NotAbsent, OtherDataSet.
        """

        def execute(*command: Any) -> Any:
            head = self._wire.pack(command).partition(_LINE_END)[2]
            number = b"*%d" % (len(command) + portion.number)
            self._wire.send_packed([number, _LINE_END, head, portion.texts])
            try:
                meanwhile()
            finally:  # otherwise the next call would read this reply
                reply = self._wire.receive()
            return reply

        own: dict[str, Any] = {"hold_for_ms": self._hold_for_ms, "reason": self._reason, "if_absent": int(if_absent)}
        reply = self._scripts.call(script_of(portion.rows), execute, **self._whose(seen), **own)
        entry = _position(reply)
        return None if entry is None else Written(entry, placed(portion.rows, reply[3]))

    def foresee(self, portion: Portion) -> list[Record]:
        """
        Return the rows of *portion* with the places that ``restore`` would log now, in any data set; it writes nothing.
        """
        arguments = {**self._whose(None), "is_forced": 1, "hold_for_ms": 0, "reason": "dry", "if_absent": 0}
        return placed(portion.rows, self._scripts.call(script_of(portion.rows), rows=portion.texts, **arguments)[3])

    def merged(self, positions: Iterable[Position], seen: Position | None) -> Position | None:
        """Log that these histories are complete in this one. Return the entry; None as ``restore``."""
        rows = [each for position in positions for each in (position.id, position.t_us)]
        return _position(self._scripts.call("merged", rows=rows, **self._whose(seen)))

    def _whose(self, seen: Position | None) -> dict[str, Any]:
        """Return the common arguments of both scripts."""
        place = {"seen_entry": seen.id if seen else "-", "seen_t": seen.t_us if seen else 0}
        return place | {"archive": self._archive, "names": " ".join(self._gens), "is_forced": int(self.is_forced)}


def portions(rows: Iterable[Record]) -> Iterator[Portion]:
    """Yield *rows* in portions for one script each."""
    for _, of_script in groupby(rows, attrgetter("is_schedule")):
        portion, left = Portion(), ROWS
        for row in of_script:
            left -= 1 if row.is_schedule and row.run else 2
            if left < 0 or not portion.add(row, _TEXTS):
                yield portion
                portion, left = Portion([row]), ROWS - 2
        yield portion


def script_of(rows: Sequence[Record]) -> str:
    """Return the name of the script for *rows*."""
    return "restore" if rows[0].is_schedule else "restore_runs"


def placed(rows: list[Record], changed: bytes) -> list[Record]:
    """Return *rows* with their places as logged: *changed* has the number and the place of those with another one."""
    words, placed = text(changed).split(), list(rows)
    for number, place in zip(map(int, words[::2]), words[1::2], strict=True):
        placed[number] = replace(rows[number], place=Place(place))
    return placed


def _position(reply: list[Any]) -> Position | None:
    if reply[0] == "AGAIN":
        return None
    if reply[0] == "OTHER":
        raise OtherDataSet
    if reply[0] == "HERE":
        raise NotAbsent
    _, entry, t, *_rest = reply
    return Position.of(entry, t)
