"""Options as a file says them, and what differs between two sets of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from zsched.client.keeper import ScheduleWithOptions
from zsched.core.exact import is_same
from zsched.core.triggers import RULES, zone
from zsched.core.wording import duration_text
from zsched.files.options import DURATIONS
from zsched.files.toml import toml_text
from zsched.storage.rqjob import plain

# Options in the order in which people think of them; those that are not here come behind, by name.
_ORDER: Final = (
    *("func", *RULES, "tz", "starts", "ends", "count"),
    *("args", "kwargs", "queue", "priority", "description", "tags"),
)
_SHOWN: Final = 100  # characters of a value in a difference


@dataclass(frozen=True, slots=True)
class OptionChange:
    """An option that differs: as texts, None where it is not set."""

    option: str
    old: str | None
    new: str | None

    def to_dict(self) -> dict[str, str | None]:
        """Return the change for JSON."""
        return {"option": self.option, "old": self.old, "new": self.new}

    def text(self) -> str:
        """For people: ``cron: 0 9 * * * → 0 10 * * *``."""
        return f"{self.option}: {_cut(self.old)} → {_cut(self.new)}"


def plain_options(held: ScheduleWithOptions) -> dict[str, Any]:
    """
    The options of *held* that are set, plain values as a file has them, in the order of a file. Without the id, and
    without args and kwargs that are empty.
    """
    tz, options = str(held.options.get("tz") or "UTC"), held.options
    if held.schedule.trigger is None:  # a broken one: what is left of it reads as a one-shot
        options = {name: value for name, value in options.items() if name != "at"}
    said = {name: _plain(name, value, tz) for name, value in options.items() if name != "id" and value is not None}
    names = [name for name in _ORDER if name in said] + sorted(set(said) - set(_ORDER))
    return {name: said[name] for name in names if name not in ("args", "kwargs", "tags") or said[name]}


def option_changes(old: ScheduleWithOptions, new: ScheduleWithOptions) -> Iterator[OptionChange]:
    """Yield what a put of *new* changes in *old*."""
    before, after = plain_options(old), plain_options(new)
    for name in dict.fromkeys((*after, *before)):
        one, other = before.get(name), after.get(name)
        if old.unreadable and one is None:
            yield OptionChange(name, f"? ({old.unreadable})", _shown(other))
        elif new.unreadable and other is None:
            yield OptionChange(name, _shown(one), f"? ({new.unreadable})")
        elif not (is_same(one, other) or (isinstance(one, datetime) and one == other)):  # an instant, whatever the zone
            yield OptionChange(name, _shown(one), _shown(other))
    if old.unreadable and new.unreadable and old.data != new.data:
        yield OptionChange("args", f"? ({old.unreadable})", f"? ({new.unreadable})")


def _plain(name: str, value: Any, tz: str) -> Any:
    """A value of ``options_of`` as a file says it."""
    value = plain(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        value = value / timedelta(seconds=1)
    if name in DURATIONS and isinstance(value, int | float) and value >= 0:
        return duration_text(round(value * 1000))
    if isinstance(value, datetime) and name in ("starts", "ends"):
        local = value.astimezone(zone(tz))
        offset = local.utcoffset() or timedelta()
        said = value if offset % timedelta(minutes=1) else local  # TOML has no seconds in an offset
        return datetime.fromisoformat(said.isoformat())  # all that TOML keeps of a zone
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str | None:
    """A value as people read it: a text without quotes, else TOML, else Python's own."""
    if value is None or (isinstance(value, str) and value.isprintable()):
        return value
    try:
        return toml_text(value)
    except ValueError:
        try:
            return json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            return repr(value)


def _cut(text: str | None) -> str:
    if text is None:
        return "-"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
