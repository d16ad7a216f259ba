"""
The parts of an option: the form of its values, and where Redis keeps it. The options are in ``core.option_table``.

A value has four representations: given by a caller, checked, as a text in a Redis hash, and shown in JSON. A form
converts between them. ``cli.puts`` adds the command line's, by the form's class.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

from zsched.core.arguments import (
    LONGEST_S,
    check_id,
    check_queue,
    check_tags,
    check_text,
    check_version,
    choice,
    flag,
    seconds_to_ms,
)
from zsched.core.instants import zone_name
from zsched.core.triggers import Fold, Gap
from zsched.errors import InvalidSchedule

UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)  # a malformed text
MOST_RETRIES: Final = 1_000_000  # a number that a script would write as inf ends every worker that reads it
LONGEST_PATH: Final = 512  # characters of a function's path
_DIGITS: Final = 18  # longest number that is read from a field
_MOST_SLOTS: Final = 1_000_000
_LONGEST_KEY: Final = 200  # characters of a rate limit's key
_RQ_SETS: Final = (":allowed", ":rate_limited")

DurationValue: TypeAlias = float | str | timedelta  # seconds, a text such as 1h30m, or a timedelta
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
    """A checked rate limit of RQ: at most *concurrency* jobs with the same *key* are queued or running at once."""

    key: str
    concurrency: int

    def __str__(self) -> str:
        return f"{self.key}:{self.concurrency}"


RateLimitValue: TypeAlias = str | tuple[str, int] | list[Any] | dict[str, Any] | RateLimitLike
RetryValue: TypeAlias = int | dict[str, Any] | RetryLike
CallbackValue: TypeAlias = str | Callable[..., Any] | dict[str, Any] | CallbackLike


@dataclass(frozen=True, slots=True)
class Form:
    """Any value, unchanged: it is checked elsewhere. ``metavar`` is the placeholder in a command's help."""

    metavar: str = "TEXT"

    unit: ClassVar[str] = ""  # suffix of the name in JSON, if the value has a unit
    is_duration: ClassVar[bool] = False  # seconds, a text such as 5m, or a timedelta

    def check(self, name: str, value: Any) -> Any:
        """Return the checked value of option *name*. Raises InvalidSchedule."""
        return value

    def text(self, value: Any) -> str:
        """Return the checked *value* as the text of a field in Redis."""
        return str(value)

    def read(self, text: str) -> Any:
        """Return the checked value of a *text* in Redis. Raises UNREADABLE if another program wrote it."""
        return text

    def texts(self, value: Any) -> tuple[str, ...]:
        """Return the texts of the option's fields for the checked *value*; most options have one field."""
        return (self.text(value),)

    def read_texts(self, texts: Sequence[str]) -> Any:
        """Return the checked value of the *texts* in its option's fields. Raises as ``read``."""
        return self.read(texts[0])

    def given(self, value: Any) -> Any:
        """Return the checked *value* as an argument of a call."""
        return value

    def shown(self, value: Any) -> Any:
        """Return the checked *value* for JSON."""
        return value


@dataclass(frozen=True, slots=True)
class Words(Form):
    """A word of an enum."""

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
    """A ``DurationValue`` of at least ``least_ms``; checked: milliseconds."""

    metavar: str = "DURATION"
    least_ms: int = 0

    unit: ClassVar[str] = "_s"
    is_duration: ClassVar[bool] = True

    def check(self, name: str, value: Any) -> int:
        return seconds_to_ms(name, value, self.least_ms)

    def read(self, text: str) -> int:
        return self.check("", timedelta(milliseconds=whole_number(text)))

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
        return self.check("", whole_number(text))


