"""
The parts of an option: the form of its values, and where Redis keeps it. The options are in ``core.option_table``.

A value is given by a caller, checked, kept as a text in a Redis hash and shown in JSON: a form knows these four ways to
say it. How a command line says it is ``cli.puts``' to know, by the form's class.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

from zsched.core.arguments import check_id, check_queue, check_tags, check_text, choice, flag, seconds_to_ms, zone_name
from zsched.core.triggers import Fold, Gap
from zsched.errors import InvalidSchedule

_DIGITS: Final = 18  # longest number that is read from a field
_MOST_SLOTS: Final = 1_000_000
_LONGEST_KEY: Final = 200  # characters of a rate limit's key
_RQ_SETS: Final = (":allowed", ":rate_limited")

Seconds: TypeAlias = float | timedelta
GapWord: TypeAlias = Gap | Literal["first_valid", "shift", "skip"]
FoldWord: TypeAlias = Fold | Literal["first", "second", "both"]


class RetryLike(Protocol):
    """``rq.Retry``, which the core does not import."""

    @property
    def max(self) -> int: ...
    @property
    def enqueue_at_front(self) -> bool: ...


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
    """A checked rate limit of RQ's: at most *concurrency* jobs with the same *key* are queued or running at once."""

    key: str
    concurrency: int

    def __str__(self) -> str:
        return f"{self.key}:{self.concurrency}"


RateLimitValue: TypeAlias = str | tuple[str, int] | list[Any] | dict[str, Any] | RateLimitLike
RetryValue: TypeAlias = int | dict[str, Any] | RetryLike
CallbackValue: TypeAlias = str | Callable[..., Any] | dict[str, Any] | CallbackLike


@dataclass(frozen=True, slots=True)
class Form:
    """Any value, as it is: what checks it is elsewhere. ``metavar`` stands for a value in a command's help."""

    metavar: str = "TEXT"

    unit: ClassVar[str] = ""  # what a name gets in JSON, where the value has a unit
    is_duration: ClassVar[bool] = False  # said in files as seconds, or as a text such as 5m

    def check(self, name: str, value: Any) -> Any:
        """Return the checked value of option *name*. Raises InvalidSchedule."""
        return value

    def text(self, value: Any) -> str:
        """Return the checked *value* as a field in Redis has it."""
        return str(value)

    def read(self, text: str) -> Any:
        """Return the checked value of a *text* in Redis. Raises ValueError or TypeError: another program wrote it."""
        return text

    def texts(self, value: Any) -> tuple[str, ...]:
        """Return the checked *value* as the fields of its option have it; most options have one field."""
        return (self.text(value),)

    def read_texts(self, texts: Sequence[str]) -> Any:
        """Return the checked value of the *texts* in its option's fields. Raises as ``read``."""
        return self.read(texts[0])

    def given(self, value: Any) -> Any:
        """Return the checked *value* as a caller would give it."""
        return value

    def shown(self, value: Any) -> Any:
        """Return the checked *value* as JSON can say it."""
        return value


@dataclass(frozen=True, slots=True)
class Words(Form):
    """One word of an enum."""

    metavar: str = ""
    enum: type[Enum] = Enum

    def check(self, name: str, value: Any) -> Enum:
        return choice(name, value, self.enum)

    def text(self, value: Enum) -> str:
        return str(value.value)

    def read(self, text: str) -> Enum:
        return self.enum(text)

    def shown(self, value: Enum) -> str:
        return str(value.value)


@dataclass(frozen=True, slots=True)
class Duration(Form):
    """Seconds or a timedelta, of at least ``least_ms``; checked: milliseconds."""

    metavar: str = "DURATION"
    least_ms: int = 0

    unit: ClassVar[str] = "_s"
    is_duration: ClassVar[bool] = True

    def check(self, name: str, value: Any) -> int:
        return seconds_to_ms(name, value, self.least_ms)

    def read(self, text: str) -> int:
        return whole_number(text)

    def given(self, value: int | None) -> timedelta | None:
        return None if value is None else timedelta(milliseconds=value)

    def shown(self, value: int | None) -> float | None:
        return None if value is None else value / 1000


