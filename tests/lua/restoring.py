"""The calls of a merge."""

from typing import Any

from tests.builders.entries import LogEntry
from tests.builders.namespaces import LEASE_MS, Namespace
from zsched.core.entry import Entry as Read
from zsched.core.entry import Position
from zsched.core.log.puts import restored
from zsched.core.record import Portion, Record
from zsched.storage.restoring import placed, portions, script_of

WHOSE = {"archive": "archive-1", "names": "", "is_forced": 0}


def restore(ns: Namespace, *rows: Record, **over: Any) -> list[Any]:
    """Restore *rows*, schedules before runs; return the reply, with the places of all of them."""
    places: list[str] = []
    for portion in portions(sorted(rows, key=lambda row: not row.is_schedule)) if rows else [Portion()]:
        arguments = seen(ns) | {"hold_for_ms": LEASE_MS, "reason": "lost", "if_absent": 0, **WHOSE} | over
        reply = ns.call(script_of(portion.rows) if rows else "restore", portion.texts, **arguments)
        if len(reply) < 4:  # a word why not
            return reply
        places += [row.place for row in placed(portion.rows, reply[-1].encode())]
    return [*reply[:-1], places]


def merged(ns: Namespace, *positions: Position, **over: Any) -> list[Any]:
    rows = [text for position in positions for text in (position.id, position.t_us)]
    return ns.call("merged", rows, **(seen(ns) | WHOSE | over))


def seen(ns: Namespace) -> dict[str, Any]:
    """Return the position of the log's end, as arguments."""
    last = ns.entries()[-1:]
    return {"seen_entry": last[0].id, "seen_t": last[0].t} if last else {"seen_entry": "-", "seen_t": 0}


def hold(ns: Namespace) -> int:
    return int(ns.redis.hget(ns.keys.meta(), "hold") or 0)


def logged(entry: LogEntry) -> list[Record]:
    """Return the rows of a restore, as another archive reads them."""
    texts = [text.encode() for text in ("kind", entry.kind, "t", entry.t, *entry.texts)]
    return restored(Read.of(entry.id.encode(), texts))
