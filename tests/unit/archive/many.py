"""A synthetic archive of many runs, written as an archiver writes it: puts, fires and ends, 24 hours of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.builders.entries import T_US, entry
from zsched.archive import Archive, History
from zsched.archive.search import Search, SearchPart
from zsched.core.clock import Clock, ManualClock
from zsched.core.entry import Entry
from zsched.core.facets import NO_FACETS, Facets
from zsched.core.occurrences.changes import Wanted
from zsched.core.occurrences.outcomes import OUTCOMES, What
from zsched.core.runs.run import RunStatus

PER_PUT, PER_FIRE = 200, 1000
CUSTOMERS: Final = 997
DUE_MS: Final = T_US // 1000
_RARE: Final = 100_000  # one put in so many runs is of another queue, function and owner
_STEP: Final = 20_000  # runs in one transaction


class Log:
    """Entries in order. Run *number* is of customer *number* // 200 % 997."""

    def __init__(self) -> None:
        self._seq = 0

    def entries(self, first: int, last: int) -> Iterator[Entry]:
        """Yield the entries of runs *first* to *last*."""
        for number in range(first, last, PER_PUT):
            yield self._put(range(number, number + PER_PUT))
        fires = [range(number, number + PER_FIRE) for number in range(first, last, PER_FIRE)]
        for numbers in fires:
            yield self._entry("fire", "runs", " ".join(map(run_id, numbers)))
        for numbers in fires:
            rows = [text for number in numbers for text in (run_id(number), status(number), "", _facts(number))]
            yield self._entry("end", "rows", len(numbers), *rows)

    def _put(self, numbers: range) -> Entry:
        is_rare = numbers[0] % _RARE == 0
        queue, func, owner = ("fax", "app.fax.send", "ann") if is_rare else ("email", "app.tasks.remind", "svc")
        shared = ["origin", queue, "description", func, "timeout", 180, "zs_owner", owner]
        shared += ["zs_tags", json.dumps([customer(numbers[0])]), "zs", 1]
        rows = [text for number in numbers for text in (id_of(number), DUE_MS, "data", b"x" * 60)]
        return self._entry("put", "lane", "normal", "fields", len(shared) // 2, *shared, "rows", len(numbers), *rows)

    def _entry(self, kind: str, *texts: Any) -> Entry:
        self._seq += 1
        return entry(self._seq, kind, *texts, t_us=T_US + self._seq * 1000)


def customer(number: int) -> str:
    """Return the customer of run *number*."""
    return f"c{number // PER_PUT % CUSTOMERS}"


def id_of(number: int) -> str:
    """Return the schedule's id of run *number*."""
    return f"mail-{customer(number)}-{number}"


def run_id(number: int) -> str:
    """Return the id of run *number*."""
    return f"{id_of(number)}-{DUE_MS}"


def status(number: int) -> str:
    """Return the end of run *number*: every 1,000th failed, every 1,000,003rd expired."""
    return "expired" if number % 1_000_003 == 7 else "failed" if number % 1000 == 5 else "succeeded"


def _facts(number: int) -> str:
    error = {"error": "ConnectionRefusedError: mail.example:25 refuses"} if status(number) == "failed" else {}
    return json.dumps({"queued": DUE_MS, "started": DUE_MS + 5, "ended": DUE_MS + 50, "worker": "w" * 32, **error})


def write(path: Path, runs: int) -> None:
    """Write an archive of *runs* runs, each with its put, fire and end, and index their prefixes."""
    archive, log = Archive(path, "default"), Log()
    for first in range(0, runs, _STEP):
        archive.append(list(log.entries(first, min(first + _STEP, runs))))
        archive.set_facts(complete_since="start")
        archive.commit()
    archive.index_step(1e9, ManualClock())
    archive.close()


def first_page(path: Path, wanted: Wanted, clock: Clock | None = None) -> tuple[SearchPart, int]:
    """Return the first page, and the number of looks that it took by *clock*."""
    with History(path) as history:
        search, part, looks = Search(history, wanted, clock), SearchPart([], None, None), 0
        cursor = None
        hits = []
        while True:
            part, looks = search.next_part(cursor), looks + 1
            hits += part.occurrences
            cursor = part.after
            if cursor is None or len(hits) >= wanted.limit:
                return SearchPart(hits, cursor, part.reached_us), looks


def wanted(
    *words: RunStatus | What, limit: int = 20, id: str | None = None, match: str | None = None, **facets: Any
) -> Wanted:
    """Return a query: *words* are outcomes or statuses; none: all outcomes."""
    whats = frozenset(one for one in words if isinstance(one, What)) if words else frozenset(OUTCOMES)
    statuses = frozenset(one for one in words if isinstance(one, RunStatus))
    return Wanted(whats, statuses, limit, id, match, Facets(**facets) if facets else NO_FACETS)


def measured(runs: int) -> dict[str, Wanted]:
    """Return the queries that are measured, by name."""
    early = 1017
    return {
        "newest": wanted(),
        "id, the oldest": wanted(id=id_of(early)),
        "status failed": wanted(RunStatus.FAILED),
        "status expired": wanted(RunStatus.EXPIRED, What.EXPIRED),
        "status lost (none)": wanted(RunStatus.LOST),
        "skipped (none)": wanted(What.SKIPPED),
        "succeeded": wanted(RunStatus.SUCCEEDED),
        "queue fax": wanted(queue="fax"),
        "queue fax, succeeded": wanted(RunStatus.SUCCEEDED, queue="fax"),
        "queue fax, failed (none)": wanted(RunStatus.FAILED, queue="fax"),
        "func": wanted(func="app.fax.send"),
        "owner": wanted(owner="ann"),
        "tag": wanted(tags=("c7",)),
        "tag, failed": wanted(RunStatus.FAILED, tags=("c5",)),
        "tag (none)": wanted(tags=("nobody",)),
        "prefix, old": wanted(match="mail-c5-1017*"),
        "prefix (none)": wanted(match="letter-*"),
        "substring, old": wanted(match=f"*-{early}*", limit=1),
        "prefix, failed": wanted(RunStatus.FAILED, match="mail-c0-5*"),
    }
