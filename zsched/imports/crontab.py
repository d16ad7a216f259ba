r"""
Read a crontab: each line becomes a call of one function, with the command as its argument.

    MAILTO=root                                               variables, for the lines below them
    17 * * * *  root  cd / && run-parts /etc/cron.hourly      /etc/crontab and /etc/cron.d: with a user
    @daily            backup --to=disk%first line of stdin    crontab -l: without

The rules are those of crontab(5). Where it says nothing, Debian's cron decides (3.0pl1-162, which ran the lines of the
tests):

- Variables count from their line on. Values are not expanded. Blanks before a value are removed, unless it is in
  quotes; blanks at its end are always removed; an empty value needs quotes. ``TZ`` concerns only the command: cron
  itself uses the machine's zone. ``CRON_TZ``, if it is not empty, is the zone of the lines below it, as for cronie (Red
  Hat and others); Debian's cron ignores it.
- The first ``%`` of a command ends it. The rest is its standard input: each further ``%`` is a line end, and one is
  added at the end. ``\%`` is a percent sign. In the command, not in the input, ``\\`` is one backslash. Any other
  backslash stays.
- Comments need their own lines. Blanks at the end of a line belong to the command.

Some files are read although Debian's cron would refuse them: with a byte order mark, ``\r\n``, a last line without an
end, commands of more than 998 bytes. Because of one bad line cron ignores the whole file; here the other lines are
read.

The five time fields stay as they were written, so that people recognise them. A field is a list of values, ranges and
``*``; a range or ``*`` may have a step. Months and days of the week have names. Additions of other crons (``L``, ``#``,
``?``, ``H``, ``5/15``, ranges that wrap round) are refused. Debian's cron refuses them too, or does not read them as
their writer meant: ``5#2`` as 5, ``22-4`` as never. A ``*`` at the start of a field means more than all its values: see
``core.triggers.cron``.

*user*, or the place of a crontab, decides whether its lines have users: a file in ``/var/spool/cron/crontabs`` is the
crontab of the user with its name. In any other crontab lines have users, and a word that cannot be a user's name is
refused.

An id is ``<file>-<digest>`` of user and command. So a line that moves, or gets another time, keeps its schedule. A line
with another command gets another schedule. Lines with the same user and command are numbered from the second on.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from zsched.core.triggers.cron import ALIASES, LONGEST
from zsched.core.triggers.zones import zone
from zsched.core.wording import blanked
from zsched.imports.found import ImportSource, Item

_SPOOL: Final = PurePath("/var/spool/cron/crontabs")
_READ_BY_CRON: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)  # names of files in cron.d, by cron(8)
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?", re.ASCII)
_NOT_IN_ID: Final = re.compile(r"^-|[^A-Za-z0-9_-]+", re.ASCII)
_VARIABLE: Final = re.compile(
    r"""(?:"(?P<n1>[^"=]*)"|'(?P<n2>[^'=]*)'|(?P<n3>[^\s='"][^\s=]*))\s*=\s*"""
    r"""(?:"(?P<v1>[^"]*)"\s*|'(?P<v2>[^']*)'\s*|(?P<v3>[^\s'"].*))""",
    re.ASCII,
)
_BLANKS: Final = " \t"
_ENDS: Final = " \t\n\v\f\r"  # removed from the end of a value: C's isspace
_LONGEST_NAME: Final = 60  # characters of a file's name in an id
_DIGEST: Final = 10  # hexadecimal digits
_SHOWN: Final = 200  # characters of a command in a schedule's description, the most that one takes

_REBOOT: Final = (
    "@reboot is not a time, and schedules outlive machines; run it by a systemd unit (Type=oneshot, "
    "WantedBy=multi-user.target), or leave this line to cron"
)
_TOO_FEW: Final = "neither a variable (name=value) nor {} and a command; correct it, or make it a comment"
_NO_USER: Final = (
    "{!r} is in the place of the user's name, and is not a name; write the user before the command, or give --user if "
    "the lines of this crontab have no users"
)
_STAR: Final = "'*' is in the place of the command, and Debian's cron refuses such a line; write five time fields"
_NUL: Final = "a NUL ends it, for cron and for the shell; remove it"
_NO_END: Final = "its last line has no line end, so Debian's cron ignores the whole file; this import reads it"
_NOT_READ: Final = "cron ignores files with this name in cron.d; rename it, or import the one that cron reads"


class _Line(NamedTuple):
    """A line with a command: its time, its user, its command as written, and the variables above it."""

    number: int
    cron: str
    user: str
    command: str
    variables: Mapping[str, str]


def read_crontab(
    name: str, raw: bytes, func: str, options: Mapping[str, Any], *, owner: str, user: str | None = None
) -> ImportSource:
    """
    Return the lines of *raw*, the content of file *name*, as calls of *func*. All get *options*, which include tz, the
    zone of lines without a CRON_TZ. *user*: the owner of the crontab; then its lines have no users.
    """
    path, source = PurePath(name), ImportSource(name, owner)
    user = path.name if user is None and path.parent == _SPOOL else user
    if path.parent.name == "cron.d" and not _READ_BY_CRON.fullmatch(path.name):
        source.refuse(1, path.name, _NOT_READ)
        return source
    text, met = raw.decode("utf-8-sig", errors="surrogateescape"), Counter[str]()
    stem = _NOT_IN_ID.sub("_", path.name if path.name != "-" else f"crontab-{user}")[:_LONGEST_NAME]
    for line in _lines(source, text, user):
        digest = hashlib.sha256(f"{line.user}\n{line.command}".encode()).hexdigest()
        id = f"{stem}-{digest[:_DIGEST]}"
        met[id] += 1
        source.items.append(_item(line, id if met[id] == 1 else f"{id}-{met[id]}", func, options))
    if text.rpartition("\n")[2].lstrip(_BLANKS)[:1] not in ("", "#"):
        source.remarks.append(f"{name}: {_NO_END}")
    source.remarks += _about_variables(source)
    return source


def command_of(text: str) -> tuple[str, str | None]:
    """Return the command in *text*, and its standard input or None."""
    said = re.match(r"(?:\\.|[^\\%]|\\$)*", text, re.DOTALL)
    assert said is not None  # it may be empty
    command = re.sub(r"\\(.)", lambda pair: pair[1] if pair[1] in "%\\" else pair[0], said[0], flags=re.DOTALL)
    stdin = re.sub(r"\\%|%", lambda sign: "%" if len(sign[0]) == 2 else "\n", text[said.end() + 1 :])
    return command, (stdin if stdin.endswith("\n") else stdin + "\n") if stdin else None


def users_of(source: ImportSource) -> set[str]:
    """Return the users that run the lines of a crontab."""
    return {item.options["kwargs"]["user"] for item in source.items}


# -- lines ----------------------------------------------------------------------------------------------


def _lines(source: ImportSource, text: str, user: str | None) -> Iterator[_Line]:
    """Yield the lines of *text* with a command; refuse lines that cannot be read."""
    variables: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        said = line.removesuffix("\r").lstrip(_BLANKS)
        if not said or said.startswith("#"):
            continue
        try:
            said.encode()
            if "\0" in said:
                raise ValueError(_NUL)
            if (variable := _VARIABLE.fullmatch(said)) is None:
                zone(variables.get("CRON_TZ") or "UTC", "CRON_TZ")
                yield _line(number, said, user, dict(variables))
            else:
                named = {key[0]: found for key, found in variable.groupdict().items() if found is not None}
                variables[named["n"]] = _value(named["v"])
        except UnicodeEncodeError:
            shown = said.encode(errors="replace").decode()
            source.refuse(number, shown, "it is not UTF-8 text; write the file in UTF-8")
        except ValueError as error:
            source.refuse(number, said, str(error))


def _value(text: str) -> str:
    """Return the value of a variable, given the text between its quotes, in which cron searches for quotes again."""
    value = text.rstrip(_ENDS)
    return value[1:-1] if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0] else value


def _line(number: int, said: str, user: str | None, variables: Mapping[str, str]) -> _Line:
    """Parse the line *said*. Raises ValueError with problem and remedy."""
    macro = said.startswith("@")
    times = 1 if macro else 5
    words = re.split(r"[ \t]+", said, maxsplit=times + (user is None))
    if macro and words[0] == "@reboot":
        raise ValueError(_REBOOT)
    if macro and words[0] not in ALIASES:
        raise ValueError(f"{words[0]!r} is not a time of cron; write one of {', '.join(ALIASES)}, or five fields")
    if len(words) <= times + (user is None) or not words[-1]:
        lacking = "a macro" if macro else "five time fields"
        raise ValueError(_TOO_FEW.format(f"{lacking}, a user" if user is None else lacking))
    cron = ALIASES[words[0]] if macro else cron_of_fields(words[:times])
    who, command = words[times] if user is None else user, words[-1]
    if user is None and (not _USER.fullmatch(who) or command.startswith("-")):
        raise ValueError(_NO_USER.format(who))
    if user is not None and command.startswith("*"):
        raise ValueError(_STAR)
    return _Line(number, cron, who, command, variables)


def _item(line: _Line, id: str, func: str, options: Mapping[str, Any]) -> Item:
    """Return the call of *func* for *line*."""
    command, stdin = command_of(line.command)
    called: dict[str, Any] = {
        "cron": line.cron,
        "args": [command],
        "kwargs": {"user": line.user, "environment": dict(line.variables), "stdin": stdin},
        "description": blanked(line.command)[:_SHOWN],
    }
    cron_tz = line.variables.get("CRON_TZ")
    return Item(id, line.number, func, {**called, **options, **({"tz": cron_tz} if cron_tz else {})})


def _about_variables(source: ImportSource) -> Iterator[str]:
    """Yield notes on variables that have no effect here, although people may expect one."""
    names = {name for item in source.items for name in item.options["kwargs"]["environment"]}
    if "MAILTO" in names:
        yield f"{source.name}: output of commands is not mailed (MAILTO); the function has MAILTO in its environment"
    if "CRON_TZ" in names:
        yield f"{source.name}: CRON_TZ is the zone of the lines below it, as for cronie; Debian's cron ignores it"


# -- the five time fields -----------------------------------------------------------------------------


_ITEM: Final = re.compile(r"(?:(\*)|([a-z0-9]+)(?:-([a-z0-9]+))?)(?:/([0-9]+))?", re.IGNORECASE | re.ASCII)


class _Field(NamedTuple):
    """One of the five fields: its name, its least and largest value, and names of the values from the least on."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """Return its valid values, for a message."""
        return f"{self.low}-{self.high}" + (f" or {self.names[0]}-{self.names[-1]}" if self.names else "")


_WEEKDAY: Final = _Field("day of week", 0, 7, tuple("sun mon tue wed thu fri sat".split()))
_DAY: Final = _Field("day of month", 1, 31)
_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _DAY,
    _Field("month", 1, 12, tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())),
    _WEEKDAY,
)
# The remedy for the least value of a day field that starts with *, which makes both day fields count.
_ALONE: Final = {_WEEKDAY: "*/7", _DAY: "1 if the day of week is *, else let the command look at the date"}


def cron_of_fields(texts: Sequence[str]) -> str:
    """
    Return the expression with which zsched fires at the times of the five fields *texts*.

    Raises:
        ValueError: Debian's cron does not accept them; the message has the field, the reason and the remedy.
    """
    if len(" ".join(texts)) > LONGEST:
        raise ValueError(f"the time fields are longer than {LONGEST} characters; use ranges and steps")
    return " ".join(_written(field, text) for field, text in zip(_FIELDS, texts, strict=True))


def _written(field: _Field, text: str) -> str:
    try:
        return ",".join(_checked(field, item) for item in text.split(","))
    except ValueError as error:
        raise ValueError(f"{field.name} {text!r}: {error}") from None


def _checked(field: _Field, item: str) -> str:
    """Return one item of a field's list in zsched's form. Raises ValueError."""
    if (match := _ITEM.fullmatch(item)) is None:
        raise ValueError(f"{item!r} is not in the syntax of crontab(5); write {field.allowed}, *, a-b, a-b/n or */n")
    star, first, last, step = match.groups()
    if step is not None and not (star or last):
        remedy = f"write {first}-{field.high}/{step}, or {first} alone"
        raise ValueError(f"a step needs a range or *, and Debian's cron refuses this one; {remedy}")
    low = field.low if star else _number(field, first)
    high = field.high if star else low if last is None else _number(field, last)
    if low > high:
        until_sunday = f"write {first}-7" + (f"/{step}" if step else "")
        remedy = until_sunday if field is _WEEKDAY and high == 0 else "write two ranges, with a comma between"
        raise ValueError(f"the range {item!r} ends before it begins; {remedy}")
    if step is not None and int(step) == 0:
        raise ValueError("a step of 0 is not valid; write 1 or more")
    if star and step is not None and int(step) > high - low:
        raise ValueError(f"a step of {step} selects only {low}; write {_ALONE.get(field, low)}")
    return item


def _number(field: _Field, text: str) -> int:
    """Return the number of *text*, which may be a name. Raises ValueError."""
    if text.isdecimal() and field.low <= int(text) <= field.high:
        return int(text)
    if text.lower() in field.names:
        return field.names.index(text.lower()) + field.low
    raise ValueError(f"{text!r} is not a valid {field.name}; write {field.allowed}")
