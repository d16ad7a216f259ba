"""
An entry of the log as it stands in Redis, and its place in a history.

An entry is what one script call appended: its kind, TIME in µs and texts of its own (the scripts'
headers, LOGS). ``(epoch, seq, t_us)`` is its identity: two histories of a Redis can share an id, not
both id and time.

Rows stand behind the field ``rows``, whose value is their number. Each is a field: its name is the id that the row is
of, its value words of zsched's own. A text of somebody else (an error, why, the name of a queue) follows as a field
without a name. ``rows_of`` reads them all; no text is ever split to find a row.

An entry that cannot be read, because a newer version or another writer wrote it, raises UnknownEntry:
it is kept as it is, reported, and never guessed at. One of a known kind raises UnreadableEntry, which is
one too: what it would have said, an archive reads from Redis again (daemon/follower.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, Self

from zsched.core.wording import truncated
from zsched.errors import ZschedError

Texts = Sequence[bytes]
StoredRow = tuple[bytes, bytes, bytes]  # id, words, a text of somebody else or b""; a plain tuple, as there are many

# Of keys, values and entries; raised when an older zsched would misread what a newer one writes. The same number stands
# in lua/lib/time.lua, and so does that of the oldest form that is still read.
FORMAT: Final = 3
OLDEST_FORMAT: Final = 3

_DIGITS = 18  # of a whole number, at most: what an archive's file can hold


class UnknownEntry(ZschedError):
    """A log entry is of a kind or a form that this version does not know."""


class UnreadableEntry(UnknownEntry):
    """A log entry of a known kind does not have the form of that kind: another writer broke it."""


class Position(NamedTuple):
    """The identity of an entry, and so a place in one history."""

    epoch: int
    seq: int
    t_us: int

    @property
    def id(self) -> str:
        """The id in Redis' stream: ``<epoch>-<seq>``."""
        return f"{self.epoch}-{self.seq}"

    def __str__(self) -> str:
        """``<epoch>-<seq> <t>``; ``parse`` is the inverse."""
        return f"{self.id} {self.t_us}"

    @classmethod
    def parse(cls, shown: str) -> Position:
        """The position that ``str`` gave. Raises ValueError."""
        id, _, t_us = shown.partition(" ")
        epoch, _, seq = id.partition("-")
        return cls(int(epoch), int(seq), int(t_us))

    @classmethod
    def of(cls, id: bytes, t_us: bytes) -> Self | None:
        """The position of entry *id* as a script answers it; None where *id* is empty. Raises ValueError."""
        epoch, _, seq = id.partition(b"-")
        return cls(int(epoch), int(seq), int(t_us)) if epoch else None

    @property
    def order(self) -> tuple[int, int]:
        """Compares like places in one history."""
        return self.epoch, self.seq


class Entry(NamedTuple):
    """One entry of the log. ``body``: its texts after kind and t, in order; all texts when it has no such head."""

    position: Position
    kind: str
    body: Texts

    @classmethod
    def of(cls, id: bytes, texts: Texts) -> Entry:
        """The entry *id* with field and value *texts*, as XRANGE gives them."""
        epoch, _, seq = id.partition(b"-")
        if len(texts) >= 4 and texts[0] == b"kind" and texts[2] == b"t" and _is_whole(texts[3]):
            return cls(Position(int(epoch), int(seq), int(texts[3])), text(texts[1]), texts[4:])
        return cls(Position(int(epoch), int(seq), 0), "", texts)

    @property
    def texts(self) -> list[bytes]:
        """All field and value texts, as they stand in Redis."""
        if not self.kind:
            return list(self.body)
        return [b"kind", self.kind.encode(), b"t", b"%d" % self.position.t_us, *self.body]

    @property
    def size(self) -> int:
        """Size of the body in bytes."""
        return sum(map(len, self.body))

    @property
    def format(self) -> int | None:
        """The format that it notes for what follows, by ending with the field ``format``; None where it notes none."""
        if len(self.body) < 2 or self.body[-2] != b"format":
            return None
        return int(self.body[-1]) if _is_whole(self.body[-1]) else None

    def fields(self) -> dict[bytes, bytes]:
        """Field → value, of the fields before the rows."""
        names = self.body[::2]
        if b"rows" not in names:
            return dict(zip(names, self.body[1::2], strict=True))
        head = names.index(b"rows")
        return dict(zip(names[:head], self.body[1 : 2 * head : 2], strict=True))

    def with_rows(self, rows: Sequence[StoredRow]) -> Entry:
        """The entry with *rows* in place of its own."""
        head = 2 * self.body[::2].index(b"rows")
        return self._replace(body=[*self.body[:head], *row_texts(rows)])


def is_known(format: int | None) -> bool:
    """Return True if this version reads *format*; None: no format was noted."""
    return format is None or OLDEST_FORMAT <= format <= FORMAT


def readable(entries: Iterable[Entry]) -> list[Entry]:
    """Return the *entries* before the first one of an unknown format: behind it this version would misread."""
    return list(takewhile(lambda entry: is_known(entry.format), entries))


class reading:
    """Convert errors inside the block, from parsing a malformed *entry*, to UnreadableEntry."""

    __slots__ = ("_entry",)

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def __enter__(self) -> None:
        """Begin to parse."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raises UnreadableEntry."""
        if isinstance(error, ValueError | KeyError | IndexError | TypeError):
            entry, reason = self._entry, truncated(repr(error))
            message = f"log entry {entry.position.id} ({entry.kind}) cannot be read: {reason}"
            raise UnreadableEntry(message) from error


def rows_of(body: Texts) -> list[StoredRow]:
    """
    The rows of an entry. Raises ValueError, IndexError.

    >>> rows_of([b"rows", b"2", b"a", b"5", b"b", b"7", b"", b"why"])
    [(b'a', b'5', b''), (b'b', b'7', b'why')]
    """
    at = 2 * body[::2].index(b"rows")
    ids, words = body[at + 2 :: 2], body[at + 3 :: 2]
    if b"" not in ids:
        rows = [(id, own, b"") for id, own in zip(ids, words, strict=True)]
    else:
        rows = []
        for id, own in zip(ids, words, strict=True):
            if id:
                rows.append((id, own, b""))
            else:
                rows[-1] = (*rows[-1][:2], own)
    expect(len(rows) == int(body[at + 1]))
    return rows


def row_texts(rows: Sequence[StoredRow]) -> list[bytes]:
    """The texts of *rows*, as they stand in an entry; ``rows_of`` is the inverse."""
    texts = [b"rows", b"%d" % len(rows)]
    for id, words, other in rows:
        texts += (id, words, b"", other) if other else (id, words)
    return texts


def expect(holds: bool) -> None:
    """Raise ValueError unless *holds*."""
    if not holds:
        raise ValueError("a field is missing")


def text(value: bytes) -> str:
    """*value* as text; what is none, which only another writer leaves, is shown escaped."""
    return value.decode(errors="backslashreplace")


def ids_of(value: bytes | None) -> frozenset[str]:
    """Ids by spaces; none of a field that is not there."""
    return frozenset(text(value).split()) if value else frozenset()


def milliseconds(value: bytes | str | None) -> int | None:
    """A time in ms, or None where the log has none."""
    return None if value in (None, b"", "", b"-", "-") else int(value)


def any_milliseconds(value: bytes | str) -> int | None:
    """A time in ms that another writer may have written; None when it is no whole number of them."""
    shown = text(value) if isinstance(value, bytes) else value
    return int(shown) if _is_whole(shown.encode()) else None


def _is_whole(value: bytes) -> bool:
    return value.isdigit() and len(value) <= _DIGITS
