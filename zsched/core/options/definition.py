"""The options of a schedule as names and texts, for the command line and the console."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from zsched.core.model import Schedule
from zsched.core.options.checked import POLICIES
from zsched.core.options.table import OPTIONS
from zsched.core.wording import duration_text

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
