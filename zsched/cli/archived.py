"""
An archive on this disk: its answers while Redis does not answer, up to its last entry; and its history of each
schedule, which ``zsched doctor --deep`` compares with Redis.

Daemons answer the same questions through Redis (``daemon.answerer``). Here this user reads the file, if he may. Each
answer says why Redis did not give it, and up to when the archive knows.
"""

import os
import pwd
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

from zsched.archive.places import ArchiveFacts, archives_of, facts_at, state_folder
from zsched.archive.recall import recalling_beside
from zsched.client.answers import Answers
from zsched.client.past import Past
from zsched.config.settings import Settings
from zsched.config.urls import address_of
from zsched.core.clock import SystemClock
from zsched.core.entry import UnknownEntry
from zsched.core.model import Schedule, json_of
from zsched.core.pages import pages_of
from zsched.core.record import Place
from zsched.core.recovery.audit import Alarm, Event
from zsched.core.runs.run import Run
from zsched.core.story.sentences import local_text
from zsched.core.story.source import Source
from zsched.core.story.story import Story
from zsched.core.story.verdict import StoryVerdict, Word
from zsched.core.wording import plural
from zsched.daemon.auditor import Inspection
from zsched.daemon.reconciler import HistoryChanged
from zsched.errors import ArchiveError, RedisUnavailable
from zsched.health.facts import Finding, fine, problem, skipped
from zsched.storage.answering import answer_of
from zsched.storage.connection import Link, Wire, link_of
from zsched.storage.history_reader import HistoryReader, source_of
from zsched.storage.keys import keys_of
from zsched.storage.reader import Reader
from zsched.storage.records import PAGE, Scanner, as_schedule
from zsched.storage.rqjob import Encoder
from zsched.storage.shell import Shell

T = TypeVar("T")
_SERVICE: Final = {"STATE_DIRECTORY": "/var/lib/zsched"}  # of the units in deploy/systemd


def archive_here(settings: Settings) -> ArchiveFacts:
    """
    Return the archive on this disk, of this namespace and Redis, that goes furthest.

    Raises:
        ArchiveError: there is none, or this user may not read it; the message says whom to ask.
    """
    address = address_of(settings.redis.url)
    if settings.archive.path:
        places = paths = [Path(settings.archive.path)]
    else:
        homes = [home for home in (os.environ, _SERVICE) if _has_folder(home)]
        places = [state_folder(home) for home in homes]
        paths = [path for home in homes for path in archives_of(settings.namespace, None, address, home)]
    known = [facts for path in paths if (facts := facts_at(path)) is not None and facts.namespace == settings.namespace]
    ends = {facts.position.t_us: facts for facts in known if facts.position and not facts.objection(None, address)}
    if ends:
        return ends[max(ends)]
    for place in places:
        if (owner := _owner_if_closed(place)) is not None:
            raise ArchiveError(f"{place} may have an archive, which user {owner} may read: sudo -u {owner} zsched …")
    where = " and ".join(map(str, places))
    problem = f"no archive of namespace {settings.namespace!r} of the Redis at {address} is here ({where})"
    raise ArchiveError(f"{problem}; ask on a machine with a daemon, as its user")


def _has_folder(environment: Mapping[str, str]) -> bool:
    """Return False for a user without a home directory."""
    with suppress(ArchiveError):
        return bool(state_folder(environment))
    return False


def _owner_if_closed(path: Path) -> str | None:
    """Return the name of the user who may read *path*, if this one may not; None if he may, or nothing is there."""
    real = Path(os.path.realpath(path))
    for part in reversed((real, *real.parents)):
        if not part.exists():
            return None
        if not os.access(part, os.R_OK if part == real else os.X_OK):
            uid = part.stat().st_uid
            with suppress(KeyError):
                return pwd.getpwuid(uid).pw_name
            return f"#{uid}"
    return None


def past_without_redis(settings: Settings, error: RedisUnavailable) -> Past:
    """
    Return the past by an archive on this disk; *error*: that of Redis.

    Raises:
        RedisUnavailable: there is none to read; the message also says whom to ask.
    """
    try:
        archive = archive_here(settings)
    except ArchiveError as missing:
        raise error.but(f"{error.problem}; {missing}") from error
    return ArchivedPast(settings, archive, error)