@dataclass(frozen=True, slots=True)
class Whole(Form):
    """A whole number from 1 to ``most``, which counts ``noun``."""

    metavar: str = "N"
    most: int = 1
    noun: str = ""

    def check(self, name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= self.most:
            remedy = f"give a whole number from 1 to {self.most}"
            raise InvalidSchedule(name, value, f"not a number of {self.noun}", remedy)
        return value

    def read(self, text: str) -> int:
        return whole_number(text)


@dataclass(frozen=True, slots=True)
class Number(Form):
    """A whole number that is checked elsewhere."""

    metavar: str = "N"

    def read(self, text: str) -> int:
        return whole_number(text)


@dataclass(frozen=True, slots=True)
class Slots(Form):
    """A key and a number of slots: ``rq.RateLimit``, (key, number), a dict of its two arguments, or ``key:number``."""

    metavar: str = "KEY:N"

    def check(self, name: str, value: Any) -> RateLimit:
        key, concurrency = _parts_of_limit(value)
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not isinstance(key, str):
            remedy = 'give "key:3", ("key", 3), {"key": …, "concurrency": …} or rq.RateLimit'
            raise InvalidSchedule(name, value, "not a rate limit", remedy)
        if not 1 <= concurrency <= _MOST_SLOTS:
            raise InvalidSchedule(name, value, f"{concurrency} slots", f"give 1 to {_MOST_SLOTS} slots")
        if not 1 <= len(key) <= _LONGEST_KEY or not key.isprintable():
            raise InvalidSchedule(name, value, "not a usable key", f"give 1 to {_LONGEST_KEY} printable characters")
        if key.endswith(_RQ_SETS):
            problem = f"RQ has its own sets at keys that end in {' and '.join(_RQ_SETS)}"
            raise InvalidSchedule(name, value, problem, "give another key")
        return RateLimit(key, concurrency)

    def texts(self, value: RateLimit) -> tuple[str, ...]:
        return value.key, str(value.concurrency)

    def read_texts(self, texts: Sequence[str]) -> RateLimit:
        return self.check("rate_limit", (texts[0], whole_number(texts[1])))

    def given(self, value: RateLimit | None) -> str | None:
        return None if value is None else str(value)

    def shown(self, value: RateLimit | None) -> dict[str, Any] | None:
        return None if value is None else value._asdict()


def _parts_of_limit(value: Any) -> tuple[Any, Any]:
    """Return key and number of what may be a rate limit; None twice if it is none."""
    if isinstance(value, str):
        key, _, number = value.rpartition(":")
        return key, int(number) if number.isascii() and number.isdigit() and len(number) <= _DIGITS else None
    if isinstance(value, dict):
        return (value["key"], value["concurrency"]) if value.keys() == {"key", "concurrency"} else (None, None)
    if isinstance(value, tuple | list):
        return (value[0], value[1]) if len(value) == 2 else (None, None)
    return getattr(value, "key", None), getattr(value, "concurrency", None)


@dataclass(frozen=True, slots=True)
class ShortText(Form):
    """A line of text for people."""

    def check(self, name: str, value: Any) -> str:
        return check_text(name, value)


@dataclass(frozen=True, slots=True)
class Tags(Form):
    """Several short texts, each once. On a command line one at a time."""

    def check(self, name: str, value: Any) -> tuple[str, ...]:
        return check_tags(value)

    def text(self, value: tuple[str, ...]) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    def read(self, text: str) -> tuple[str, ...]:
        return tuple(map(str, json.loads(text)))

    def shown(self, value: tuple[str, ...]) -> list[str]:
        return list(value)


@dataclass(frozen=True, slots=True)
class YesNo(Form):
    """True or False. ``off``: the flag that says False on a command line, where one is needed."""

    metavar: str = ""
    off: str = ""

    def check(self, name: str, value: Any) -> bool:
        return flag(name, value)

    def text(self, value: bool) -> str:
        return "1" if value else "0"

    def read(self, text: str) -> bool:
        return text == "1"


@dataclass(frozen=True, slots=True)
class QueueName(Form):
    """The name of an RQ queue."""

    metavar: str = "NAME"

    def check(self, name: str, value: Any) -> str:
        return check_queue(value)


@dataclass(frozen=True, slots=True)
class ScheduleId(Form):
    """The id of a schedule."""

    def check(self, name: str, value: Any) -> str:
        return check_id(value)


@dataclass(frozen=True, slots=True)
class ZoneName(Form):
    """An IANA zone, by its name or as a ZoneInfo."""

    metavar: str = "ZONE"

    def check(self, name: str, value: Any) -> str | None:
        return zone_name(value)


@dataclass(frozen=True, slots=True)
class Instant(Form):
    """A datetime; which instant a local one is depends on other options, so a trigger checks it."""

    metavar: str = "TIME"


@dataclass(frozen=True, slots=True)
class Interval(Form):
    """Seconds or a timedelta, checked as a part of a trigger."""

    metavar: str = "DURATION"

    is_duration: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RqSeconds(Form):
    """A time as RQ takes it, checked where its jobs are encoded; in Redis, and shown: whole seconds."""

    metavar: str = "DURATION"
    has_units: bool = False  # RQ reads its text by itself, with a unit

    is_duration: ClassVar[bool] = True

    def read(self, text: str) -> int:
        return whole_number(text)


@dataclass(frozen=True, slots=True)
class Json(Form):
    """Values of a call, as they are. On a command line, and in a file if need be, JSON: an object or an array."""

    metavar: str = "JSON"
    is_array: bool = False


class Stored(Enum):
    """The place in Redis of an option's value."""

    NOT = "not"  # nowhere: it belongs to the call
    DATA = "data"  # in the payload
    RULE = "rule"  # in the trigger; of a one-shot: its due time
    PLACE = "place"  # the queue and the lane
    JOB = "job"  # a field of RQ's job hash, of a one-shot or of the template of a rule's runs
    RQ = "rq"  # fields there in RQ's words, which storage.rqjob writes
    FLAG = "flag"  # a letter that the scripts read
    POLICY = "policy"  # a recurring schedule's policy
    OWN = "own"  # a field of a recurring schedule's hash
    LABEL = "label"  # the same, or of a one-shot a field zs_<name> of its job; scripts do not read it


@dataclass(frozen=True, slots=True)
class Option:
    """
    All that there is to know of an option; ``name`` and ``is_optional`` (None may be given) come from its key and type.

    ``field`` is the name under which Redis keeps it, or its names by spaces. ``letter`` is the flag that stands for
    what differs from the default. ``attribute`` is where ``Schedule`` has the checked value ("-": nowhere); the
    option's own name unless given. ``once`` says why a one-shot cannot have it. ``elsewhere`` are the names that other
    schedulers have for it, by spaces. ``shown`` is its name in JSON.
    """

    help: str
    form: Form
    stored: Stored = Stored.NOT
    field: str = ""
    letter: str = ""
    attribute: str = ""
    once: str = ""
    elsewhere: str = ""
    name: str = ""
    is_optional: bool = False
    shown: str = ""

    def named(self, name: str, is_optional: bool) -> Option:
        """Return this option under its name, with all that follows from that."""
        attribute, once, shown = self.attribute or name, self.once, name + self.form.unit
        if self.stored is Stored.POLICY:
            attribute, once = f"policy.{self.field}", "a one-shot has one occurrence"
        elif self.stored is Stored.RQ:
            shown = attribute
        return replace(self, name=name, is_optional=is_optional, attribute=attribute, once=once, shown=shown)


def whole_number(text: str | bytes) -> int:
    """Return the number of a field. Raises ValueError for another text."""
    if len(text) > _DIGITS:
        raise ValueError(f"{text[:_DIGITS]!r}… has too many digits")
    return int(text)
