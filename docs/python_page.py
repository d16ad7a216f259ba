"""The page of the Python API, made from signatures and docstrings: ``docs.pages`` writes it."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final

import zsched
from zsched.testing import ManualScheduler

# The methods of a client: the everyday ones first. A public method that is missing here fails ``make pages``.
CLIENT: Final = {
    "Connect": "from_url",
    "Everyday": "schedule enqueue schedule_many update cancel pause resume run_now get list runs why",
    "Many at once": "cancel_many pause_many resume_many release_many retry_many cancel_runs sign_many",
    "Calendars and skips": "calendars put_calendar delete_calendar skip unskip",
    "Repair": "retry cancel_run backfill release ack known_failures remove_ack",
    "The past and the future": (
        "preview forecast difference history iter_history iter_runs get_run log follow_log timeline recent"
    ),
    "For servers": "acting_as by",
}
# Members that other packages of zsched use, and no program: they may change.
_OWN: Final = {
    "Task": {"complete_options", "options_beside", "checked_id", "mistakes"},
    "Schedule": {"limited_by", "texts", "letters", "damage"},
}
_PARTS: Final[dict[str, tuple[Any, ...]]] = {
    "Tasks": (zsched.task, zsched.Task, zsched.Next, zsched.current_run, zsched.CurrentRun),
    "Values": (zsched.Scheduled, zsched.Many, zsched.Schedule, zsched.Run, zsched.Backfill),
    "Tests": (ManualScheduler,),
}
_CODE: Final = re.compile(r"``([^`]*)``")
_PARAMETER: Final = re.compile(r"(?<![\w*])\*(\w+)\*(?![\w*])")
# What the head of the page says once of all calls.
_USUAL: Final = re.compile(
    r"RedisUnavailable(, RedisRefused)?: Redis was not reached(, or refused)?\."
    r"|VersionConflict: .* version \*if_version\*\."
    r"|ScheduleNotFound: (no such schedule|no schedule has this id)\."
    r"|RunNotFound: no run has this id\."
    r"|Contended: another writer changed it at every attempt\."
)
_HEAD: Final = """# Python API

This page has the public names with their parameters: members of `zsched`, and `zsched.testing.ManualScheduler`.
[Schedule from Python](../how-to/schedule.md) shows them at work, [options](options.md) explains every keyword of
`schedule`, and [errors](errors.md) every exception. Editors and mypy show the types. The name of a number has its unit:
`_ms`, `_s`, `_us`.

The list below a call has its errors. Any call that needs Redis may also raise `RedisUnavailable` (it was not reached)
or `RedisRefused`. A call with an id may raise `ScheduleNotFound` or `RunNotFound`, and one with `if_version`
`VersionConflict`. Where another writer changes it at every attempt, the call raises `Contended`.
"""


def python() -> Iterator[str]:
    """Yield the lines of the page."""
    yield _HEAD
    yield from _client(zsched.Client)
    yield "### AsyncClient\n"
    yield from _docstring(zsched.AsyncClient)
    yield from _members(zsched.AsyncClient, {*_methods(zsched.AsyncClient)} - {*_methods(zsched.Client)})
    for part, members in _PARTS.items():
        yield f"## {part}\n"
        if part == "Values":
            yield "Each has `to_dict()`: the value for JSON, with stable keys.\n"
        for member in members:
            yield from _class(member) if inspect.isclass(member) else _function(member, member.__name__, "###")


def _client(client: type) -> Iterator[str]:
    """Yield the section of the client: its methods in the groups of ``CLIENT``."""
    listed = [name for names in CLIENT.values() for name in names.split()]
    if {*_methods(client)} != {*listed}:
        raise ValueError(f"CLIENT differs from Client: {({*_methods(client)}) ^ {*listed}}")
    yield "## Client\n"
    yield from _docstring(client)
    for group, names in CLIENT.items():
        yield f"### {group}\n"
        yield from _members(client, names.split())


def _class(found: type) -> Iterator[str]:
    """Yield the section of a class: its docstring, its fields if it is a value, and its public members."""
    yield f"### {found.__name__}\n"
    yield from _docstring(found)
    names = [name for name in inspect.get_annotations(found) if not name.startswith("_")]
    is_value = names and (is_dataclass(found) or issubclass(found, tuple))
    if is_value:
        yield f"Fields: {', '.join(f'`{name}`' for name in names)}.\n"
    own = _OWN.get(found.__name__, set()) | ({"to_dict"} if is_value else set())
    yield from _members(found, [name for name in _methods(found) if name not in own])


def _members(found: type, names: Any) -> Iterator[str]:
    """Yield the methods *names*, each with a heading, and then the properties, a line each."""
    all_ = _methods(found)
    values = [name for name in names if isinstance(all_[name], property | cached_property)]
    for name in names:
        if name not in values:
            yield from _function(all_[name], f"{found.__name__}.{name}", "####")
    for name in values:
        yield f"- `{found.__name__}.{name}`: {' '.join(_docstring(all_[name]).__next__().split())}"
    if values:
        yield ""


def _methods(found: type) -> dict[str, Any]:
    """
    Return the public methods and properties in the order of the code; a base's come last. A method that only wraps one
    of another class is told there.
    """
    members = dict[str, Any]()
    for each in found.__mro__:
        if not each.__module__.startswith("zsched"):
            continue
        for name, member in vars(each).items():
            is_own = inspect.isfunction(member) and not hasattr(member, "__wrapped__")
            is_shown = is_own or isinstance(member, property | cached_property | classmethod)
            if is_shown and not name.startswith("_"):
                members.setdefault(name, getattr(found, name) if isinstance(member, classmethod) else member)
    return members


def _function(function: Callable[..., Any], name: str, level: str) -> Iterator[str]:
    yield f"{level} {_signature(function, name)}\n"
    yield from _docstring(function)


def _signature(function: Callable[..., Any], name: str) -> str:
    """Return the call with its parameters and their defaults; ``*`` stands before the first one given by name alone."""
    parts, is_keyword = list[str](), False
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            parts.append("*")
        if each.name != "self":
            parts.append(_parameter(each))
    return f"`{name}({', '.join(parts)})`"


def _parameter(given: inspect.Parameter) -> str:
    """Return a parameter with its default."""
    stars = "*" if given.kind is given.VAR_POSITIONAL else "**" if given.kind is given.VAR_KEYWORD else ""
    default = given.default
    shown = default.value if isinstance(default, Enum) else default
    return f"{stars}{given.name}{'' if default is given.empty else f'={shown!r}'}"


def _docstring(found: Any) -> Iterator[str]:
    """Yield a docstring in Markdown, with its list of errors, but for those that the head has."""
    text, _, raised = (inspect.getdoc(found) or "").partition("\nRaises:\n")
    yield f"{_marked(text.strip())}\n"
    errors = [" ".join(each.split()) for each in re.split(r"\n(?=\S)", inspect.cleandoc(raised)) if each]
    errors = [each for each in errors if not _USUAL.fullmatch(each)]
    for error in errors:
        name, _, why = error.partition(": ")
        yield f"- `{name}`: {_marked(why)}"
    if errors:
        yield ""


def _marked(text: str) -> str:
    """Return a docstring's text with the marks of Markdown."""
    return _PARAMETER.sub(r"`\1`", _CODE.sub(r"`\1`", text))
