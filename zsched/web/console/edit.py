"""The form that edits a schedule: its fields are options of the table. It previews times, and shows a conflict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from zsched.core.checked_options import CheckedOptions
from zsched.core.forms import Duration, Form, Instant, Json, Number, RqSeconds, Tags, Whole, Words, YesNo
from zsched.core.model import Schedule
from zsched.core.option_table import FOR_UPDATE, OPTIONS, RuleOptions
from zsched.core.sentences import local_text
from zsched.core.triggers import RULES
from zsched.core.wording import duration_text
from zsched.errors import InvalidSchedule, VersionConflict, ZschedError
from zsched.web import actions
from zsched.web.console.schedule import with_remarks
from zsched.web.console.view import View, Viewed
from zsched.web.labels import label_of
from zsched.web.reading import read_form, rfc3339

router = APIRouter(include_in_schema=False)

_PREVIEWED: Final = 5
_FIELDS: Final = 60  # of the form, at most
_DEFAULTS: Final = CheckedOptions().given()
# What is edited most, before the others.
_FIRST: Final = (*RULES, "at", "tz", "queue", "priority", "tags", "description")
_OTHERS: Final = (
    "starts", "ends", "count", "gap", "fold", "overlap", "overlap_limit", "catch_up", "catch_up_window",
    "catch_up_limit", "jitter", "expires_after", "timeout", "retry", "result_ttl", "failure_ttl",
    "pause_after_failures", "at_front", "on_uncertain", "on_lost", "created_by", "managed_by",
)  # fmt: skip
_ARGUMENTS: Final = ("args", "kwargs")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form: an option's name, its help, the kind of its input, its choices, and its text."""

    name: str
    help: str
    input: str
    choices: tuple[str, ...]
    text: str

    def with_text(self, text: str) -> Field:
        """Return it with what a person has typed."""
        return replace(self, text=text)


@router.get("/schedules/{id:plain}/edit")
async def form(view: Viewed, id: str) -> Response:
    """Show the form."""
    view.call.demand_write()
    one = await actions.found_of(view.call, id)
    return await _form(view, one, _fields_of(one, view))


@router.post("/schedules/{id:plain}/edit")
async def save(view: Viewed, id: str, request: Request) -> Response:
    """Change the options that differ from those of the schedule, if it still has the version of the form."""
    view.call.demand_write()
    given = await read_form(request, _FIELDS)
    one = await actions.found_of(view.call, id)
    fields = _fields_of(one, view)
    typed = [field.with_text(given.get(field.name, "" if field.input != "checkbox" else "no")) for field in fields]
    version = given.get("version") or None
    if version != one.version:
        return await _form(view, one, typed, status=409, conflict=version)
    try:
        changes = {
            new.name: _value(new) for old, new in zip(fields, typed, strict=True) if old.text != new.text.strip()
        }
        if not changes:
            return view.done("nothing to change", "schedules", id)
        done = await actions.update(view.call, id, changes, version)
    except VersionConflict:
        return await _form(view, await actions.found_of(view.call, id), typed, status=409, conflict=version)
    except ZschedError as error:
        return await _form(view, one, typed, status=422, problem=error)
    return view.done(f"{done.outcome}: {', '.join(map(label_of, changes))}", "schedules", id)


@router.get("/schedules/{id:plain}/preview")
async def preview(view: Viewed, id: str, request: Request) -> Response:
    """Return the next times of the rule in the form, while a person types."""
    one = await actions.found_of(view.call, id)
    given = request.query_params
    texts = {name: given[name].strip() for name in (*RuleOptions.__annotations__, "jitter") if given.get(name)}
    texts.pop("jitter", None)  # it depends on the id, and moves a time by less than itself
    try:
        rule = {name: _value(_field(name, "", texts[name])) for name in texts}
        times = list(await view.call.client.preview(n=_PREVIEWED, **rule)) if set(rule) & set(RULES) else []
    except ZschedError as error:
        return view.page("_preview", coming=[], tz=one.tz, problem=error)
    tz = texts.get("tz") or "UTC"
    return view.page("_preview", coming=with_remarks(replace(one, tz=tz, jitter_ms=0), times), tz=tz, problem=None)


