"""
JSON schemas of results, from the results themselves: a sample of each has its members, and their types follow from the
types of its attributes and from the names of times (``…_at``) and durations (``…_s``).
"""

from __future__ import annotations

import typing
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final

from zsched.core.model import Schedule, Scheduled
from zsched.core.occurrences.backfill import Backfill
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import ValueType
from zsched.core.options.table import OPTIONS
from zsched.core.repair import Repaired
from zsched.core.runs.run import Run, RunStatus
from zsched.core.story.story import Source, Story
from zsched.core.story.verdict import StoryVerdict, Word

_SOURCE: Final = Source(None, None, None)
_SAMPLES: Final[tuple[Any, ...]] = (
    Schedule(id="a", state=ScheduleState.ACTIVE, kind="once", func="app.x", next_ms=0),
    Scheduled("a", "created", None, None),
    Run("a-0", RunStatus.QUEUED),
    Story("a", "UTC", StoryVerdict(Word.UNKNOWN, "", ""), [], True, _SOURCE, ()),
    Backfill("a", "UTC", 0, 0, (), 0, 0, _SOURCE, True),
    Repaired(0, ()),
    _SOURCE,
)
_NAMES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null", list: "array"}
_FORMS: Final = {option.json_name: option.form for option in OPTIONS.values()}


def results() -> dict[str, dict[str, Any]]:
    """Return the schema of each result, by the name of its class."""
    return {type(sample).__name__: _object(sample.to_dict(), type(sample)) for sample in _SAMPLES}


def _object(shown: dict[str, Any], of: type | None = None) -> dict[str, Any]:
    hints = {} if of is None else typing.get_type_hints(of, localns={"Source": Source})  # some import it for types only
    members = {name: _member(name, value, hints.get(name)) for name, value in shown.items()}
    return {"type": "object", "required": list(shown), "properties": members}


def _member(name: str, value: Any, hint: Any) -> dict[str, Any]:
    if name.endswith("_at"):
        return {"type": ["string", "null"], "format": "date-time"}
    if name.endswith("_s"):
        return {"type": ["number", "null"]}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [each.value for each in hint]}
    form = _FORMS.get(name)
    if form is not None and form.value_type is ValueType.WORD:
        return {"enum": [*form.words, None]}
    if form is not None and form.value_type is ValueType.BOOLEAN:
        return form.schema
    kinds = set(typing.get_args(hint)) if isinstance(hint, UnionType) else {hint}
    if kinds <= _NAMES.keys():
        return {"type": sorted({_NAMES[kind] for kind in (*kinds, type(value))})}
    if isinstance(value, dict):
        return _object(value) if value else {"type": "object"}
    return {} if value is None else {"type": _NAMES[type(value)]}