class ArchivedState(NamedTuple):
    """
    The state of a namespace by *archive*, up to its last entry. ``overdue``: the number that is due by this machine's
    clock. ``oldest_due_ms``: the first due time.
    """

    archive: str
    as_of_ms: int
    overdue: int
    oldest_due_ms: int | None
    waiting: int
    paused: int
    quarantined: int
    open_runs: int

    @classmethod
    def here(cls, settings: Settings) -> Self:
        """Read the archive on this disk. Raises ArchiveError: there is none to read; the message says whom to ask."""
        archive, now_ms = archive_here(settings), SystemClock().now_ms()
        with recalling_beside(archive.path) as (recall, _):
            (due, _ids), places = recall.overdue(now_ms, 1), recall.count_places()
            where, as_of_us = f"{socket.gethostname()}:{archive.path}", archive.position.t_us if archive.position else 0
            numbers = (places.get(place, 0) for place in (Place.DUE, Place.PAUSED, Place.QUARANTINE, Place.OPEN))
            return cls(where, as_of_us // 1000, due, recall.first_due_ms(), *numbers)

    def lines(self, tz: str) -> Iterator[str]:
        """Yield it for people, with times in *tz*."""
        first = "" if self.oldest_due_ms is None else f", the first at {local_text(self.oldest_due_ms, tz)}"
        yield f"the archive {self.archive} knows, up to {local_text(self.as_of_ms, tz, has_ms=True)}:"
        yield f"  {plural(self.waiting, 'schedule')} wait, {self.overdue:,} of them due{first}"
        yield f"  {self.paused:,} paused, {self.quarantined:,} quarantined"
        yield f"  {plural(self.open_runs, 'run')} not over"
        yield "  it also answers zsched why ID, and zsched history"

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON, by ``json_of``."""
        numbers = "waiting", "overdue", "oldest_due_at", "paused", "quarantined", "open_runs"
        return json_of(self, "archive", "as_of_at", *numbers)


class ArchivedPast(Past):
    """
    The past of the namespace of *settings* by *archive* alone; *error*: that of Redis. Runs are as the archive knows
    them, and this machine's clock is asked instead of Redis.
    """

    def __init__(self, settings: Settings, archive: ArchiveFacts, error: RedisUnavailable) -> None:
        self._answers = _ArchivedAnswers(settings, archive, error)


class _ArchivedHistoryReader(HistoryReader):
    def __init__(self, settings: Settings, archive: ArchiveFacts, error: RedisUnavailable) -> None:
        super().__init__(link_of(settings), keys_of(settings))
        self._archive, self._error = archive, error

    def _ask_archive(self, about: str, **arguments: Any) -> tuple[dict[str, Any] | None, Source]:
        answer = answer_of(self._archive.path, about, arguments)
        return answer, replace(source_of(answer, self._place), problem=str(self._error))

    def updated(self, runs: Sequence[Run]) -> list[Run]:
        """Return *runs* unchanged: RQ cannot be asked."""
        return list(runs)

    def _in_rq(self, read: Callable[[Wire], T], otherwise: T) -> T:
        return otherwise


class _ArchivedReader(Reader):
    def __init__(self, settings: Settings, archive: ArchiveFacts) -> None:
        super().__init__(link_of(settings), keys_of(settings), Encoder(settings.rq.serializer))
        self._archive = archive

    def now_ms(self) -> int:
        """Return this machine's time."""
        return SystemClock().now_ms()

    def find(self, id: str) -> Schedule | None:
        """Return the schedule as the archive knows it, without its job; None if it does not wait."""
        with recalling_beside(self._archive.path) as (recall, _):
            record = next(recall.known([id])).schedule
        return None if record is None else as_schedule(record, self._encoder, self.now_ms())


class _ArchivedAnswers(Answers):
    def __init__(self, settings: Settings, archive: ArchiveFacts, error: RedisUnavailable) -> None:
        shell = Shell(link_of(settings), settings.rq.serializer, keys_of(settings).rq.prefix)
        super().__init__(_ArchivedReader(settings, archive), _ArchivedHistoryReader(settings, archive, error), shell)
        self._error = error

    def why(self, id: str, tz: str | None = None) -> Story:
        """Tell the story up to the archive's last entry, and say so in the verdict."""
        story = super().why(id, tz)
        return replace(story, verdict=story.verdict.after(story.source.shortfall))

    def _hindrance(self, schedule: Schedule | None, now_ms: int) -> StoryVerdict:
        return StoryVerdict(Word.OVERDUE, "nothing is known since then", self._error.remedy or str(self._error))

    def _with_near_ids(self, story: Story) -> Story:
        return story


# -- zsched doctor --deep -----------------------------------------------------------------------------


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
