"""
A file of schedules: from its text to checked entries, or to all its mistakes.

    owner = "billing"                  # owner of its schedules; default: file:<name of the file>
    [defaults]                         # options that its schedules share
    tz = "Asia/Seoul"
    [schedules.digest]                 # the id
    func = "app.tasks.digest"
    cron = "0 9 * * 1-5"
    exclude = ["kr"]
    [calendars.kr]                     # excluded times that schedules of the namespace may name
    dates = ["2026-09-24..2026-09-26 Chuseok"]
    ics = "kr.ics"                     # a file of a calendar program, from the folder of this one

``checking`` has the keys of an entry. The caller's *checks* decide on function paths, options and arguments. An entry
with a mistake is checked to its end, so that one reading reports all mistakes. If a mistake could cause others, those
are not reported. Arguments are checked last, when their keys have no mistake.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from zsched.config.reading import read_toml
from zsched.core.model import Definition
from zsched.core.options.arguments import check_text
from zsched.core.toml import Lines, key_text
from zsched.core.triggers.calendar_definition import Calendar
from zsched.core.triggers.trigger import RULES
from zsched.core.wording import nearest
from zsched.errors import NOT_GIVEN, InvalidFile, InvalidSchedule
from zsched.files import checking

STDIN: Final = "-"
_TOP: Final = ("owner", "defaults", "schedules", "calendars")


class Complaint(NamedTuple):
    """One mistake in a file. ``where`` is the table: ``[schedules.digest]``, or ""."""

    line: int
    where: str
    problem: str

    def text(self, name: str) -> str:
        """Return a line for people, in the form of compilers."""
        return f"{name}:{self.line}: {self.where}{': ' if self.where else ''}{self.problem}"


class FileEntry(NamedTuple):
    """One schedule of a file."""

    id: str
    line: int
    definition: Definition


class ScheduleFile(NamedTuple):
    """The checked content of a file; ``name`` is the caller's name for it."""

    name: str
    owner: str
    entries: tuple[FileEntry, ...]
    calendars: Mapping[str, Calendar]
    lines: Lines


def read(name: str, raw: bytes, checks: checking.ClientChecks, owner: str | None = None) -> ScheduleFile:
    """
    Return the schedules in *raw*, the content of file *name* (``-``: standard input). *owner* replaces the file's.

    Raises:
        InvalidFile: with all mistakes.
    """
    try:
        text = raw.decode()
        found = read_toml(text)
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8 text; write the file in UTF-8"
        raise file_refusal(name, [Complaint(raw[: error.start].count(b"\n") + 1, "", problem)]) from None
    except ValueError as error:  # tomllib's own errors are ValueErrors; so is a number of 5000 digits
        raise file_refusal(name, [_not_toml(error, raw)]) from None
    return _Reading(name, found if owner is None else {**found, "owner": owner}, Lines(text), checks).file()


