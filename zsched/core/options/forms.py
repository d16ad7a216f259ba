"""
The parts of an option: the form of its values, and where Redis keeps it. The options are in ``core.options.table``.

A value has four representations: a caller's argument, the checked value, a text in a Redis hash, and a value for JSON.
A form has the functions between them. Command line, files, HTTP and console follow from its type and its schema.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, TypeAlias

from zsched.core.options.arguments import (
    LONGEST_S,
    check_id,
    check_number,
    check_queue,
    check_tags,
    check_text,
    check_version,
    choice,
    flag,
    seconds_to_ms,
)
from zsched.core.runs.run_id import ID
from zsched.core.triggers.exclusions import MOST as MOST_EXCLUSIONS
from zsched.core.triggers.exclusions import canonical
from zsched.core.triggers.spec import Fold, Gap, OnExcluded
from zsched.core.triggers.trigger import LOCAL_TIME
from zsched.core.triggers.zones import zone
from zsched.core.wording import duration_text
from zsched.errors import InvalidSchedule

UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)  # a malformed text
MOST_RETRIES: Final = 1_000_000  # a number that a script would write as inf ends every worker that reads it
LONGEST_PATH: Final = 512  # characters of a function's path
_DIGITS: Final = 18  # longest number that is read from a field
_MOST_SLOTS: Final = 1_000_000
_LONGEST_KEY: Final = 200  # characters of a rate limit's key
BETWEEN_PARTS: Final = ":"  # of the text of a value with several fields
_RQ_SETS: Final = (":allowed", ":rate_limited")

Schema: TypeAlias = dict[str, Any]  # a JSON schema
DurationValue: TypeAlias = float | str | timedelta  # seconds, a text such as 1h30m, or a timedelta
GapWord: TypeAlias = Gap | Literal["first_valid", "shift", "skip"]
OnExcludedWord: TypeAlias = OnExcluded | Literal["skip", "next_open"]
FoldWord: TypeAlias = Fold | Literal["first", "second", "both"]


class RetryLike(Protocol):
    """``rq.Retry``, which the core does not import."""

    max: int
    enqueue_at_front: bool


class CallbackLike(Protocol):
    """``rq.Callback``, which the core does not import."""

    @property
    def name(self) -> str: ...
    @property
    def timeout(self) -> int | None: ...


class RateLimitLike(Protocol):
    """``rq.RateLimit``, which the core does not import."""

    @property
    def key(self) -> str: ...
    @property
    def concurrency(self) -> int: ...


class RateLimit(NamedTuple):
    """A checked rate limit of RQ: at most *concurrency* jobs with the same *key* are queued or running at once."""

    key: str
    concurrency: int

    def __str__(self) -> str:
        return f"{self.key}:{self.concurrency}"


RateLimitValue: TypeAlias = str | tuple[str, int] | list[Any] | dict[str, Any] | RateLimitLike
RetryValue: TypeAlias = int | dict[str, Any] | RetryLike
CallbackValue: TypeAlias = str | Callable[..., Any] | dict[str, Any] | CallbackLike


TEXT: Final[Schema] = {"type": "string"}
SECONDS: Final[Schema] = {"type": ["number", "string"]}
_LINE: Final = TEXT | {"maxLength": 200}
_RETRIES: Final[Schema] = {"type": ["integer", "object"], "minimum": 1}
_ID: Final = TEXT | {"pattern": f"^{ID.pattern}$", "examples": ["reminder-42"]}


class ValueType(Enum):
    """The type of a form's values: command line, files, HTTP and console read each in their own way."""

    TEXT = "text"
    WORD = "word"  # of an enum
    BOOLEAN = "boolean"
    NUMBER = "number"
    DURATION = "duration"  # seconds, a text such as 5m, or a timedelta
    TIME = "time"
    LIST = "list"  # of texts
    ARRAY = "array"  # of any values
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Form:
    """
    A form: the functions between the representations of a value. By default it is any value, checked elsewhere.

    ``metavar``: the placeholder in a command's help. ``schema``: the JSON schema of a caller's values. ``unit``: the
    suffix of the name in JSON. ``check`` returns the checked value of the option with this name, or raises
    InvalidSchedule. ``from_text`` reads a field of Redis, and raises UNREADABLE if another program wrote it.
    """

    metavar: str = "TEXT"
    value_type: ValueType = ValueType.TEXT
    schema: Schema = field(default_factory=TEXT.copy)
    check: Callable[[str, Any], Any] = lambda name, value: value
    to_text: Callable[[Any], str] = str
    from_text: Callable[[str], Any] = str
    to_argument: Callable[[Any], Any] = lambda value: value
    to_json: Callable[[Any], Any] = lambda value: value
    unit: str = ""
    enum: type[Enum] | None = None

    @property
    def words(self) -> list[str]:
        """The words of its enum, if it has one."""
        return [member.value for member in self.enum or ()]


def word_of(enum: type[Enum]) -> Form:
    """Return the form of a word of *enum*."""
    schema, word = {"enum": [member.value for member in enum]}, attrgetter("value")
    check = partial(choice, enum=enum)
    return Form("", ValueType.WORD, schema, check, to_text=word, from_text=enum, to_json=word, enum=enum)