@dataclass(frozen=True, slots=True)
class Number(Form):
    """A whole number that is checked elsewhere; in Redis from 0 to ``MOST_RETRIES``."""

    metavar: str = "N"

    def read(self, text: str) -> int:
        return whole_number(text, 0, MOST_RETRIES)


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
    """Return key and number of a possible rate limit; None twice if it is not one."""
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
    """A line of text for people. In Redis it may be the path of a function."""

    def check(self, name: str, value: Any) -> str:
        return check_text(name, value)

    def read(self, text: str) -> str:
        return text if len(text) <= LONGEST_PATH else self.check("", text)  # it would widen each listing


@dataclass(frozen=True, slots=True)
class Tags(Form):
    """Several short texts without duplicates. A command line has one text per option."""

    def check(self, name: str, value: Any) -> tuple[str, ...]:
        return check_tags(value)

    def text(self, value: tuple[str, ...]) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    def read(self, text: str) -> tuple[str, ...]:
        return self.check("", json.loads(text))

    def shown(self, value: tuple[str, ...]) -> list[str]:
        return list(value)


@dataclass(frozen=True, slots=True)
class YesNo(Form):
    """True or False. ``off``: the command line's flag for False, if it needs one."""

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
class Version(Form):
    """The version of a schedule."""

    def check(self, name: str, value: Any) -> str | None:
        return check_version(value)


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

    def read(self, text: str) -> str:
        return check_text("tz", text)  # another machine may have zones that this one lacks


@dataclass(frozen=True, slots=True)
class Instant(Form):
    """A datetime. The instant of a local time depends on other options, so a trigger checks it."""

    metavar: str = "TIME"


@dataclass(frozen=True, slots=True)
class Interval(Form):
    """A ``DurationValue``, checked as a part of a trigger."""

    metavar: str = "DURATION"

    is_duration: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RqSeconds(Form):
    """A time for RQ, checked by the encoder of its jobs; in Redis and in JSON whole seconds, or -1."""

    metavar: str = "DURATION"

    is_duration: ClassVar[bool] = True

    def read(self, text: str) -> int:
        return whole_number(text, -1, LONGEST_S)


@dataclass(frozen=True, slots=True)
class Json(Form):
    """Values of a call, unchanged. A command line has them as JSON, an object or an array; a file may."""

    metavar: str = "JSON"
    is_array: bool = False


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


_FLAG: Final = re.compile(r"--([a-z-]+)")


@dataclass(frozen=True, slots=True)
class Option:
    """
    The definition of an option. ``name`` and ``is_optional`` (None may be given) come from its key and type.

    ``field``: its field in Redis; several names are separated by spaces. ``letter``: the flag for the value that is not
    the default. ``attribute``: the attribute of ``Schedule`` with the checked value ("-": none); by default the
    option's name. ``once``: the reason why a one-shot cannot have it. ``elsewhere``: names of other schedulers for it,
    separated by spaces. ``shown``: its name in JSON.
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
        """Return this option with its name, and with the attributes that follow from the name."""
        attribute, once, shown = self.attribute or name, self.once, name + self.form.unit
        if self.stored is Stored.POLICY:
            attribute, once = f"policy.{self.field}", "a one-shot has one occurrence"
        elif self.stored is Stored.RQ:
            shown = attribute
        return replace(self, name=name, is_optional=is_optional, attribute=attribute, once=once, shown=shown)

    def help_with(self, named: Callable[[str], str]) -> str:
        """Return the help, in which other options have the names that *named* gives them, instead of their flags."""
        return _FLAG.sub(lambda found: named(found[1].replace("-", "_")), self.help)


def whole_number(text: str | bytes, least: int = -(10**_DIGITS), most: int = 10**_DIGITS) -> int:
    """
    Return the number in a field, which Lua reads, too, from *least* to *most*. Raises ValueError for any other text.
    """
    is_whole = (text[1:] if text[:1] in ("-", b"-") else text).isdigit() and text.isascii() and len(text) <= _DIGITS
    if not is_whole or not least <= int(text) <= most:
        raise ValueError(f"{text[:_DIGITS]!r} is no whole number from {least} to {most}")
    return int(text)