async def _form(
    view: View,
    one: Schedule,
    fields: list[Field],
    *,
    status: int = 200,
    conflict: str | None = None,
    problem: ZschedError | None = None,
) -> Response:
    """Show the form with *fields*. *conflict*: the version that was edited, which the schedule has no more."""
    story = None if conflict is None else await view.call.client.why(one.id, view.tz)
    shown = {field.name: field for field in fields}
    return view.page(
        "edit",
        status,
        one=one,
        first=[shown[name] for name in _FIRST if name in shown],
        others=[shown[name] for name in (*_OTHERS, *_ARGUMENTS) if name in shown],
        story=story,
        conflict=conflict,
        present={field.name: field.text for field in _fields_of(one, view)},
        problem=problem,
    )


def _fields_of(one: Schedule, view: View) -> list[Field]:
    """Return the fields for a schedule with its present values."""
    is_once, shown = one.kind == "once", one.to_dict()
    names = [name for name in (*_FIRST, *_OTHERS) if name in FOR_UPDATE]
    names += _ARGUMENTS if view.account.sees_arguments and one.args is not None else ()
    found = []
    for name in names:
        if name == "at" and not is_once:
            continue
        if is_once and (OPTIONS[name].once or name in (*RULES, "starts", "ends", "count", "gap", "fold")):
            continue
        if name in RULES and name != one.kind:
            continue
        found.append(_field(name, _text(name, one, shown)))
    return found


def _field(name: str, text: str, typed: str | None = None) -> Field:
    option = OPTIONS[name]
    form = option.form
    choices: tuple[str, ...] = ()
    kind = "text"
    if isinstance(form, Words):
        kind, choices = "select", tuple(str(member.value) for member in form.enum)
    elif isinstance(form, YesNo):
        kind = "checkbox"
    elif isinstance(form, Whole | Number):
        kind = "number"
    elif isinstance(form, Json):
        kind = "json"
    return Field(name, option.help_with(label_of), kind, choices, text if typed is None else typed)


def _text(name: str, one: Schedule, shown: Mapping[str, Any]) -> str:
    """Return the present value of an option as the form has it."""
    spec = one.trigger
    if name in RULES:
        return "" if spec is None else spec.kind.describe(spec.expr)
    if name == "at":
        return "" if one.next_ms is None else local_text(one.next_ms, one.tz).replace(" ", "T")
    if name in ("starts", "ends"):
        ms = None if spec is None else getattr(spec, f"{name}_ms")
        return "" if ms is None else local_text(ms, one.tz).replace(" ", "T")
    if name in ("count", "gap", "fold"):
        value = None if spec is None else getattr(spec, name)
        return "" if value is None else str(getattr(value, "value", value))
    value = shown.get(OPTIONS[name].shown)
    if value in (None, "", ()) or (name == "description" and value == one.func):  # its default
        return ""
    form: Form = OPTIONS[name].form
    if isinstance(form, Tags):
        return ", ".join(value)
    if isinstance(form, YesNo):
        return "yes" if value else "no"
    if isinstance(form, Duration):
        return duration_text(round(value * 1000)) if value else ""
    if isinstance(form, RqSeconds):
        return str(value) if value < 0 else duration_text(value * 1000)
    if isinstance(form, Json):
        return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return str(value)


def _value(field: Field) -> Any:
    """Return the value of an option from the text of its field. Raises InvalidSchedule."""
    name, text, form = field.name, field.text.strip(), OPTIONS[field.name].form
    if isinstance(form, YesNo):
        return text == "yes"
    if isinstance(form, Tags):
        return [tag for each in text.split(",") if (tag := each.strip())]
    if not text:
        return _DEFAULTS.get(name)
    if isinstance(form, Whole | Number):
        if not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise InvalidSchedule(name, text, "not a whole number", "give one such as 3")
        return int(text)
    if isinstance(form, Instant):
        return rfc3339(name, text.replace(" ", "T"))
    if isinstance(form, Json):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InvalidSchedule(name, text, f"not JSON: {error}", "give a JSON array, or an object") from None
    return text
