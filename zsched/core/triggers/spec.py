"""
A recurring trigger as a frozen value, the calendars of its namespace, and the base of its kinds.

``TriggerSpec`` has the stored text, and nothing computed. ``TriggerSpec.to_text`` is canonical: equal rules have equal
texts. The engine compares the texts to decide whether a re-put changed the rule.

``TriggerKind`` is the base of all kinds. A kind is one module with one instance, listed in ``trigger.KINDS``. The
instance has everything that differs between kinds; no other module compares kinds.

``Calendars`` are the named sets of excluded times that a namespace has once, for all its schedules.
``calendar_definition`` makes them from texts; ``exclusions`` joins their closures with a schedule's own texts.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from zsched.core.wording import alternatives
from zsched.errors import UnknownCalendar, show

if TYPE_CHECKING:
    from zsched.core.triggers.calendar_definition import Calendar
    from zsched.core.triggers.exclusions import Exclusions


class Gap(Enum):
    """The policy for a local time that a zone skips (spring forward)."""

    FIRST_VALID = "first_valid"  # moved to the first instant after the gap
    SHIFT = "shift"  # moved forward by the gap's length
    SKIP = "skip"  # this occurrence does not happen


class Fold(Enum):
    """The chosen pass of a local time that a zone repeats (fall back)."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class OnExcluded(Enum):
    """The policy for an occurrence at an excluded time."""

    SKIP = "skip"  # this occurrence does not happen
    NEXT_OPEN = "next_open"  # moved to the end of the excluded time; those that move there are one


class Anchor(Enum):
    """The origin from which the occurrences of a rule without ``starts`` are counted."""

    NOTHING = "nothing"  # the occurrences do not depend on the creation of the schedule
    DAY = "day"  # midnight of the day of creation, in the rule's zone
    INSTANT = "instant"  # the instant of creation: a later creation delays all occurrences by the same time


class Rule(ABC):
    """A strictly ascending sequence of instants, in epoch milliseconds."""

    __slots__ = ()

    @abstractmethod
    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""

    @abstractmethod
    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*; None if there is none yet."""

    @abstractmethod
    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]. The cost does not grow with their number."""

    def between(self, after_ms: int, until_ms: int) -> Iterable[int]:
        """Yield the occurrences in (after_ms, until_ms], one after another."""
        at_ms = self.next_after(after_ms)
        while at_ms is not None and at_ms <= until_ms:
            yield at_ms
            at_ms = self.next_after(at_ms)

    def has(self, at_ms: int) -> bool:
        """Return True if *at_ms* is an occurrence."""
        return self.count_between(at_ms - 1, at_ms) > 0


class Closed(NamedTuple):
    """[start_ms, end_ms) of excluded instants, and why: words, joined by semicolons."""

    start_ms: int
    end_ms: int
    why: str


class Closure(NamedTuple):
    """
    The excluded times of one text: *length_ms* from each occurrence of *starts* on; *why*: a word. They are on the
    clock of each zone, where *starts* is read as if it were UTC; otherwise instants.
    """

    why: str
    starts: Rule
    length_ms: int
    is_on_clock: bool = True

    def spans(self, start_ms: int, end_ms: int, offset_ms: int) -> Iterator[Closed]:
        """Yield the times that overlap [start_ms, end_ms), in which the zone has the offset *offset_ms*."""
        ahead_ms = offset_ms if self.is_on_clock else 0
        for at_ms in self.starts.between(start_ms + ahead_ms - self.length_ms, end_ms + ahead_ms - 1):
            yield Closed(at_ms - ahead_ms, at_ms - ahead_ms + self.length_ms, self.why)


class Calendars(dict[str, "Calendar"]):
    """The calendars of a namespace by name, read at one time: a value by identity, which is never changed."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # a key of caches
    __eq__ = object.__eq__

    def __missing__(self, name: str) -> Calendar:
        known = f"name {alternatives([*self])}, or put it first" if self else "put it first: this namespace has none"
        raise UnknownCalendar("exclude", name, "no calendar of this namespace", known)


NO_CALENDARS: Final = Calendars()


class BadRule(ValueError):
    """A text that its kind does not accept. The parser adds the option's name and the value."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(problem)


def refuse_foreign(text: str) -> None:
    """Raise BadRule for a character that no rule has."""
    if found := re.search("[^ -~]", text):
        raise BadRule(f"{found[0]!r} is a character that no rule has", "use plain ASCII on one line")


def refuse_stray(text: str, tidy: str) -> None:
    """Raise BadRule if *text* differs from *tidy*, the same without stray blanks and separators."""
    if text != tidy:
        place = next(n for n, sign in enumerate(text) if sign != tidy[n : n + 1])
        problem = f"{text[place]!r} does not belong after {text[max(place - 20, 0) : place]!r}"
        raise BadRule(problem, f"write {show(tidy)} if that is meant")


