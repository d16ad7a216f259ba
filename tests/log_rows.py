"""Rows of log entries as lines, "<id> <words> <text>", for writing and reading in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from zsched.core.entry import row_texts, rows_of
from zsched.core.runs.run import Run, facts_text

# Words of zsched's own in a row, by kind. What follows them in a line is a text of somebody else.
WORDS = {"advance": 5, "end": 1, "again": 1, "quarantine": 2, "replan": 3, "merged": 1, "cancel": 1,
    "pause": 2}  # fmt: skip
WITH_ROWS = frozenset({*WORDS, "resume", "unblock"})


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


def add_entry(client: redis.Redis, key: str, id: str, kind: str, t: int | str, *texts: Any) -> None:
    """Add an entry with repeated names to a log, which redis-py cannot."""
    client.execute_command("XADD", key, id, "kind", kind, "t", t, *texts)  # type: ignore[no-untyped-call]  # redis-py's


def row_lines(texts: Sequence[Any]) -> list[str]:
    """Return the rows in the texts of an entry, as lines."""
    body = [text.encode() if isinstance(text, str) else text for text in texts]
    return [b" ".join(filter(None, row)).decode(errors="replace") for row in rows_of(body)]
