"""The records of a schedule in the history, for the comparison of a put with the one before it."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from zlib import crc32

from zsched.archive import body
from zsched.archive.file import converted
from zsched.archive.history import ENTRY, History
from zsched.core.log import UnknownEntry, logged_put
from zsched.core.log.kinds import LoggedPut, kinds_with_records

_MOST = 20_000  # entries of the schedule that are looked at, most of them its runs: 0.1 s


def records(history: History, id: str, wanted: Collection[str]) -> list[LoggedPut]:
    """
    Return the records of schedule *id* in the entries with the ids *wanted*, and the one before the oldest of them, in
    order. Records further back than the newest ``_MOST`` entries of the schedule are left out.
    """
    key, missing, found, left = crc32(id.encode()), set(wanted), list[LoggedPut](), _MOST
    query = "SELECT n FROM touch WHERE segment = ? AND key = ? ORDER BY n DESC LIMIT ?"
    of_kind = f"{ENTRY} WHERE n = ? AND {body.of_kinds(kinds_with_records())}"
    with converted(history.path):
        for segment in reversed(history.segments):
            numbers = history.db.execute(query, (segment, key, left)).fetchall()
            left -= len(numbers)
            for (n,) in numbers:
                row = history.db.execute(of_kind, (n,)).fetchone()
                if row is None:
                    continue
                with suppress(UnknownEntry):
                    one = logged_put(body.entry_of(row), id, history.run_suffix)
                    found += [] if one is None else [one]
                if found and found[-1].entry not in missing and not missing:
                    return found[::-1]
                missing.difference_update(one.entry for one in found[-1:])
    return found[::-1]
