"""
The notifier: threads of the leader's archivist that tell people what happened, over the sinks of ``[notify.<name>]``.

``EventTeller``   the events of the log, gathered for a minute from the first one on
``HealthTeller``  the problems of ``zsched status``, whenever others are there than before
``PingTeller``    a ping each minute, while the daemons are healthy
``MonitorTeller`` a monitor per schedule, and a check-in per run

How far a teller has come is a text in Redis (``notified.lua``), which only the leader may write. That of an
EventTeller has three places: what it has told before; the end of the minute that it tells now, or -; and the first
event of the last message that was sent, or -. The minute is noted before its first message is sent. So the next leader
tells the same minute from that message on, and repeats at most the messages of a second, with their ids: at least once,
in order.

If Redis was lost, or a sink is new, the last ten minutes are told. Not guaranteed: messages while no daemon leads;
they come when one does; and events that only one archive has, if another one led first after the loss. A receiver that
refuses a message gets it again and again: ``zsched status`` says so.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from zsched.archive.body import of_kinds
from zsched.archive.history import History
from zsched.archive.index import facets_at, with_facets
from zsched.archive.runs import facets_before
from zsched.archive.search import Search
from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.core.facets import NO_FACETS
from zsched.core.log.kinds import kinds_telling, parse
from zsched.core.occurrences.changes import Change, SearchCursor, Wanted, run_that_ended
from zsched.core.occurrences.outcomes import What
from zsched.daemon.archiver import Archiver
from zsched.daemon.loop import Failures
from zsched.daemon.teller import LogTeller, Surroundings, Teller, place_in
from zsched.health.status import StatusView
from zsched.notify.message import UNHEALTHY, Gathered, Message, message_kind, order_of, searched_for
from zsched.notify.sinks import Ping, SinkFailed, monitor_of, sinks_of
from zsched.storage.connection import Link
from zsched.storage.lease import Term

_NOTED_MS: Final = 1000.0  # between two notes of progress
_QUIET_MS: Final = 30_000.0  # the same while nothing is to be told
_ENDS: Final = (What.CANCELLED, What.ENDED)
_OF_MONITORS: Final = (What.PUT, What.RUN_ENDED, *_ENDS)
_PART_MS: Final = 500.0  # of one view of the archive
_MANY: Final = 1000  # changes in a part: fewer entries are read at once
_LARGEST, _SMALLEST = 4096, 64  # entries that are read at once
_HEALTH_S: Final = 15.0  # between two looks at the health
_AUDIT_MS: Final = 180_000  # the last audit is fresh: three of them
_NOT_OF_DAEMONS: Final = ("queues", "quarantine")  # groups of problems that a dead-man's switch does not tell


class EventTeller(LogTeller):
    """Tells the events of the log, but for the runs that succeeded."""

    def begin(self, seen: str) -> None:
        self._behind, self._until, self._sent = map(place_in, [*seen.split(" "), "-", "-"][:3])
        self._read_n, self._archive = None, ""
        self._end = None if self._behind is None else self._behind.position
        self._gathered, self._first_us, self._last = Gathered(self.sink.namespace), 0, self._until
        self._pending: deque[tuple[SearchCursor, Message]] | None = None
        self._noted_ms = self._clock.monotonic_ms()

    def tell(self, term: Term) -> float:
        if (pending := self._pending) is not None:
            return self._send(term, pending)
        has_more = self._gather()
        if self._pending is not None:
            self._note_places(term, self._behind, self._until, self._sent)
            return 0.0
        if not self._first_us and self._end is not None and self._is_time(_QUIET_MS):
            self._note_places(term, SearchCursor(self._end))
        return 0.0 if has_more else self.look_s

    def _send(self, term: Term, pending: deque[tuple[SearchCursor, Message]]) -> float:
        """Send the messages of the minute that was gathered."""
        while pending and not self.is_stopping and self._term is term:
            place, message = pending[0]
            self.sink.send(message)
            pending.popleft()
            self._sent = place
            self.worked(message.text)
            if self._is_time(_NOTED_MS):
                self._note_places(term, self._behind, self._until, place)
        if not pending:
            self._note_places(term, self._until)
            self.begin(self._seen)
        return 0.0

    def _note_places(self, term: Term, *places: SearchCursor | None) -> None:
        self.note(term, " ".join(str(place or "-") for place in places))
        self._noted_ms = self._clock.monotonic_ms()

    def _is_time(self, pause_ms: float) -> bool:
        return self._clock.monotonic_ms() - self._noted_ms >= pause_ms

    # -- reading ----------------------------------------------------------------------------------

    def _gather(self) -> bool:
        """
        Read on in the archive, for half a second at most. At the end of a minute, its messages are pending. Return True
        if the archive has more.
        """
        if (now_us := self.place.archived_us()) is None:
            return False
        stop_ms = self._clock.monotonic_ms() + _PART_MS
        with self.place.history() as history:
            n = self.first_number(history, self._behind, now_us)
            end_n, size = history.last_n, _SMALLEST
            if self._until is not None:
                end_n = self.number_of(history, self._until, now_us)
            while n < end_n:
                if self._clock.monotonic_ms() >= stop_ms:
                    return True
                found = self._found(history, n + 1, min(n + size, end_n))
                for change in found:
                    place = SearchCursor.parse(change.cursor)
                    if self._until is None and self._first_us and place.position.t_us >= self._minute_end_us:
                        self._close()
                        return True
                    self._add(change, place)
                self._read_n = n = min(n + size, end_n)
                size = min(2 * size, _LARGEST) if len(found) < _MANY else _SMALLEST
            self._end = history.position
        if self._until is not None or (self._first_us and now_us >= self._minute_end_us):
            self._close()
        return False

    @property
    def _minute_end_us(self) -> float:
        return self._first_us + self.sink.every_s * 1e6

    def _close(self) -> None:
        """End the minute with the last change that was added."""
        self._until, sent = self._last, self._sent
        messages = self._gathered.messages()
        self._pending = deque(one for one in messages if sent is None or order_of(one[0]) > order_of(sent))

    def _add(self, change: Change, place: SearchCursor) -> None:
        kind = message_kind(change)
        if kind in self.sink.on and self.sink.wants(change.facets or NO_FACETS) and not self.place.is_known(change):
            self._first_us, self._last = self._first_us or place.position.t_us, self._until or place
            self._gathered.add(kind, change, place)

    def _found(self, history: History, first_n: int, last_n: int) -> list[Change]:
        """Return what sinks may tell of the entries between two numbers, in order."""
        search = Search(history, Wanted(*searched_for(self.sink.on), _MANY), between=(first_n, last_n))
        part = search.next_part()
        found = part.occurrences
        while part.after is not None:
            part = search.next_part(part.after)
            found += part.occurrences
        return found[::-1]


class MonitorTeller(LogTeller):
    """
    Keeps a monitor per recurring schedule with a rule that the sink's program understands, and checks in at the end of
    each of its runs.
    """

    def begin(self, seen: str) -> None:
        self._behind, self._read_n, self._archive = place_in(seen), None, ""

    def tell(self, term: Term) -> float:
        if (now_us := self.place.archived_us()) is None:
            return self.look_s
        with self.place.history() as history:
            n, end, last_n = self.first_number(history, self._behind, now_us), history.position, history.last_n
            query = f"SELECT n FROM entry WHERE n > ? AND {of_kinds(kinds_telling(*_OF_MONITORS))} ORDER BY n LIMIT ?"
            numbers = [n for (n,) in history.db.execute(query, (n, _MANY))]
            found = [(n, change) for n in numbers for change in self._wanted(history, n)]
        for n, change in found:  # not while the archive is read: a receiver may be slow
            self._read_n = n - 1
            self._tell_change(change)
        self._read_n = last_n if len(numbers) < _MANY else numbers[-1]
        if len(numbers) < _MANY and end is not None and (self._behind is None or self._behind.position != end):
            self._behind = SearchCursor(end)
            self.note(term, str(self._behind))
        return self.look_s if len(numbers) < _MANY else 0.0

    def _wanted(self, history: History, n: int) -> Iterator[Change]:
        """Yield what entry *n* says of the schedules with monitors."""
        entry = history.entry(n)
        if entry is None or not (told := history.changes_in(entry)):
            return
        for change, known in with_facets(facets_at(history.db, n), parse(entry, history.run_suffix), told):
            if change.what in _OF_MONITORS:
                facets = facets_before(history, change, n) if known == NO_FACETS else known
                if facets.is_rule and self.sink.wants(facets):
                    yield change

    def _tell_change(self, change: Change) -> None:
        """Tell *change* of a schedule. Raises SinkFailed."""
        schedule = None if change.what in _ENDS else self.place.reader.find(change.id)
        monitor = None if schedule is None else monitor_of(schedule, self.sink.namespace)
        if monitor is not None:
            self.sink.put_monitor(monitor)
            if change.what is What.RUN_ENDED:
                run = run_that_ended(change)
                self.sink.check_in(monitor, run)
                self.worked(f"{run.id} {run.status.value}")
        elif change.what is not What.RUN_ENDED:  # it is gone, or has another rule
            self.sink.remove_monitor(change.id)


class HealthTeller(Teller):
    """
    Tells the problems that ``zsched status`` has, if two looks in a row find others than were told. Its text has the
    time, which makes the message's id, ``sent`` or ``unsent``, and their names.
    """

    needs_archive = False  # a dead archive is a problem, too

    def begin(self, seen: str) -> None:
        at_ms, state, *names = (seen if " " in seen else "0 sent").split(" ")
        self._at_ms, self._is_sent, self._names = at_ms, state == "sent", frozenset(names)
        self._before = self._names

    def tell(self, term: Term) -> float:
        problems = {one.name: f"{one.text}; {one.remedy}" for one in self.place.look().verdict.problems}
        names, before = frozenset(problems), self._before
        self._before = names
        if self._is_sent and names != self._names and names == before:
            self._note(term, f"{self._clock.now_ms()} unsent", names)
        if not self._is_sent:
            shown = {name: problems.get(name, name) for name in sorted(self._names)}
            message = Message.of_problems(self.sink.namespace, self._at_ms, self._clock.now_ms(), shown)
            self.sink.send(message)
            self._note(term, f"{self._at_ms} sent", self._names)
            self.worked(message.text)
        return _HEALTH_S

    def _note(self, term: Term, head: str, names: Iterable[str]) -> None:
        self.note(term, " ".join([head, *sorted(names)]))
        self.begin(self._seen)


class PingTeller(Teller):
    """
    Pings each minute while the daemons are healthy: this one leads, its archive follows the log, ``zsched status`` has
    no problem of daemons, the last audit is fresh, Redis takes writes and its clock moves.
    """

    def begin(self, seen: str) -> None:
        self._last_ms, self._last_own_ms = 0, 0.0

    def tell(self, term: Term) -> float:
        view = self.place.look()
        now_ms, own_ms = view.overview.now_ms, self._clock.monotonic_ms()
        is_moving = now_ms - self._last_ms >= (own_ms - self._last_own_ms) / 2
        if not is_moving or not _is_well(view):
            return _HEALTH_S
        self.note(term, str(now_ms))
        assert isinstance(self.sink, Ping)
        self.sink.ping()
        self._last_ms, self._last_own_ms = now_ms, own_ms
        self.worked("all is well")
        return self.sink.every_s


def _is_well(view: StatusView) -> bool:
    overview, audit = view.overview, view.audit
    audited_ms = max(overview.led_since_ms or 0, 0 if audit is None else audit.at_ms)  # the first one takes a minute
    return (
        abs(overview.now_ms - audited_ms) <= _AUDIT_MS
        and not overview.held_ms
        and all(problem.group in _NOT_OF_DAEMONS for problem in view.verdict.problems)
    )


class Notifier:
    """The tellers of an archivist. Raises ConfigError: a sink is not usable."""

    def __init__(self, settings: Settings, link: Link, clock: Clock, archiver: Archiver, failures: Failures) -> None:
        place, self._failures = Surroundings(settings, link, clock, archiver, failures), failures
        self._tellers = list[Teller]()
        self.sinks = sinks_of(settings.notify, settings.namespace)
        for sink in self.sinks:
            events = [kind for kind in sink.on if kind != UNHEALTHY]
            self._tellers += [EventTeller(sink.name, sink, place)] if events else []
            self._tellers += [HealthTeller(f"{sink.name}.health", sink, place)] if UNHEALTHY in sink.on else []
            if "monitors" in sink.given:
                self._tellers.append(MonitorTeller(f"{sink.name}.monitors", sink, place))
            self._tellers += [PingTeller(sink.name, sink, place)] if isinstance(sink, Ping) else []

    def start(self) -> None:
        """Start the threads."""
        for one in self._tellers:
            one.start()

    def stop(self) -> None:
        """End the threads, and what they send. This call does not wait for them."""
        for one in self._tellers:
            one.stop()
        for sink in self.sinks:
            sink.close()

    def serve(self, term: Term | None) -> None:
        """Serve *term* from now on; None: this daemon does not lead."""
        for one in self._tellers:
            one.serve(term)

    def about(self) -> dict[str, Any]:
        """Return the sinks by name, as ``archivers.Report`` reads them."""
        found = dict[str, dict[str, Any]]()
        for sink in self.sinks:
            found[sink.name] = {"kind": sink.kind, "address": sink.address, "on": list(sink.on)}
        shown = self._failures.shown
        for one in self._tellers:
            mine, error = found[one.sink.name], shown.get(f"sink {one.name}")
            mine |= {} if error is None else {"error": error}
            mine |= one.about if one.about.get("last_ms", 0) > mine.get("last_ms", 0) else {}
        return found

    def test(self, name: str) -> str:
        """Send a test message to sink *name*; return why it failed, or ""."""
        sink = next((one for one in self.sinks if one.name == name), None)
        if sink is None:
            return "this daemon's settings do not have it"
        try:
            sink.send(Message.of_test(sink.namespace, name, SystemClock().now_ms()))
        except SinkFailed as error:
            return str(error)
        return ""
