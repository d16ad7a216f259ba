"""
An entry of the log as Redis stores it, and its position in a history.

One script call appends one entry: its kind, TIME in µs, who asked for it (``by``, if a client did), and texts of its
own (see LOGS in the scripts' headers). ``(epoch, seq, t_us)`` is its identity: two histories of a Redis can share an
id, but not both id and time.

Rows follow the field ``rows``, whose value is their number. Each row is a field: its name is the id of a schedule or
run, its value words of zsched. A text from outside (an error, a reason, the name of a queue) follows as a field
without a name. ``rows_of`` reads all rows; no text is ever split to find a row.

An entry of a newer version or of another writer raises UnknownEntry: it is kept and reported, never
guessed at. A broken entry of a known kind raises the subclass UnreadableEntry: an archive then reads the
state from Redis again (daemon/follower.py).
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, Self

from zsched.errors import ZschedError

Texts = Sequence[bytes]
StoredRow = tuple[bytes, bytes, bytes]  # id, words, a text from outside or b""; a plain tuple, as there are many

# The format of keys, values and entries, also in scripts. It is raised when an older zsched would misread what a newer
# one writes. The second one is the oldest that is still read.
FORMAT: Final = 12
OLDEST_FORMAT: Final = 12

START: Final = "start"  # of an archive that is complete since the first entry of the log
BEFORE_BY: Final = "\x1f"  # in the value of a paused schedule: between the note and who paused it; lua/pause.lua
_BY: Final = b"by"  # the field before an entry's own texts; none of these begin with it
_DIGITS: Final = 18  # of a whole number, at most: the limit of an archive's file
_NO_TIME: Final = 2**63  # whole numbers of an archive have 64 bits


class UnknownEntry(ZschedError):
    """A log entry has a kind or a form that this version does not know."""


class UnreadableEntry(UnknownEntry):
    """A log entry of a known kind is malformed: another writer broke it."""


class Position(NamedTuple):
    """The identity of an entry, and so a position in one history."""

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
    def parse(cls, shown: str) -> Self:
        """Return the position from its ``str``. Raises ValueError."""
        id, _, t_us = shown.partition(" ")
        epoch, _, seq = id.partition("-")
        return cls(int(epoch), int(seq), int(t_us))

    @classmethod
    def of(cls, id: bytes, t_us: bytes) -> Self | None:
        """Return the position of entry *id* in a script's reply; None if *id* is empty. Raises ValueError."""
        epoch, _, seq = id.partition(b"-")
        return cls(int(epoch), int(seq), int(t_us)) if epoch else None

    @property
    def order(self) -> tuple[int, int]:
        """The sort key of positions in one history."""
        return self.epoch, self.seq


class Entry(NamedTuple):
    """
    One entry of the log. ``body``: its own texts, in order; all texts if it has no kind and t. ``by``: who asked for
    it, as a client says; b"" in an entry of a daemon.
    """

    position: Position
    kind: str
    body: Texts
    by: bytes = b""

    @classmethod
    def of(cls, id: bytes, texts: Texts) -> Self:
        """Return the entry *id* with the field and value *texts* of XRANGE."""
        epoch, _, seq = id.partition(b"-")
        if len(texts) >= 4 and texts[0] == b"kind" and texts[2] == b"t" and _is_whole(texts[3]):
            return cls.kept(Position(int(epoch), int(seq), int(texts[3])), text(texts[1]), texts[4:])
        return cls(Position(int(epoch), int(seq), 0), "", texts)

    @classmethod
    def kept(cls, position: Position, kind: str, texts: Texts) -> Self:
        """Return the entry with the *texts* after kind and t: ``texts_to_keep`` is the inverse."""
        if len(texts) > 1 and texts[0] == _BY:
            return cls(position, kind, texts[2:], texts[1])
        return cls(position, kind, texts)

    @property
    def texts_to_keep(self) -> Texts:
        """Return the texts after kind and t."""
        return [_BY, self.by, *self.body] if self.by else self.body

    @property
    def texts(self) -> list[bytes]:
        """Return all field and value texts, as Redis stores them."""
        if not self.kind:
            return list(self.body)
        return [b"kind", self.kind.encode(), b"t", b"%d" % self.position.t_us, *self.texts_to_keep]

    @property
    def size(self) -> int:
        """Size of the body in bytes."""
        return sum(map(len, self.body))

    @property
    def format(self) -> int | None:
        """The format of the following entries, in the last field ``format``; None without that field."""
        if len(self.body) < 2 or self.body[-2] != b"format":
            return None
        return int(self.body[-1]) if _is_whole(self.body[-1]) else None

    def fields(self) -> dict[bytes, bytes]:
        """Return the values, by field, of the fields before the rows."""
        names = self.body[::2]
        if b"rows" not in names:
            return dict(zip(names, self.body[1::2], strict=True))
        head = names.index(b"rows")
        return dict(zip(names[:head], self.body[1 : 2 * head : 2], strict=True))

    def with_rows(self, rows: Sequence[StoredRow]) -> Self:
        """Return the entry with *rows* instead of its own."""
        return self._replace(body=[*self.body[: 2 * self.body[::2].index(b"rows")], *row_texts(rows)])


def is_known(format: int | None) -> bool:
    """Return True if this version reads *format*; None: no format is recorded."""
    return format is None or OLDEST_FORMAT <= format <= FORMAT


def readable(entries: Iterable[Entry]) -> list[Entry]:
    """Return the *entries* before the first one of an unknown format: after it this version would misread."""
    return list(takewhile(lambda entry: is_known(entry.format), entries))


def rows_of(body: Texts) -> list[StoredRow]:
    """
    Return the rows of an entry. Raises ValueError, IndexError.

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
    """Return the texts of *rows* for an entry; ``rows_of`` is the inverse."""
    texts = [b"rows", b"%d" % len(rows)]
    for id, words, other in rows:
        texts += (id, words, b"", other) if other else (id, words)
    return texts


def expect(holds: bool) -> None:
    """Raise ValueError unless *holds*."""
    if not holds:
        raise ValueError("a field is missing")


def text(value: bytes) -> str:
    """Return *value* as text. Invalid UTF-8, which only another writer leaves, is escaped."""
    return value.decode(errors="backslashreplace")


def ids_of(value: bytes | None) -> frozenset[str]:
    """Return ids that are separated by spaces; an empty set for a missing field."""
    return frozenset(text(value).split()) if value else frozenset()


def milliseconds(value: bytes | str | None) -> int | None:
    """Return a time in ms; None if the log has none. Raises ValueError."""
    return None if value in (None, b"", "", b"-", "-") else bounded_ms(value)


def bounded_ms(value: bytes | str) -> int:
    """Return a time that an archive can store. Raises ValueError."""
    number = int(value)
    if abs(number) >= _NO_TIME:
        raise ValueError(f"{number} is not a time")
    return number


def any_milliseconds(value: bytes | str) -> int | None:
    """Return a time in ms that another writer may have written; None if it is not a whole number."""
    shown = text(value) if isinstance(value, bytes) else value
    return int(shown) if _is_whole(shown.encode()) else None


def _is_whole(value: bytes) -> bool:
    return value.isdigit() and len(value) <= _DIGITS
