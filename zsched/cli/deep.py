"""``zsched doctor --deep``: each schedule in Redis, compared with its history in an archive on this disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from zsched.archive.recall import recalling_beside
from zsched.cli.archived import archive_here
from zsched.config.settings import Settings
from zsched.core.entry import UnknownEntry
from zsched.core.pages import pages_of
from zsched.core.recovery.audit import Alarm, Event
from zsched.core.wording import plural
from zsched.daemon.auditor import Inspection
from zsched.daemon.reconciler import HistoryChanged
from zsched.errors import ArchiveError
from zsched.health.check import Finding, fine, problem, skipped
from zsched.storage.connection import Link
from zsched.storage.keys import keys_of
from zsched.storage.records import PAGE
from zsched.storage.scanner import Scanner

_SHOWN: Final = 50  # differences
_PUT_BACK: Final = "zsched archive recover --force restores the state of the log"
_REMEDIES: Final = {
    Event.UNKNOWN: "if it is yours, put it again; otherwise cancel it",
    Event.SKIPPED: "zsched backfill runs what is missing",
}


def deep_findings(settings: Settings, link: Link) -> Iterator[Finding]:
    """Yield a finding for each of the first differences, or that there is none. Raises RedisUnavailable."""
    try:
        for finding in _compared(settings, link):
            yield replace(finding, name="differences", group="differences")
    except ArchiveError as error:
        yield replace(skipped(str(error), "--deep needs an archive"), name="differences", group="differences")


def _compared(settings: Settings, link: Link) -> Iterator[Finding]:
    archive, keys = archive_here(settings), keys_of(settings)
    with closing(link.open()) as wire, recalling_beside(archive.path) as (recall, position):
        if position is None:
            yield skipped(f"archive {archive.path} has no state that can be compared", "zsched status says why")
            return
        inspection, scanner = Inspection(wire, keys, recall, position), Scanner(wire, keys)
        here = (recall.known(recall.absent(ids)) for ids in pages_of(scanner.ids(), PAGE))
        number = 0
        try:
            for page in pages_of(chain(recall.known_all(), chain.from_iterable(here)), PAGE):
                inspection.compare(page)
                number += sum(one.schedule is not None for one in page)
        except (HistoryChanged, UnknownEntry):
            yield skipped(f"archive {archive.path} does not follow the log of this Redis", "zsched status says why")
            return
    alarms = inspection.alarms
    yield from map(_finding, islice(alarms.values(), _SHOWN))
    if len(alarms) > _SHOWN:
        yield problem(f"{plural(len(alarms) - _SHOWN, 'schedule')} more differ from their history", _PUT_BACK)
    if not alarms:
        yield fine(f"{plural(number, 'schedule')} as in their history, by archive {archive.path}")


def _finding(alarm: Alarm) -> Finding:
    text = f"schedule {alarm.id}: expected {alarm.expected}, found {alarm.found}"
    return problem(text, _REMEDIES.get(alarm.event, _PUT_BACK))
