"""
The form that makes or edits a schedule, with the next times while a person types. Its fields are options of the table,
with the texts of their values.

A new schedule has the fields of every kind; those that the person filled are its options. A copy begins with those of
another schedule.

The form knows the version that it was opened with, and a print of each value. Only the fields that the person changed
are sent to the client, for that version. If somebody else has changed the schedule meanwhile, nothing is saved: the
form comes again, merged. A field that only one of them changed has that change. A field that both changed shows both
values, and the person chooses.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

from fastapi import APIRouter, Request
from starlette.responses import Response

from zsched.core.clock import from_ms
from zsched.core.model import Schedule
from zsched.core.options.arguments import strict_json
from zsched.core.options.checked import USUAL_ARGUMENTS
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import Group, Stored, ValueType, zone_name
from zsched.core.options.table import FOR_UPDATE, OPTIONS, RuleOptions
from zsched.core.story.sentences import local_text
from zsched.core.story.story import Story
from zsched.core.triggers.trigger import RULES
from zsched.core.triggers.zones import instant_ms, zone
from zsched.core.wording import duration_text
from zsched.errors import InvalidSchedule, ScheduleInPast, VersionConflict, ZschedError
from zsched.web import actions
from zsched.web.answers import label_of, page_problem
from zsched.web.calls import Admitted
from zsched.web.console.schedules import with_remarks
from zsched.web.console.view import View, Viewed
from zsched.web.reading import func_of, rfc3339

router = APIRouter(include_in_schema=False)

_PREVIEWED: Final = 5
_FIELDS: Final = 100  # of the form, at most
_UNBOUND: Final = dict.fromkeys(("starts", "ends", "count"))  # what an empty field means
_TAKE: Final = "take."  # before the name of a field that both changed: whose value to take
_NEW: Final = Schedule(id="", state=ScheduleState.ACTIVE, kind="", func="", next_ms=None, args=(), kwargs={})
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


class Field(NamedTuple):
    """
    A field of the form: an option's name, its help, the kind of its input, its choices, and its text. Merged, it also
    has ``present``, the schedule's own text. ``is_mine``: the person changed it since the form was opened;
    ``is_theirs``: somebody else did.
    """

    name: str
    help: str
    input: str
    choices: tuple[str, ...]
    text: str
    present: str = ""
    is_mine: bool = False
    is_theirs: bool = False

    @classmethod
    def of(cls, name: str, text: str) -> Self:
        """Return the field of the option *name* with *text*."""
        option = OPTIONS[name]
        form, more = option.form, ""
        if form.value_type is ValueType.LIST:
            more = f" Several are separated by {_SEPARATORS.get(name, ',')}"
        input = _INPUTS.get(form.value_type, "text")
        return cls(name, option.help_with(label_of) + more, input, tuple(form.words), text.strip())

    def with_text(self, text: str) -> Self:
        """Return it with what a person has typed."""
        return self._replace(text=text.strip())

    def merged(self, given: Mapping[str, str], opened: Mapping[str, str]) -> Self:
        """Merge the present field with the form *given*, and with the prints that it was *opened* with."""
        name = self.name
        if name not in opened or given.get(_TAKE + name) == "theirs":
            return self._replace(present=self.text)
        typed = self.with_text(given.get(name, "" if self.input != "checkbox" else "no"))
        is_mine, is_theirs = (each.print != opened[name] for each in (typed, self))
        return (typed if is_mine else self)._replace(present=self.text, is_mine=is_mine, is_theirs=is_theirs)

    @property
    def is_disputed(self) -> bool:
        """True if both changed it, to different texts."""
        return self.is_mine and self.is_theirs and self.is_changed

    @property
    def is_changed(self) -> bool:
        """True if the text differs from the schedule's."""
        return self.text != self.present

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
        if name not in ("args", "kwargs") or (has_arguments and one.args is not None)
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


@router.get("/new")
async def new(view: Viewed, copy: str = "") -> Response:
    """Show the empty form, or that of a copy of a schedule."""
    view.call.demand_write()
    found = await actions.found_of(view.call, copy) if copy else _NEW
    has_arguments = view.account.sees_arguments and found.args is not None
    args, kwargs = (found.args, found.kwargs) if has_arguments else ((), {})
    at_ms = None if found.trigger else found.next_ms
    fields = editable_fields(replace(found, kind="", next_ms=at_ms, args=args, kwargs=kwargs), has_arguments=True)
    given = {"func": found.func, "copy": copy, "has_arguments": has_arguments}
    return view.page("edit", **_shown(_NEW, fields), given=given)