def duration_of(least_ms: int = 0, metavar: str = "DURATION") -> Form:
    """Return the form of a ``DurationValue`` of at least *least_ms*; checked: milliseconds."""

    check = partial(seconds_to_ms, least_ms=least_ms)

    def from_text(text: str) -> int:
        return check("", timedelta(milliseconds=whole_number(text)))

    made = Form(metavar, ValueType.DURATION, SECONDS, check, from_text=from_text, unit="_s")
    return replace(made, to_argument=lambda ms: timedelta(milliseconds=ms), to_json=lambda ms: ms / 1000)


def count_of(noun: str, most: int | None = None) -> Form:
    """Return the form of a whole number from 1, to *most* if given, which counts *noun*."""
    schema = {"type": "integer", "minimum": 1} | ({} if most is None else {"maximum": most})
    check = partial(check_number, most=most, noun=noun)
    return Form("N", ValueType.NUMBER, schema, check, from_text=lambda text: check("", whole_number(text)))


def _rate_limit(name: str, value: Any) -> RateLimit:
    """Return the checked rate limit. Raises InvalidSchedule."""
    key, concurrency = _parts_of_limit(value)
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not isinstance(key, str):
        remedy = 'give "key:3", ("key", 3), {"key": …, "concurrency": …} or rq.RateLimit'
        raise InvalidSchedule(name, value, "not a rate limit", remedy)
    if not 1 <= concurrency <= _MOST_SLOTS:
        raise InvalidSchedule(name, value, f"{concurrency} slots", f"give 1 to {_MOST_SLOTS} slots")
    if not 1 <= len(key) <= _LONGEST_KEY or not key.isprintable():
        raise InvalidSchedule(name, value, "not a usable key", f"give 1 to {_LONGEST_KEY} printable characters")
    if key.endswith(_RQ_SETS):
        problem = f"keys that end in {' and '.join(_RQ_SETS)} are reserved by RQ"
        raise InvalidSchedule(name, value, problem, "give another key")
    return RateLimit(key, concurrency)


def _parts_of_limit(value: Any) -> tuple[Any, Any]:
    """Return key and number of a possible rate limit; None twice if it is not one."""
    if isinstance(value, str):
        key, _, number = value.rpartition(":")
        return key, int(number) if number.isascii() and number.isdigit() and len(number) <= _DIGITS else None
    if isinstance(value, dict):
        return (value["key"], value["concurrency"]) if value.keys() == {"key", "concurrency"} else (None, None)
    if isinstance(value, tuple | list):
        return (value[0], value[1]) if len(value) == 2 else (None, None)
    return getattr(value, "key", None), getattr(value, "concurrency", None)


def _done_by(name: str, value: Any) -> str:
    """Return the checked deadline, a local time or a duration, as text. Raises InvalidSchedule."""
    if isinstance(value, str) and LOCAL_TIME.fullmatch(value):
        return value
    if isinstance(value, str) and ":" in value:
        raise InvalidSchedule(name, value, "not a local time", "give one such as 06:00 or 18:30:15, or a duration")
    return duration_text(seconds_to_ms(name, value, least_ms=1000))


def _line_of(text: str) -> str:
    """Return a stored line. It may be the path of a function; a longer one would widen each listing."""
    return text if len(text) <= LONGEST_PATH else check_text("", text)


def zone_name(tz: object) -> str | None:
    """Return the checked name of a zone, given as text or ZoneInfo."""
    if tz is None:
        return None
    key = getattr(tz, "key", tz)
    if not isinstance(key, str):
        raise InvalidSchedule("tz", tz, "not a zone", 'give an IANA name such as "America/New_York"')
    zone(key)
    return key


# The forms. Those of RQ's options are checked by the encoder of its jobs.
BOOLEAN: Final = Form(
    "", ValueType.BOOLEAN, {"type": "boolean"}, flag, lambda value: "1" if value else "0", lambda text: text == "1"
)
LINE: Final = Form(schema=_LINE, check=check_text, from_text=_line_of)
TAGS: Final = Form(
    "TEXT",
    ValueType.LIST,
    {"type": "array", "items": _LINE, "maxItems": 32},
    lambda _, tags: check_tags(tags),
    to_text=lambda tags: json.dumps(tags, separators=(",", ":"), ensure_ascii=False),
    from_text=lambda text: check_tags(json.loads(text)),
    to_json=list,
)
EXCLUSIONS: Final = Form(
    "TEXT", ValueType.LIST, {"type": ["array", "string"], "items": _LINE, "maxItems": MOST_EXCLUSIONS}, canonical
)
SCHEDULE_ID: Final = Form(schema=_ID, check=lambda _, id: check_id(id))
VERSION: Final = Form(schema=TEXT | {"pattern": "^[!-~]{1,64}$"}, check=lambda _, version: check_version(version))
QUEUE: Final = Form("NAME", schema=TEXT | {"minLength": 1, "maxLength": 128}, check=lambda _, name: check_queue(name))
# A stored zone may be one that this machine lacks.
ZONE: Final = Form("ZONE", check=lambda _, tz: zone_name(tz), from_text=lambda text: check_text("tz", text))
# The instant of a local time depends on other options, so a trigger checks it.
TIME: Final = Form("TIME", ValueType.TIME, TEXT | {"description": "RFC 3339; without an offset local in tz"})
ARRAY: Final = Form("JSON", ValueType.ARRAY, {"type": "array", "items": {}})
OBJECT: Final = Form("JSON", ValueType.OBJECT, {"type": "object"})
# Whole seconds in Redis and in JSON, or -1.
RQ_SECONDS: Final = Form(
    "DURATION", ValueType.DURATION, SECONDS, from_text=lambda text: whole_number(text, -1, LONGEST_S)
)
RETRIES: Final = Form("N", ValueType.NUMBER, _RETRIES, from_text=lambda text: whole_number(text, 0, MOST_RETRIES))
DONE_BY: Final = Form("TIME|DURATION", schema=SECONDS, check=_done_by, from_text=lambda text: _done_by("done_by", text))
CALLBACK: Final = Form("FUNC", schema={"type": ["string", "object"]})
RATE_LIMIT: Final = Form(
    "KEY:N",
    ValueType.TEXT,
    {"type": ["string", "object", "array"], "items": {}},
    _rate_limit,
    from_text=lambda text: _rate_limit("rate_limit", text),
    to_argument=str,
    to_json=RateLimit._asdict,
)


