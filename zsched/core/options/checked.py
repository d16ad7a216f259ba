"""
Checked options: of a definition before it is written, and of a schedule after it was read.

``core.options.table`` maps them to Redis and back: an option is written to the place in its entry, if it differs from
its default here. A field that another program broke is read as its default. So it hides neither its schedule nor other
schedules of a listing.

``definition_of`` has the options of a schedule as names and texts, for the command line and the console.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from zsched.core.occurrences.policy import USUAL, Policy
from zsched.core.options.choices import OnLost, OnUncertain, Priority
from zsched.core.options.forms import BETWEEN_PARTS, UNREADABLE, Option, RateLimit, Stored
from zsched.core.options.table import OPTIONS
from zsched.core.wording import duration_text

if TYPE_CHECKING:
    from zsched.core.model import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedOptions:
    """The options of a schedule besides its function and times. The defaults apply to all calls."""

    tz: str = "UTC"
    queue: str = "default"
    priority: Priority = Priority.NORMAL
    at_front: bool = False
    on_uncertain: OnUncertain = OnUncertain.REFIRE
    on_lost: OnLost = OnLost.RETRY
    pause_after_failures: int | None = None  # recurring only: this number of failed or lost runs in a row pauses it
    policy: Policy = USUAL  # recurring
    jitter_ms: int = 0  # one-shots only: a recurring rule has its own jitter
    expires_ms: int | None = None  # a run that has not started this long after its due time does not run
    done_by: str | None = (
        None  # a run that has not succeeded by then has missed its deadline (triggers.trigger.deadlines)
    )
    rate_limit: RateLimit | None = None
    tags: tuple[str, ...] = ()
    owner: str | None = None
    name: str | None = None

    def texts(self, stored: Stored, prefix: str = "") -> dict[str, str]:
        """Return the fields of the options with the place *stored* that differ from their defaults."""
        return {
            prefix + field: text
            for option, get, default in _STORED[stored]
            if (value := get(self)) != default
            for field, text in zip(option.fields, option.texts(value), strict=True)
        }

    def letters(self) -> str:
        """Return the flag letters of the options that differ from their defaults."""
        return "".join(option.letter for option, get, default in _LETTERED if get(self) != default)

    def arguments(self) -> dict[str, Any]:
        """Return the options as arguments of a call; None for a default, if the option may be None."""
        values = ((option, default, get(self)) for option, get, default in _KEPT)
        return {
            option.name: None if option.is_optional and value == default else option.form.to_argument(value)
            for option, default, value in values
        }


_Kept = tuple[Option, Callable[[Any], Any], Any]  # an option, the getter of its value, its default

_USUAL: Final = CheckedOptions()
_KEPT: Final[list[_Kept]] = [
    (option, attrgetter(option.attribute), attrgetter(option.attribute)(_USUAL))
    for option in OPTIONS.values()
    if option.stored in (Stored.LABEL, Stored.PLACE, Stored.FLAG, Stored.JOB, Stored.OWN, Stored.POLICY)
]
_STORED: Final = {stored: [kept for kept in _KEPT if kept[0].stored is stored] for stored in Stored}
_LETTERED: Final = [kept for kept in _KEPT if kept[0].letter]
_READ: Final = {
    stored: [(option, option.fields) for option in OPTIONS.values() if option.stored is stored and option.field]
    for stored in (Stored.JOB, Stored.RQ, Stored.OWN, Stored.LABEL)
}


def read_options(texts: Mapping[Stored, Mapping[str, str]]) -> dict[str, Any]:
    """
    Return the values, by attribute, of the options in *texts*: the inverse of ``CheckedOptions.texts``; ``unreadable``
    are the names of malformed options, if there are any.
    """
    values: dict[str, Any] = {}
    for stored, held in texts.items():
        for option, fields in _READ[stored]:
            found = [held[field] for field in fields if field in held]
            if len(found) == len(fields):
                try:
                    values[option.attribute] = option.form.from_text(BETWEEN_PARTS.join(found))
                except UNREADABLE:
                    values["unreadable"] = (*values.get("unreadable", ()), option.name)
    return values


def policy_text(options: CheckedOptions) -> str:
    """
    Return the flag letters of *options*, then canonical JSON of the policies that differ from their defaults; nothing
    for those that do not.
    """
    changed = options.texts(Stored.POLICY)
    return options.letters() + (json.dumps(changed, separators=(",", ":"), sort_keys=True) if changed else "")


def read_policy(text: str) -> Policy:
    """Return the policies whose ``policy_text`` is *text*. Raises UNREADABLE for any other text."""
    letters, brace, rest = text.partition("{")
    if not _LETTERS.issuperset(letters):
        raise ValueError(f"{letters!r} are not all flags")
    stored: dict[str, Any] = json.loads(f"{brace}{rest}" or "{}")
    return Policy(**{name: _POLICY_FORMS[name].from_text(str(value)) for name, value in stored.items()})


def letters_in(text: str) -> str:
    """Return the flag letters of a ``policy_text``."""
    return text.partition("{")[0]


def read_letters(letters: str) -> dict[str, Any]:
    """Return the values, by attribute, of the options that are flags: the inverse of ``letters``."""
    return {option.attribute: value for option, value in _FLAGGED if option.letter in letters}


def options_for_json(schedule: CheckedOptions) -> dict[str, Any]:
    """Return the options of *schedule* for JSON. Some entries name attributes that only ``Schedule`` has."""
    values = ((option, get(schedule)) for option, get in _SHOWN)
    return {option.json_name: None if value is None else option.form.to_json(value) for option, value in values}


def _other(option: Option, default: Any) -> Any:
    """Return the value that a flag means: the one of two that is not the default."""
    return next(value for value in option.form.enum or (False, True) if value is not default)


_LETTERS: Final = frozenset(option.letter for option, _, _ in _LETTERED)
_FLAGGED: Final = [(option, _other(option, default)) for option, _, default in _STORED[Stored.FLAG]]
_SHOWN: Final = [
    (option, attrgetter(option.attribute))
    for option in OPTIONS.values()
    if option.attribute != "-" and option.stored not in (Stored.NOT, Stored.DATA, Stored.RULE) and option.name != "tz"
]
USUAL_ARGUMENTS: Final = _USUAL.arguments()  # what they are set back to; None, if one is not here
POLICIES: Final = [option.json_name for option, _, _ in _STORED[Stored.POLICY]]  # as JSON names them
_POLICY_FORMS: Final = {option.field: option.form for option, _, _ in _STORED[Stored.POLICY]}


_INSTANTS: Final = "next_at anchor_at nominal_at created_at updated_at last_nominal_at resumes_at since".split()
_DURATIONS: Final = [option.json_name for option in OPTIONS.values() if option.form.unit]


def definition_of(schedule: Schedule, time_text: Callable[[int], str]) -> Iterator[tuple[str, str]]:
    """
    Yield names and texts of the options that are set, and of all policies that a recurring schedule has. Durations are
    as the command line takes them. *time_text* writes an instant in ms.
    """
    for name, value in schedule.to_dict().items():
        if name in _DURATIONS and (value or (name in POLICIES and value is not None)):
            yield name.removesuffix("_s"), duration_text(round(value * 1000))
        elif name in _INSTANTS:
            ms = getattr(schedule, "since_ms" if name == "since" else name.replace("_at", "_ms"))
            if ms is not None:
                yield name, time_text(ms)
        elif name == "trigger" and value is not None:
            yield name, schedule.rule_text
            yield from (
                (f"  {part}", text if isinstance(text, str) else json.dumps(text, ensure_ascii=False))
                for part, text in value.items()
                if text not in (None, []) and part not in ("kind", "expr", "jitter_s")
            )
        elif value not in (None, [], {}, False):
            yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
