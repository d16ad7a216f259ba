"""
Entries with later states of a schedule (``pause``, ``resume``, ``skip``, ``replan``), of a run (``end``, ``again``,
``stop``, ``unblock``) and of a leader (``term``). An entry of runs does not change their schedules.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from zsched.core.entry import BEFORE_BY, Entry, milliseconds, rows_of, text
from zsched.core.log.kinds import Counts, ParsedEntry, once
from zsched.core.log.rows import Counted, Mentioned, NamedTexts, Paused, Replanned, Resumed, Row, RunsOver, Skips
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.policy import passed_in
from zsched.core.runs.run import ANOTHER_END, Run, RunStatus, ended_as, ended_run
from zsched.core.runs.run_id import run_id_of


class PauseEntry(ParsedEntry, kind="pause", whats={What.PAUSED}):
    """Schedules were paused, until a time or until they are resumed. A row is id, and "<lane> <due ms>"."""

    @once
    def paused(self) -> list[Paused]:
        """The schedules, with their due times, and the note as the hash of paused schedules has it."""
        note, until = self._field(b"note"), text(self.fields.get(b"until", b""))
        note += (f"{BEFORE_BY}{self.by or ''}" if self.by or until else "") + (f"{BEFORE_BY}{until}" if until else "")
        rows = ((id, milliseconds(words.split(" ")[1])) for id, words, _ in self._stored())
        return [Paused(id, due_ms, note) for id, due_ms in rows]

    def rows(self) -> Iterable[Row]:
        return self.paused

    def changes(self) -> Iterator[Change]:
        note, until = self._field(b"note"), milliseconds(text(self.fields.get(b"until") or b"-"))
        for row in self.paused:
            yield self._change(row.id, What.PAUSED, nominal_ms=row.due_ms, next_ms=until, why=note)


class SkipEntry(ParsedEntry, kind="skip", whats={What.SKIP_ASKED, What.SKIP_TAKEN_BACK, What.EXCLUDED}):
    """
    Occurrences to come are skipped by hand, or not any more. A row is id, and "<verb> <times> <next nominal ms> <next
    due ms> <state> <passed>"; the verb is skip or take_back.
    """

    def rows(self) -> Iterator[Skips]:
        for id, words, _ in self._stored():
            verb, times, nominal, due, state, passed = words.split(" ")
            own = int(nominal), int(due), "" if state == "-" else state, passed_in(passed)
            yield Skips(id, [int(one) for one in times.split(",")], verb != "skip", *own)

    def changes(self) -> Iterator[Change]:
        note = self._field(b"note")
        for row in self.rows():
            what = What.SKIP_TAKEN_BACK if row.is_taken_back else What.SKIP_ASKED
            for at_ms in row.times:
                yield self._change(row.id, what, nominal_ms=at_ms, why=note)
            yield from self._passed(row.id, row.passed)


class ResumeEntry(ParsedEntry, kind="resume", whats={What.RESUMED, What.SKIPPED, What.EXCLUDED, What.ENDED}):
    """
    Schedules were resumed. A row is id, and "<lane> <due ms>". Without the occurrences that passed in the pause, its
    words are "<lane> <due ms> <nominal ms> <passed>". If the pause was until then, who paused it follows.
    """

    @once
    def resumed(self) -> list[Resumed]:
        """The schedules, with their due times."""
        found = []
        for id, words, author in self._stored():
            _, due, *skipped = words.split(" ")
            row = Resumed(id, milliseconds(due), author=author)
            if skipped:
                row.nominal_ms, row.passed = milliseconds(skipped[0]), passed_in(skipped[1])
            found.append(row)
        return found

    def rows(self) -> Iterable[Row]:
        return self.resumed

    def changes(self) -> Iterator[Change]:
        past = frozenset(self.made_due())
        for row in self.resumed:
            goes_on = not row.passed or row.due_ms != row.passed[0].first_ms
            yield from self._passed(row.id, row.passed)
            if goes_on and row.due_ms is not None:
                ready_us = self.at_us if row.id in past else 0
                yield self._change(row.id, What.RESUMED, nominal_ms=row.due_ms, ready_us=ready_us, why=row.author)
            elif row.due_ms is None:
                yield self._change(row.id, What.ENDED)

    def made_due(self) -> Iterable[str]:
        return [row.id for row in self.resumed if row.due_ms is not None and row.due_ms * 1000 < self.at_us]


class ReplanEntry(ParsedEntry, kind="replan", whats={What.REPLANNED, What.EXCLUDED}, is_leaders=True):
    """Rules of zones or calendars changed. In ``changes``, ``nominal_ms`` is the old time, ``next_ms`` the new one."""

    @once
    def moved(self) -> list[Replanned]:
        """The schedules that were moved."""
        rows = []
        for id, words, _ in self._stored():
            *times, passed = words.split(" ")
            nominal_ms, new_nominal_ms, new_due_ms = map(int, times)
            if self._is_id(id):
                rows.append(Replanned(id, nominal_ms, new_nominal_ms, new_due_ms, passed_in(passed)))
        return rows

    def rows(self) -> Iterable[Row]:
        return self.moved

    def changes(self) -> Iterator[Change]:
        tzdata = f"tzdata {self._field(b'old') or 'unknown'} → {self._field(b'new')}"
        why = tzdata if self._field(b"of") == "tzdata" else "calendars"
        past = frozenset(self.made_due())
        for row in self.moved:
            ready_us = self.at_us if row.id in past else 0
            times = {"nominal_ms": row.nominal_ms, "next_ms": row.new_nominal_ms, "ready_us": ready_us}
            yield self._change(row.id, What.REPLANNED, why=why, **times)
            yield from self._passed(row.id, row.passed)

    def made_due(self) -> Iterable[str]:
        return [row.id for row in self.moved if row.new_due_ms * 1000 < self.at_us]


class NamedTextsEntry(ParsedEntry, kind="named_texts"):
    """Calendars or known failures were put or deleted. A row is name, t in µs of the change, and the text or -."""

    def rows(self) -> Iterator[NamedTexts]:
        yield NamedTexts({name: f"{int(t_us)} {stored}" for name, t_us, stored in self._stored()})

    def sentence(self) -> str:
        parts = (("deleted" if stored == "-" else "put", *name.partition(":")) for name, _, stored in self._stored())
        names = (f"{word} {sort.replace('_', ' ')} {name}" for word, sort, _, name in parts)
        return ", ".join(names) + (f" by {self.by}" if self.by else "")


_AGAIN: Final = ANOTHER_END.encode()
_LONGEST_RERUN: Final = 20  # characters of "-r" and its number, at the end of a run id


class EndEntry(ParsedEntry, kind="end", whats={What.RUN_ENDED}):
    """
    Runs are over. A row is run id, status, and facts (JSON, ``core.runs.run.facts_text``). Leaders write it, and
    clients that cancel a run.
    """

    def rows(self) -> Iterable[Row]:
        rows = self.run_rows
        yield RunsOver([key for key, _, _ in rows], [(status, facts) for _, status, facts in rows])

    def changes(self) -> Iterator[Change]:
        for key, status, facts in self.run_rows:
            yield self._change_of(key, What.RUN_ENDED, status, record=facts)

    def searched(self) -> Iterator[Change]:
        succeeded = RunStatus.SUCCEEDED.value
        for key, status, facts in self.run_rows:
            if status != succeeded or ANOTHER_END in facts:
                yield self._change_of(key, What.RUN_ENDED, status, record=facts)

    def counts(self) -> Counts:
        return Counts()  # it has no occurrences

    def ended_runs(self) -> Iterator[Run]:
        for key, status, facts in self.run_rows:
            yield ended_run(run_id_of(*key), status, facts, self.at_us // 1000)

    def end_statuses(self) -> Mapping[RunStatus, int]:
        found = Counter[RunStatus]()
        for word, number in Counter(word for _, word, _ in rows_of(self.entry.body)).items():
            found[ended_as(text(word))] += number
        return found

    def ends_of_reruns(self) -> Mapping[str, RunStatus]:
        rows = ((run, word) for run, word, _ in rows_of(self.entry.body) if b"-r" in run[-_LONGEST_RERUN:])
        return {text(run): ended_as(text(word)) for run, word in rows}

    def only_ends(self, statuses: Collection[RunStatus]) -> Entry | None:
        wanted = {status.value.encode() for status in statuses}
        rows = [row for row in rows_of(self.entry.body) if row[1] in wanted or _AGAIN in row[2]]
        return self.entry.with_rows(rows) if rows else None


class StateEntry(ParsedEntry, kind="state", is_leaders=True):
    """Recurring schedules have other counts, of failures or of skipped occurrences in a row. A row is id and state."""

    def rows(self) -> list[Counted]:
        return [Counted(id, "" if state == "-" else state) for id, state, _ in self._stored()]


class AgainEntry(ParsedEntry, kind="again", whats={What.RUN_AGAIN}, is_leaders=True):
    """Runs of dead workers are in their queues again. A row is run id, attempt and reason."""

    def rows(self) -> Iterable[Row]:
        yield Mentioned([key for key, _, _ in self.run_rows])

    def changes(self) -> Iterator[Change]:
        for key, attempt, why in self.run_rows:
            yield self._change_of(key, What.RUN_AGAIN, why, count=int(attempt))


class StopEntry(ParsedEntry, kind="stop", whats={What.STOPPING}):
    """The workers of runs were asked to stop them. Their ends are other entries."""

    def rows(self) -> Iterable[Row]:
        yield Mentioned(self.runs)

    def changes(self) -> Iterator[Change]:
        for key in self.runs:
            yield self._change_of(key, What.STOPPING)


class UnblockEntry(ParsedEntry, kind="unblock", whats={What.RELEASED}, is_leaders=True):
    """Runs that waited for others are in their queues. A row is run id and reason."""

    def rows(self) -> Iterable[Row]:
        yield Mentioned([key for key, _, _ in self.run_rows])

    def changes(self) -> Iterator[Change]:
        for key, why, _ in self.run_rows:
            yield self._change_of(key, What.RELEASED, why)


class TermEntry(ParsedEntry, kind="term", is_leaders=True):
    """A term began."""

    def sentence(self) -> str:
        return f"daemon {self._shown(b'daemon')} leads"
