"""
Write the schedules in Redis as a file that ``reading`` reads, without default values.

An option is left out if a schedule with only a function and a rule has the same value. If neither TOML nor JSON can
express a value (a set or an object of a pickled call), the entry becomes a comment with the reason. One-shots and ended
schedules are not written.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from zsched.client import Client
from zsched.client.file_sync import FileSync
from zsched.core.options.choices import ScheduleState
from zsched.core.options.revision import is_same
from zsched.core.toml import json_text, key_text, toml_text
from zsched.core.triggers.calendar_definition import PARTS
from zsched.core.triggers.spec import TriggerKind
from zsched.core.triggers.trigger import RULES
from zsched.core.wording import blanked
from zsched.files.checking import JSON_KEYS
from zsched.storage.comparing import ScheduleWithOptions, plain_options

_UsualOf = Callable[[TriggerKind], dict[str, Any]]


@dataclass(slots=True)
class WrittenFile:
    """A file's text. ``unsaid``: (id, reason) of entries that are only comments; ``ended``: ids that were left out."""

    text: str = ""
    owner: str | None = None
    ids: list[str] = field(default_factory=list)
    unsaid: list[tuple[str, str]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)


def write(client: Client, *, owner: str | None = None, globs: Iterable[str] = ()) -> WrittenFile:
    """
    Return the recurring schedules of *client*'s namespace as a file: only of *owner* ("": without owner), and only with
    an id that matches one of *globs*, if given.

    Raises:
        InvalidSchedule: the namespace uses another serializer. RedisUnavailable.
    """
    sync, globs = FileSync(client), tuple(globs)

    @cache
    def usual_of(kind: TriggerKind) -> dict[str, Any]:
        """Return the options of a schedule that has only a function and a rule of *kind*."""
        definition = sync.define("module.function", {kind.name: kind.example})
        return plain_options(sync.wanted(definition, None)[1])

    found = [one for one in sync.recurring(globs) if owner is None or (one.owner or "") == owner]
    kept = [one for one in found if one.state is not ScheduleState.ENDED]
    written = WrittenFile(ended=[one.id for one in found if one.state is ScheduleState.ENDED])
    owners = {one.owner for one in kept}
    written.owner = owner or (owners.pop() if len(owners) == 1 else None)
    blocks = ["# Written by `zsched export`; `zsched apply` reads it."]
    if written.owner is not None:
        blocks.append(f"owner = {toml_text(written.owner)}")
    elif kept:
        blocks.append(
            "# No owner has all of these: apply makes them this file's with --take-over, once there is an owner ="
            "\n# line here, or by the name of the file."
        )
    blocks += [] if kept else ["[schedules]"]
    named = {text for one in kept if one.trigger is not None for text in one.trigger.exclude}
    for name, calendar in sorted(sync.calendars().items()):
        if owner is None or (calendar.owner or "") == owner if not globs else name in named:
            blocks.append(calendar_block(name, calendar.to_dict()))
    for held in sync.held(one.id for one in kept):
        blocks.append(_block(held, written, usual_of))
    written.text = "\n\n".join(blocks) + "\n"
    return written


def _block(held: ScheduleWithOptions, written: WrittenFile, usual_of: _UsualOf) -> str:
    """Return one entry, with remarks above it."""
    schedule = held.schedule
    remarks = []
    if written.owner is None:
        remarks.append(f"owned by {blanked(schedule.owner)}" if schedule.owner else "without an owner")
    if schedule.state is ScheduleState.QUARANTINED:
        remarks.append(f"quarantined: {blanked(schedule.note or 'no reason is recorded')}")
    lines = [f"[schedules.{key_text(schedule.id)}]"]
    reasons = [held.unreadable] if held.unreadable else []
    reasons += ["its rule cannot be read"] if schedule.trigger is None else []
    for name, value in _options_to_write(held, usual_of).items():
        try:
            lines.append(_pair(name, value))
        except ValueError as error:
            reasons.append(f"{name}: {error}")
            lines.append(f"{name} = ?")
    if schedule.state is ScheduleState.PAUSED:
        lines.append("enabled = false")
    written.ids.append(schedule.id)
    if reasons:
        reason = blanked("; ".join(reasons))
        written.unsaid.append((schedule.id, reason))
        remarks.append(f"cannot be written: {reason}")
        lines = [f"# {line}" for line in lines]
    return "\n".join([*(f"# {remark}" for remark in remarks), *lines])


def _options_to_write(held: ScheduleWithOptions, usual_of: _UsualOf) -> Mapping[str, Any]:
    """Return the options of *held* that a file must contain."""
    options, spec = plain_options(held), held.schedule.trigger
    usual = {} if spec is None else usual_of(spec.kind)
    return {
        name: value
        for name, value in options.items()
        if name in ("func", *RULES) or (name != "owner" and not is_same(value, usual.get(name)))
    }


def calendar_block(name: str, parts: Mapping[str, Any]) -> str:
    """Return the table of a calendar."""
    return "\n".join([f"[calendars.{name}]", *(_pair(part, parts[part]) for part in PARTS if parts[part])])


def _pair(name: str, value: Any) -> str:
    """Return ``name = value`` in TOML, or ``name_json`` if TOML cannot express it. Raises ValueError."""
    try:
        return f"{name} = {toml_text(value)}"
    except ValueError:
        if name not in JSON_KEYS:
            raise
    return f"{name}_json = {json_text(value)}"
