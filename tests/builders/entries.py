"""Entries of the log, as scripts write them (LOGS in zsched/lua/*.lua) and as tests read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis

from tests.builders.records import DUE_MS, OLD_US
from zsched.core.entry import FORMAT, Entry, Position, row_texts, rows_of
from zsched.core.record import Portion, Record
from zsched.core.runs.run import Run, RunStatus, facts_text

T_US: Final = OLD_US + 5
SECOND_US: Final = 1_000_000
TWINS: Final = ("plumless", "buckeroo")  # two ids of one CRC-32, by which archives find ids
# Words of zsched's own in a row, by kind. What follows them in a line is a text of somebody else.
WORDS = {"advance": 5, "end": 1, "again": 1, "quarantine": 2, "replan": 4, "merged": 1, "cancel": 1,
    "pause": 2, "skip": 5, "named_texts": 1, "deadline": 2}  # fmt: skip
WITH_ROWS = frozenset({*WORDS, "resume", "unblock"})

# -- entries ----------------------------------------------------------------------------------------


def at(seq: int, epoch: int = 1) -> Position:
    """Return the position of entry *seq*, which is logged so many seconds after T_US."""
    return Position(epoch, seq, T_US + seq * SECOND_US)


def entry(seq: int, kind: str, *texts: Any, epoch: int = 1, t_us: int | None = None, **fields: Any) -> Entry:
    """Return an entry like XRANGE, logged as ``at`` says or at *t_us*, with *fields* before *texts*."""
    position = at(seq, epoch) if t_us is None else Position(epoch, seq, t_us)
    own = [*(text for field in fields.items() for text in field), *texts]
    head = [b"kind", kind.encode(), b"t", b"%d" % position.t_us]
    return Entry.of(position.id.encode(), head + [t if isinstance(t, bytes) else str(t).encode() for t in own])


def put(
    seq: int, *ids: str, due_ms: int = DUE_MS, data: bytes = b"call", t_us: int | None = None, **lists: str
) -> Entry:
    """Return a put of one-shots with one due time; *lists* name some of them, such as ``replaced="a b"``."""
    rows = [text for id in ids for text in (id, due_ms, "data", data)]
    shared = ["lane", "low", "fields", 2, "origin", "mail", "zs_owner", "ann", "rows", len(ids)]
    return entry(seq, "put", *shared, *rows, *(text for pair in lists.items() for text in pair), t_us=t_us)


def put_recurring(seq: int, *ids: str, due_ms: int = DUE_MS, data: bytes = b"call") -> Entry:
    """Return a put of rules."""
    shape = ["shapes", 1, "lane", "high", "schedule", 1, "func", "app.task", "template", 1, "origin", "mail"]
    words = f"1 {due_ms} {due_ms} 5 5 - - - - digest"
    rows = [text for id in ids for text in (id, words, "trigger", "every 60000", "data", data)]
    return entry(seq, "put_recurring", *shape, "rows", len(ids), *rows)


def enqueue(seq: int, run_id: str, data: bytes = b"call") -> Entry:
    """Return the entry of a run on request."""
    return entry(seq, "enqueue", "rows", 1, run_id, "0 2 -", "origin", "mail", "data", data)


def fire(seq: int, *run_ids: str, **more: Any) -> Entry:
    """Return the entry of pushed one-shots."""
    return entry(seq, "fire", **(({"runs": " ".join(run_ids)} if run_ids else {}) | more))


def advance(seq: int, *lines: str, **more: Any) -> Entry:
    """Return the entry of rules that were advanced: "<id> <outcome> <nominal> <due> <next> <passed> <reason>"."""
    return entry(seq, "advance", *row_fields("advance", *lines), **more)


def end(seq: int, *runs: Run | str, **more: Any) -> Entry:
    """Return the entry of runs that ended, or succeeded if given by their ids."""
    ended = (Run(run, RunStatus.SUCCEEDED) if isinstance(run, str) else run for run in runs)
    return entry(seq, "end", *end_fields(*ended), **more)


def cancel(seq: int, id: str) -> Entry:
    """Return the entry of a cancelled one-shot."""
    return entry(seq, "cancel", "rows", 1, id, DUE_MS)


def restore(seq: int, *records: Record, archive: str = "archive-1") -> Entry:
    """Return the entry of a merge that restored *records*."""
    texts = Portion(records).texts
    return entry(seq, "restore", "reason", "lost", "archive", archive, *texts, "format", FORMAT)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry that was read from a log, as texts; ``fields`` are those before its rows, by name."""

    id: str
    kind: str
    t: str
    texts: list[str]

    @classmethod
    def of(cls, id: bytes, texts: Sequence[bytes]) -> LogEntry:
        """Return the entry in a reply of XRANGE."""
        decoded = [text.decode(errors="backslashreplace") for text in texts]
        assert ["kind", "t"] == decoded[0:4:2]
        return cls(id.decode(), decoded[1], decoded[3], decoded[4:])

    @property
    def t_us(self) -> int:
        return int(self.t)

    @property
    def fields(self) -> dict[str, str]:
        names = self.texts[::2]
        head = names.index("rows") if self.kind in WITH_ROWS and "rows" in names else len(names)
        return dict(zip(names[:head], self.texts[1 : 2 * head : 2], strict=True))

    @property
    def rows(self) -> list[str]:
        return row_lines(self.texts)


# -- rows as lines, "<id> <words> <text>" -------------------------------------------------------------


def row_fields(kind: str, *lines: str) -> list[bytes]:
    """Return the texts of rows in an entry of *kind*: the field ``rows`` and the rows behind it."""
    rows = []
    for line in (each for some in lines for each in some.split("\n")):
        id, *words = line.split(" ", 1 + WORDS[kind] if kind in WORDS else 1)
        own = words if kind not in WORDS else words[: WORDS[kind]]
        other = " ".join(words[len(own) :])
        rows.append((id.encode(), " ".join(own).encode(), other.encode()))
    return row_texts(rows)


def end_fields(*runs: Run) -> list[bytes]:
    """Return the texts of rows in an ``end`` entry of *runs*."""
    return row_texts([(run.id.encode(), run.status.value.encode(), facts_text(run).encode()) for run in runs])


def row_lines(texts: Sequence[Any]) -> list[str]:
    """Return the rows in the texts of an entry, as lines."""
    body = [text.encode() if isinstance(text, str) else text for text in texts]
    return [b" ".join(filter(None, row)).decode(errors="replace") for row in rows_of(body)]


def add_entry(client: redis.Redis, key: str, id: str, kind: str, t: int | str, *texts: Any) -> None:
    """Add an entry with repeated names to a log, which redis-py cannot."""
    client.execute_command("XADD", key, id, "kind", kind, "t", t, *texts)  # type: ignore[no-untyped-call]  # redis-py's