class Stored(Enum):
    """The place in Redis of an option's value."""

    NOT = "not"  # not stored: it belongs to the call
    DATA = "data"  # in the payload
    RULE = "rule"  # in the trigger; for a one-shot, its due time
    PLACE = "place"  # the queue and the lane
    JOB = "job"  # a field of RQ's job hash: a one-shot's, or the template's of a rule's runs
    RQ = "rq"  # RQ's own fields there, which storage.rqjob writes
    FLAG = "flag"  # a letter that the scripts read
    POLICY = "policy"  # a recurring schedule's policy
    OWN = "own"  # a field of a recurring schedule's hash
    LABEL = "label"  # the same, or a field zs_<name> of a one-shot's job; scripts do not read it


class Group(StrEnum):
    """The heading of an option in its page, in ``zsched add --help`` and in the console's form, in their order."""

    EVERYDAY = "Everyday"
    TIME = "Time"
    PLACE = "Place and labels"
    LATE = "Late or overlapping"
    CHANGED = "Failed, lost, or changed meanwhile"


_FLAG: Final = re.compile(r"--([a-z-]+)")


@dataclass(frozen=True, slots=True)
class Option:
    """
    The definition of an option. ``name`` and ``is_optional`` (None may be given) come from its key and type.

    ``field``: its field in Redis. If several names are there, separated by spaces, colons separate their parts of the
    value's text. ``letter``: the flag for the value that is not the default. ``attribute``: the attribute of
    ``Schedule`` with the checked value ("-": none); by default the option's name. ``once``: the reason why a one-shot
    cannot have it. ``elsewhere``: names of other schedulers for it, separated by spaces. ``off``: the command line's
    flag for False, if it needs one. ``json_name``: its name in JSON. ``fields``: the names in ``field``.
    """

    help: str
    form: Form
    stored: Stored = Stored.NOT
    field: str = ""
    letter: str = ""
    attribute: str = ""
    once: str = ""
    elsewhere: str = ""
    off: str = ""
    group: Group = Group.EVERYDAY
    name: str = ""
    is_optional: bool = False
    json_name: str = ""
    fields: tuple[str, ...] = ()

    def texts(self, value: Any) -> list[str]:
        """Return the text of each of its fields for the checked *value*."""
        text = self.form.to_text(value)
        return [text] if len(self.fields) == 1 else text.rsplit(BETWEEN_PARTS, len(self.fields) - 1)

    def named(self, name: str, is_optional: bool) -> Self:
        """Return this option with its name, and with the attributes that follow from the name."""
        attribute, once, json_name = self.attribute or name, self.once, name + self.form.unit
        if self.stored is Stored.POLICY:
            attribute, once = f"policy.{self.field}", "a one-shot has one occurrence"
        elif self.stored is Stored.RQ:
            json_name = attribute
        of_name = replace(self, name=name, is_optional=is_optional, fields=tuple(self.field.split()))
        return replace(of_name, attribute=attribute, once=once, json_name=json_name)

    def help_with(self, named: Callable[[str], str]) -> str:
        """Return the help, in which other options have the names that *named* gives them, instead of their flags."""
        return _FLAG.sub(lambda found: named(found[1].replace("-", "_")), self.help)


def whole_number(text: str | bytes, least: int = -(10**_DIGITS), most: int = 10**_DIGITS) -> int:
    """
    Return the number in a field, which Lua reads, too, from *least* to *most*. Raises ValueError for any other text.
    """
    is_whole = (text[1:] if text[:1] in ("-", b"-") else text).isdigit() and text.isascii() and len(text) <= _DIGITS
    if not is_whole or not least <= int(text) <= most:
        raise ValueError(f"{text[:_DIGITS]!r} is not a whole number from {least} to {most}")
    return int(text)
