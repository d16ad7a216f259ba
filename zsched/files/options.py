"""
Options of an entry of a file: those of ``client.schedule``, less those that make no sense there, and
``paused``.

Durations are seconds or texts (``"5m"``). What TOML cannot say of arguments, such as null, is JSON in ``args_json``,
``kwargs_json`` and ``meta_json``.
"""

from __future__ import annotations

import json
from typing import Any, Final

from zsched.core.forms import Instant, Json, Stored
from zsched.core.option_table import OPTIONS
from zsched.core.options import TRIGGERS
from zsched.core.triggers import RULES
from zsched.core.wording import parse_duration

DURATIONS: Final = frozenset(name for name, option in OPTIONS.items() if option.form.is_duration)
_TIMES: Final = tuple(name for name, option in OPTIONS.items() if isinstance(option.form, Instant))
ARGUMENTS: Final = tuple(name for name, option in OPTIONS.items() if option.stored is Stored.DATA)
# Options that may be given as JSON text, under their name and _json.
JSON_KEYS: Final = tuple(name for name, option in OPTIONS.items() if isinstance(option.form, Json))
ONE_RULE: Final = f"give exactly one of {', '.join(RULES)}"
KEYS: Final = (*sorted(OPTIONS), "paused", *(f"{name}_json" for name in JSON_KEYS))
NOT_SHARED: Final = ("func", *TRIGGERS)  # what defaults cannot say
REFUSED: Final = {  # by key the problem and the remedy
    "id": ("the table's name is the id", "write [schedules.<id>]"),
    "managed_by": ("the file owns its schedules", "write owner = at the top of the file"),
    "if_exists": ("a file says what is to be", "leave it out"),
    "durable": ("it belongs to one call, not to a schedule", "leave it out"),
    "allow_past": ("it belongs to one time, and these recur", "leave it out"),
} | dict.fromkeys(
    ("at", "after"),
    ("its time passes, and the next apply would meet it in the past", "use zsched add, or a rule with count = 1"),
)


def option_of(key: str) -> str:
    """The option that stands under *key*: ``args`` under ``args_json``."""
    name = key.removesuffix("_json")
    return name if name in JSON_KEYS else key


def value_of(key: str, value: Any) -> Any:
    """TOML's *value* under *key* as the client takes it: durations and JSON texts read. Raises ValueError."""
    if option_of(key) != key:
        return _from_json(key, value)
    if isinstance(value, str) and key in DURATIONS:
        return parse_duration(value)
    if isinstance(value, str) and key in _TIMES:
        raise ValueError(f"{value!r} is a text; write the time without quotes, such as 2026-12-24T18:00:00Z")
    return value


def _from_json(key: str, value: Any) -> Any:
    """The value of a JSON text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text; write JSON in quotes, or {option_of(key)} = in TOML")
    try:
        return json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error}); write it like '[1, null]'") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not in JSON")
