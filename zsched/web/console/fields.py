"""Fields of the form that edits a schedule: options of the table, with the texts of their values, and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final

from zsched.core.model import Schedule
from zsched.core.options.arguments import strict_json
from zsched.core.options.checked import USUAL_ARGUMENTS
from zsched.core.options.forms import Group, Stored, ValueType
from zsched.core.options.table import FOR_UPDATE, OPTIONS
from zsched.core.story.sentences import local_text
from zsched.core.triggers.trigger import RULES
from zsched.core.wording import duration_text
from zsched.errors import InvalidSchedule
from zsched.web.problems import label_of
from zsched.web.reading import rfc3339

EDITED: Final = tuple(
    name
    for name, option in OPTIONS.items()
    if name in FOR_UPDATE and name != "after"  # which becomes "at"
    if option.stored is not Stored.NOT and option.attribute != "-"  # a schedule shows its value
)
_INPUTS: Final = {
    ValueType.WORD: "select",
    ValueType.BOOLEAN: "checkbox",
    ValueType.NUMBER: "number",
    ValueType.ARRAY: "json",
    ValueType.OBJECT: "json",
}
_SEPARATORS: Final = {"exclude": ";"}  # whose texts have commas; of other lists a comma
_OF_SPEC: Final = {"starts": "starts_ms", "ends": "ends_ms"}
_ARGUMENTS: Final = frozenset({"args", "kwargs"})


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form: an option's name, its help, the kind of its input, its choices, and its text."""

    name: str
    help: str
    input: str
    choices: tuple[str, ...]
    text: str

    @classmethod
    def of(cls, name: str, text: str) -> Field:
        """Return the field of the option *name* with *text*."""
        option = OPTIONS[name]
        form, more = option.form, ""
        if form.value_type is ValueType.LIST:
            more = f" Several are separated by {_SEPARATORS.get(name, ',')}"
        input = _INPUTS.get(form.value_type, "text")
        return cls(name, option.help_with(label_of) + more, input, tuple(form.words), text.strip())

    def with_text(self, text: str) -> Field:
        """Return it with what a person has typed."""
        return replace(self, text=text.strip())

    @property
    def group(self) -> Group:
        """Its heading in the form; the rule that a schedule has stands first, of whatever kind."""
        return Group.EVERYDAY if self.name in RULES else OPTIONS[self.name].group

    @property
    def print(self) -> str:
        """A short text by which a form knows the value that it was opened with: arguments may be long."""
        return sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def value(self) -> Any:
        """Return the value of the option. Raises InvalidSchedule."""
        name, text, value_type = self.name, self.text, OPTIONS[self.name].form.value_type
        if value_type is ValueType.BOOLEAN:
            return text == "yes"
        if value_type is ValueType.LIST:
            return [one for each in text.split(_SEPARATORS.get(name, ",")) if (one := each.strip())]
        if not text:
            return USUAL_ARGUMENTS.get(name)
        if value_type is ValueType.NUMBER:
            if not (text.isascii() and text.isdecimal() and len(text) <= 18):
                raise InvalidSchedule(name, text, "not a whole number", "give one such as 3")
            return int(text)
        if value_type is ValueType.TIME:
            return rfc3339(name, text.replace(" ", "T"))
        if self.input == "json":
            try:
                return strict_json(text)
            except ValueError as error:
                raise InvalidSchedule(name, text, f"not JSON: {error}", "give a JSON array, or an object") from None
        return text


def editable_fields(one: Schedule, *, has_arguments: bool) -> list[Field]:
    """Return the fields for a schedule with its present values; *has_arguments*: also its arguments, if known."""
    return [
        Field.of(name, _text(name, one))
        for name in EDITED
        if _is_for(one, name)
        if name not in _ARGUMENTS or (has_arguments and one.args is not None)
    ]


def _is_for(one: Schedule, name: str) -> bool:
    """Return True if a schedule of this kind can have the option; a new one has no kind yet."""
    if one.kind == "once":
        return not OPTIONS[name].once and name not in (*RULES, "gap", "fold")
    return not one.kind or (name != "at" and (name not in RULES or name == one.kind))


def _text(name: str, one: Schedule) -> str:
    """Return the present value of an option as the form has it."""
    option, spec = OPTIONS[name], one.trigger
    form = option.form
    if name in RULES:
        return "" if spec is None or spec.kind.name != name else spec.kind.describe(spec.expr)
    if option.stored is Stored.RULE:
        value: Any = one.next_ms if name == "at" else getattr(spec, _OF_SPEC.get(name, name), None)
    else:
        value = attrgetter(option.attribute)(one)
    if value in (None, "", ()) or (name == "description" and value == one.func):  # its default
        return ""
    match form.value_type:
        case ValueType.TIME:
            return local_text(value, one.tz).replace(" ", "T")
        case ValueType.LIST:
            return f"{_SEPARATORS.get(name, ',')} ".join(value)
        case ValueType.BOOLEAN:
            return "yes" if value else "no"
        case ValueType.DURATION if form.unit:
            return duration_text(value) if value else ""
        case ValueType.DURATION:
            return str(value) if value < 0 else duration_text(value * 1000)
        case ValueType.ARRAY | ValueType.OBJECT:
            return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return form.to_text(value)
