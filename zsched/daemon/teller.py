"""
A teller: a thread of the notifier with one job for one sink, so a slow or broken sink delays neither firing nor other
sinks. It works while its daemon leads and, unless it needs none, its archive follows the log. ``notifier`` has the
jobs.
"""

from typing import Any, Final

from zsched.archive.history import History
from zsched.archive.schema import number_of
from zsched.config.settings import Settings
from zsched.core.clock import Clock
from zsched.core.facets import NO_FACETS
from zsched.core.known import Known, known_as
from zsched.core.occurrences.changes import Change, SearchCursor
from zsched.daemon.archiver import Archiver
from zsched.daemon.loop import Failures, Loop
from zsched.errors import ServerChanged, Stale
from zsched.health.status import looking
from zsched.notify.sinks import Sink, SinkFailed
from zsched.storage.connection import Link
from zsched.storage.keys import keys_of
from zsched.storage.lease import Term
from zsched.storage.log import Log
from zsched.storage.meta import server_now_ms
from zsched.storage.named_texts import read_known
from zsched.storage.reader import Reader
from zsched.storage.scripts import Scripts

LOOK_S: Final = 1.0  # between two looks for a term
_LOOK_AT_LOG_S: Final = 5.0  # at 1 s the p99 of lateness was 0.4 ms higher (measured)
_FIRST_US: Final = 600_000_000  # how far back a teller begins
_ARCHIVED_S: Final = 1.0  # for the archive to have the log of now
_LONGEST_S: Final = 30.0  # between two attempts to send


class Surroundings:
    """The things that the tellers of an archivist share."""

    def __init__(self, settings: Settings, link: Link, clock: Clock, archiver: Archiver, failures: Failures) -> None:
        self.link, self.clock, self.archiver, self.failures = link, clock, archiver, failures
        self.keys, self._known, self.look = keys_of(settings), list[Known](), looking(settings, link)
        self.scripts, self._log = Scripts(link, self.keys), Log(link, self.keys)
        self.reader = Reader.by_settings(settings, link)

    def history(self) -> History:
        """Return a reader of the archive, which is healthy."""
        assert self.archiver.path is not None
        return History(self.archiver.path)

    def archived_us(self) -> int | None:
        """Return the server's time, up to which the archive has the log; None if it is behind."""
        now_ms, last = server_now_ms(self.link, self.keys), self._log.last()
        self._known = read_known(self.link, self.keys, now_ms)
        seen = None if last is None else last.position
        self.archiver.wait_until(seen, _ARCHIVED_S)
        has = self.archiver.position
        return now_ms * 1000 if seen is None or (has is not None and has.order >= seen.order) else None

    def is_known(self, change: Change) -> bool:
        """Return True if *change* is a failure that is known now."""
        run, func = change.run, (change.facets or NO_FACETS).func
        return run is not None and known_as(run._replace(func=func), self._known, self.clock.now_ms()) is not None


class Teller(Loop):
    """A thread with one job for *sink*, called *name*, in the terms that it is given to ``serve``."""

    needs_archive = True

    def __init__(self, name: str, sink: Sink, place: Surroundings) -> None:
        super().__init__(f"notify {name}", self._serve_once, place.failures, clock=place.clock)
        self.name, self.sink, self.place = name, sink, place
        self._term: Term | None = None
        self._seen, self._failed_s = "", 0.0
        self.about: dict[str, Any] = {}  # the last message, for the reports

    def serve(self, term: Term | None) -> None:
        """Serve *term* from now on; None: this daemon does not lead."""
        self._term = term

    def tell(self, term: Term) -> float:
        """Tell what there is. Return the seconds to the next time. Raises SinkFailed."""
        raise NotImplementedError

    def begin(self, seen: str) -> None:
        """Begin where *seen* says, the text of the leader before; '' if there is none."""

    def note(self, term: Term, text: str) -> None:
        """Note how far it has come. Raises Stale: the term is over, or another leader has noted more."""
        arguments = {"teller": self.name, "seen": self._seen, "text": text, **term.fence}
        if self.place.scripts.call("notified", **arguments)[0] != b"noted":
            raise Stale("another leader tells already")
        self._seen = text

    def worked(self, text: str) -> None:
        """Note that the receiver took *text*."""
        self.about, self._failed_s = {"last": text, "last_ms": self._clock.now_ms()}, 0.0
        self.place.failures.end("sink", self.name)

    # -- the thread -------------------------------------------------------------------------------

    def _serve_once(self) -> float:
        term = self._term
        if term is None:
            self.place.failures.end("sink", self.name)
            return LOOK_S
        link, key = self.place.link, self.place.keys.notified()
        self._seen = (link.execute("HGET", key, self.name) or b"").decode(errors="replace")
        self.begin(self._seen)
        try:
            while self._term is term and not self.is_stopping:
                self.pause(self._tell_once(term))
        except (Stale, ServerChanged):  # the lookout gives the next term
            pass
        return LOOK_S

    def _tell_once(self, term: Term) -> float:
        if self.needs_archive and not self.place.archiver.is_healthy:
            return LOOK_S
        try:
            pause_s = self.tell(term)
        except SinkFailed as error:
            if not self.is_stopping:
                self.place.failures.begin("sink", self.name, error)
            pause_s, self._failed_s = self._failed_s, min(max(2 * self._failed_s, 0.02), _LONGEST_S)
            return pause_s
        self.well()
        return pause_s


class LogTeller(Teller):
    """Reads the log in the archive. ``_read_n``: up to this number in that of id ``_archive``; None: not yet."""

    _read_n: int | None = None
    _archive = ""

    @property
    def look_s(self) -> float:
        """Seconds between two looks at the log."""
        return min(_LOOK_AT_LOG_S, self.sink.every_s / 4)

    def first_number(self, history: History, behind: SearchCursor | None, now_us: int) -> int:
        """Return the number of the last entry that was read, or else of the one at *behind*."""
        if history.id != self._archive:
            self.begin(self._seen)  # another file has other numbers
            self._archive = history.id
        return self.number_of(history, behind, now_us) if self._read_n is None else self._read_n

    def number_of(self, history: History, place: SearchCursor | None, now_us: int) -> int:
        """Return the number of the entry at *place*, or of the last one before it; without one, of ten minutes ago."""
        if place is None:
            return history.first_since(now_us - _FIRST_US) - 1
        n = number_of(history.db, place.position)
        return history.first_since(place.position.t_us + 1) - 1 if n is None else n


def place_in(word: str) -> SearchCursor | None:
    try:
        return SearchCursor.parse(word)
    except ValueError:
        return None