class _Reading:
    """The reading of one file, from parsed TOML to entries. Complaints are collected."""

    def __init__(self, name: str, found: dict[str, Any], lines: Lines, checks: checking.ClientChecks) -> None:
        self._name, self._found, self._lines, self._checks = name, found, lines, checks
        self._complaints: list[Complaint] = []

    def file(self) -> ScheduleFile:
        for key in self._found:
            if key not in _TOP:
                known = "a file has owner, [defaults], [schedules.<id>] and [calendars.<name>]"
                remedy = f"write {near}" if (near := nearest(key, _TOP)) else known
                self._complain((key,), f"{key}: no such key here; {remedy}")
        unread: set[str] = set()
        owner, shared = self._owner(), self._shared(unread)
        calendars = dict(self._calendars(owner or "unknown"))
        tables = self._found.get("schedules")
        if not isinstance(tables, dict):
            problem = "there is no [schedules.<id>]; a file that is to have no schedules says so with [schedules]"
            self._complain(("schedules",), problem)
            tables = {}
        entries = [self._entry(id, table, owner, shared, unread) for id, table in tables.items()]
        if self._complaints:
            raise file_refusal(self._name, self._complaints)
        found = tuple(entry for entry in entries if entry is not None)
        return ScheduleFile(self._name, owner, found, calendars, self._lines)

    # -- owner, defaults and calendars --------------------------------------------------------------

    def _owner(self) -> str:
        owner = self._found.get("owner")
        if owner is None and self._name == STDIN:
            problem = "standard input has no name that could own the schedules; write owner = at its top"
            self._complaints.append(Complaint(1, "", problem))
            return ""
        try:
            if owner == "":
                raise InvalidSchedule("owner", owner, "it is empty", "give a name, or leave the line out")
            return check_text("owner", f"file:{PurePath(self._name).name}" if owner is None else owner)
        except InvalidSchedule as error:
            self._complain(("owner",), str(error))
            return ""

    def _shared(self, bad: set[str]) -> dict[str, Any]:
        """Read the defaults, as ``_plain`` does."""
        table = self._found.get("defaults", {})
        if not isinstance(table, dict):
            self._complain(("defaults",), "defaults is not a table; write [defaults] and options below it")
            return {}
        shared = self._plain(("defaults",), table, bad)
        for name in checking.NOT_SHARED:
            if name in shared:
                self._complain(("defaults", name), f"{name}: each schedule has its own; write it there")
                del shared[name]
        return shared

    def _calendars(self, owner: str) -> Iterator[tuple[str, Calendar]]:
        tables = self._found.get("calendars", {})
        if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
            self._complain(("calendars",), "not tables; write [calendars.<name>], and dates = […] below it")
            return
        for name, table in tables.items():
            try:
                yield name, self._checks.calendar(name, table, owner)
            except InvalidSchedule as error:
                self._complain(("calendars", name, error.field), str(error))

    # -- an entry -----------------------------------------------------------------------------------

    def _entry(self, id: str, table: Any, owner: str, shared: Mapping[str, Any], unread: set[str]) -> FileEntry | None:
        """Return the schedule *id*, or None after complaints. *unread*: defaults that could not be read."""
        path = ("schedules", id)
        if not isinstance(table, dict):
            self._complain(path, f"not a table; write [schedules.{key_text(id)}] and options below it")
            return None
        before = len(self._complaints)
        bad = {name for name in unread if name not in table}  # options with complaints
        options = {**shared, **self._plain(path, table, bad)}
        func = options.pop("func", None)
        if not isinstance(func, str):
            problem = "there is none" if "func" not in table else f"{func!r} is not a dotted path"
            self._complain((*path, "func"), f'func: {problem}; give one such as "app.tasks.digest"')
            func = None
        rules = [name for name in RULES if name in options]
        if not rules and ("at" in table or "after" in table):  # there is a complaint already
            checking.mend(options, "every")
        if len(rules) > 1:
            self._complain(path, f"{' and '.join(rules)}: more than one rule; {checking.ONE_RULE}")
            checking.mend(options, *rules)
        arguments: dict[str, Any] = {name: options[name] for name in checking.ARGUMENTS if name in options}
        options |= {"id": id, "owner": owner or "unknown"}
        definition, mistakes = checking.check_through(self._checks.define, func, options, bad)
        for field, problem in mistakes:
            self._complain(self._place(path, field) if field else path, problem)
        bad |= {field for field, _ in mistakes if field}
        if func is not None and bad.isdisjoint({"func", *checking.ARGUMENTS}):
            self._look_at_arguments(path, func, arguments, bad)
        if definition is None or len(self._complaints) > before:
            return None
        return FileEntry(id, self._lines.of(*path), definition)

    def _look_at_arguments(self, path: tuple[str, ...], func: str, arguments: Mapping[str, Any], bad: set[str]) -> None:
        """Complain about mistakes in *arguments*. A missing one is not a mistake if a *bad* option may contain it."""
        named = arguments.get("kwargs")
        may_be_elsewhere = any(map(checking.may_be_arguments, bad))
        for mistake in self._checks.mistakes(func, arguments):
            if mistake.value is NOT_GIVEN and mistake.field in bad:
                self._complain(self._place(path, mistake.field), f"{mistake.field}: an argument; write it in kwargs")
            elif mistake.value is not NOT_GIVEN or not may_be_elsewhere:
                is_named = "args" not in arguments or (isinstance(named, Mapping) and mistake.field in named)
                place = self._place(path, "kwargs" if is_named else "args")
                self._complain(place if place == path else (*place, mistake.field), str(mistake))

    def _plain(self, path: tuple[str, ...], table: Mapping[str, Any], bad: set[str]) -> dict[str, Any]:
        """
        Return the options of *table*, with parsed durations and JSON texts. Options that are not allowed here get a
        complaint. Options with a value that cannot be parsed are also added to *bad*.
        """
        options: dict[str, Any] = {}
        for key, value in table.items():
            name = checking.option_of(key)
            if key in checking.REFUSED:
                self._complain((*path, key), f"{key}: {'; '.join(checking.REFUSED[key])}")
                continue
            if name != key and name in table:
                self._complain((*path, key), f"{key}: {name} is given too; give one of the two")
                continue
            try:
                options[name] = checking.value_of(key, value)
            except ValueError as error:
                self._complain((*path, key), f"{key}: {error}")
                bad.add(name)
                checking.mend(options, name)
        return options

    # -- complaints ---------------------------------------------------------------------------------

    def _place(self, path: tuple[str, ...], field: str) -> tuple[str, ...]:
        """Find option *field* of the entry at *path*: there, or among the defaults; else return the entry's place."""
        for table in (path, ("defaults",)):
            found: Any = self._found
            for part in table:
                found = found.get(part, {})
            for key in (field, f"{field}_json"):
                if key in found:
                    return (*table, key)
        return path

    def _complain(self, path: tuple[str, ...], problem: str) -> None:
        is_entry = path[0] in ("schedules", "calendars") and len(path) > 1
        where = header_of(path[1], path[0]) if is_entry else "[defaults]" if path[0] == "defaults" else ""
        complaint = Complaint(self._lines.of(*path), where, problem)
        if complaint not in self._complaints:  # a bad default is found once per entry
            self._complaints.append(complaint)


def _not_toml(error: Exception, raw: bytes) -> Complaint:
    """Return tomllib's complaint; its message contains the line."""
    said = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error), re.DOTALL)
    if said is None:
        return Complaint(1, "", f"not TOML: {error}")
    message, line, column = said.groups()
    if line is None:
        return Complaint(max(len(raw.rstrip().splitlines()), 1), "", f"not TOML: {message} at the end")
    return Complaint(int(line), "", f"not TOML: {message} at column {column}")


def header_of(id: str, table: str = "schedules") -> str:
    """Return the header of an entry of a file."""
    return f"[{table}.{key_text(id)}]"


def file_refusal(name: str, complaints: list[Complaint]) -> InvalidFile:
    """Return the error for all *complaints* about file *name*."""
    shown = "standard input" if name == STDIN else name
    ordered = sorted(complaints, key=lambda complaint: complaint.line)
    return InvalidFile(shown, tuple(complaint.text(shown) for complaint in ordered))