class TriggerKind(ABC):
    """
    One kind of recurring trigger; its module has one instance, a constant with the kind's name in upper case.

    A one-shot's trigger is an instant, and has no kind.
    """

    name: ClassVar[str]  # of its option, on the command line too; stored
    metavar: ClassVar[str]  # the placeholder of its value in the command line's help
    help: ClassVar[str]  # of the command line's option: a sentence
    example: ClassVar[object]  # a value of its option
    cause: ClassVar[str]  # a reason why a rule of this kind may have no occurrence
    anchor: ClassVar[Anchor]
    is_of_zone: ClassVar[bool]  # True if its due times depend on the rules of its zone
    elsewhere: ClassVar[str] = ""  # names of other schedulers for its option, separated by spaces
    is_duration: ClassVar[bool] = False  # True if its option is a duration
    is_everyday: ClassVar[bool] = True  # True if its option stands among those of every day
    gap: ClassVar[Gap] = Gap.SHIFT  # the default

    @abstractmethod
    def parse(self, value: object, tz: str = "UTC") -> tuple[str, int | None]:
        """
        Return the canonical text of a caller's option, and the count in it, if any. *tz*: of local times in the option.

        ``check`` finds out whether the rule ever fires. Raises InvalidSchedule.
        """

    @abstractmethod
    def rule(self, spec: TriggerSpec, anchor_ms: int) -> Rule:
        """
        Return the rule of *spec* for a schedule created at *anchor_ms*, without bounds. Cheap: texts are parsed once.

        Raises:
            InvalidSchedule: the zone is unknown on this machine.
            ValueError: ``spec.expr`` is not a text from ``parse``.
        """

    def until_ms(self, expr: str) -> int | None:
        """Return the last possible instant in the text *expr*, or None."""
        return None

    def singles(self, spec: TriggerSpec, anchor_ms: int) -> tuple[Exclusions, Rule] | None:
        """Return the times that the text of *spec* removes from its rule, and those that it adds; None: it does not."""
        return None

    def to_option(self, expr: str) -> object:
        """Return the value of the option for *expr*: the inverse of ``parse``."""
        return expr

    def describe(self, expr: str) -> str:
        """Return *expr* for people; listings show it after the name of the kind."""
        return expr

    def __repr__(self) -> str:
        return self.name.upper()

    def __reduce__(self) -> str:
        """Pickle and copy it as a reference to its module's constant: a kind has one instance."""
        return self.name.upper()


@dataclass(frozen=True, slots=True)
class TriggerSpec:
    """
    One recurring rule. Instants are integer epoch milliseconds.

    ``expr`` is the text from the kind's ``parse``. ``starts_ms`` and ``ends_ms`` are inclusive. ``count`` counts
    occurrences, not runs. ``jitter_ms``: the most by which occurrences are due later than their nominal times
    (``trigger.due_of``). Triggers return nominal times. ``exclude``: texts of ``exclusions.canonical``. To a rule that
    is in use, not to its text, belong ``calendars``, the namespace's; and ``skipped``: occurrences that somebody skips
    by hand, in order.
    """

    kind: TriggerKind
    expr: str
    tz: str = "UTC"
    starts_ms: int | None = None
    ends_ms: int | None = None
    count: int | None = None
    gap: Gap = Gap.FIRST_VALID
    fold: Fold = Fold.FIRST
    jitter_ms: int = 0
    exclude: tuple[str, ...] = ()
    on_excluded: OnExcluded = OnExcluded.SKIP
    calendars: Calendars = field(default=NO_CALENDARS, compare=False, repr=False)
    skipped: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def to_text(self) -> str:
        """Return canonical JSON of kind, expr, tz, and of all fields that differ from their defaults."""
        shown = {"kind": self.kind.name, "expr": self.expr, "tz": self.tz}
        for name, default in _DEFAULTS.items():
            if (value := getattr(self, name)) != default:
                shown[name] = value.value if isinstance(value, Enum) else value
        return json.dumps(shown, separators=(",", ":"), sort_keys=True)

    @property
    def is_anchored(self) -> bool:
        """True if its occurrences depend on the time of the schedule's creation, and are not only later than it."""
        return self.starts_ms is None and (self.kind.anchor is not Anchor.NOTHING or self.count is not None)

    @property
    def is_of_zone(self) -> bool:
        """True if its due times depend on a zone's rules."""
        return self.tz != "UTC" and (self.kind.is_of_zone or bool(self.exclude))


# Of the fields behind kind, expr and tz, which a text has only if they differ.
_DEFAULTS: Final = {each.name: each.default for each in fields(TriggerSpec)[3:] if each.compare}