@router.post("/new")
async def make(view: Viewed) -> Response:
    """Make the schedule, unless its id is there already."""
    given = await view.form(_FIELDS)
    unset = editable_fields(_NEW, has_arguments=True)
    fields = [each.merged(given, {each.name: each.print}) for each in unset]
    try:
        options = {each.name: each.value() for each in fields if each.is_changed}
        options |= {"id": given["id"].strip()} if given.get("id") else {}
        func = func_of({"func": given.get("func", "").strip() or None})
        view.call.demand_new(func, options)
        made = await view.call.client.schedule(func, **options, if_exists="error")
    except ZschedError as error:
        return view.refused(error, "edit", **_shown(_NEW, fields), given=given)
    return view.done(made.outcome, "schedules", made.id)


@router.get("/schedules/{id:plain}/edit")
async def form(view: Viewed, id: str) -> Response:
    """Show the form."""
    view.call.demand_write()
    return view.page("edit", **_shown(*await _merged(view, id, {}, {})))


@router.post("/schedules/{id:plain}/edit")
async def save(view: Viewed, id: str) -> Response:
    """
    Change the options that the person changed, if the schedule still has the version of the form; else show the changes
    by others since it was opened, and the merged form.
    """
    given = await view.form(_FIELDS)
    opened = dict(each.partition(":")[::2] for each in given.get("opened", "").split())
    version = given.get("version") or None
    one, merged = await _merged(view, id, given, opened)
    if version == one.version:
        try:
            changes = {each.name: each.value() for each in merged if each.is_changed}
            if not changes:
                return view.done("nothing to change", "schedules", id)
            done = await actions.update(view.call, id, changes, version, view.call.client.update)
            return view.done(f"{done.outcome}: {', '.join(map(label_of, changes))}", "schedules", id)
        except VersionConflict:
            one, merged = await _merged(view, id, given, opened)
        except ZschedError as error:
            return view.refused(error, "edit", **_shown(one, merged))
    story = await view.call.client.why(one.id, view.tz)
    gone = opened.keys() - {each.name for each in merged}
    return view.page("edit", 409, **_shown(one, merged, story=story, gone=sorted(map(label_of, gone))))


@router.get("/new/preview")
@router.get("/schedules/{id:plain}/preview")
async def preview(call: Admitted, request: Request) -> Response:
    """Return the next times by the form, while a person types; or what is wrong with it."""
    id = request.path_params.get("id")  # the query has a field of this name
    one = await actions.found_of(call, id) if id else _NEW
    view = View(request, call, "")  # tz of the query is a field of the form
    given = {name: text for name, each in request.query_params.items() if (text := each.strip())}
    try:
        tz = zone_name(given.get("tz")) or "UTC"
        rule = {name: Field.of(name, given[name]).value() for name in RuleOptions.__annotations__ if name in given}
        is_once = one.kind == "once" or (not one.kind and "at" in given)
        times = _once(view, given, tz) if is_once else await _by_rule(view, rule)
        changes = await call.client.difference(id, **{**_UNBOUND, **rule}) if times and rule and id else None
    except ZschedError as error:
        return view.page("_preview", trouble=page_problem(error))
    coming = [*with_remarks(replace(one, tz=tz, jitter_ms=0), times)]
    return view.page("_preview", coming=coming, tz=tz, changes=changes)


def _once(view: View, given: Mapping[str, str], tz: str) -> list[datetime]:
    """Return the time of a one-shot. Raises InvalidSchedule."""
    if "at" not in given:
        return []
    if (ms := instant_ms("at", Field.of("at", given["at"]).value(), tz)) <= view.now_ms:
        raise ScheduleInPast("at", given["at"], "it has passed", "give a later time")
    return [from_ms(ms).astimezone(zone(tz))]


async def _by_rule(view: View, rule: Mapping[str, Any]) -> list[datetime]:
    """Return the next times of a rule. Raises InvalidSchedule, TriggerError."""
    return list(await view.call.client.preview(n=_PREVIEWED, **rule)) if set(rule) & set(RULES) else []


async def _merged(
    view: View, id: str, given: Mapping[str, str], opened: Mapping[str, str]
) -> tuple[Schedule, list[Field]]:
    """Return the present schedule, and its fields merged with the form."""
    one = await actions.found_of(view.call, id)
    fields = editable_fields(one, has_arguments=view.account.sees_arguments)
    return one, [field.merged(given, opened) for field in fields]


def _shown(
    one: Schedule, all_: Sequence[Field], *, story: Story | None = None, gone: Sequence[str] = ()
) -> dict[str, Any]:
    """
    Return what the page shows. ``opened`` has the prints that the next save is compared with. After a conflict there
    are a *story*, and the labels of fields that are *gone*.
    """
    return {
        "one": one,
        "groups": {group: [each for each in all_ if each.group is group] for group in Group},
        "opened": " ".join(f"{each.name}:{each.with_text(each.present).print}" for each in all_),
        "take": _TAKE,
        "story": story,
        "gone": gone,
    }
