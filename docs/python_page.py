"""The page of the Python API, made from signatures and docstrings: ``docs.pages`` writes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final

import zsched
from zsched.testing import ManualScheduler

_PARTS: Final[dict[str, tuple[Any, ...]]] = {
    "Client": (zsched.Client, zsched.AsyncClient),
    "Tasks": (zsched.task, zsched.Task, zsched.Next, zsched.current_run, zsched.CurrentRun),
    "Values": (zsched.Scheduled, zsched.Many, zsched.Schedule, zsched.Run, zsched.Backfill),
    "Tests": (ManualScheduler,),
}
_WIDTH: Final = 100  # columns of a signature in one line
_CODE: Final = re.compile(r"``([^`]*)``")
_PARAMETER: Final = re.compile(r"(?<![\w*])\*(\w+)\*(?![\w*])")


_HEAD: Final = """# Python API

This page has the signatures and docstrings of the public names. All but those of tests are members of `zsched`.
[Schedule from Python](../how-to/schedule.md) shows them at work. [Options](options.md) explains every keyword of
`schedule`, and [errors](errors.md) every exception.
"""


def python() -> Iterator[str]:
    """Yield the lines of the page."""
    yield _HEAD
    for part, members in _PARTS.items():
        yield f"## {part}\n"
        for member in members:
            yield from _class(member) if inspect.isclass(member) else _function(member, member.__name__, "###")


def _class(found: type) -> Iterator[str]:
    """Yield the section of a class: its docstring, its fields if it is a value, and its public methods."""
    yield f"### {found.__name__}\n"
    yield from _docstring(found)
    names = [name for name in inspect.get_annotations(found) if not name.startswith("_")]
    if names and (is_dataclass(found) or issubclass(found, tuple)):
        yield "| field | type |"
        yield "|---|---|"
        for name in names:
            kind = inspect.get_annotations(found)[name]
            kind = str(getattr(kind, "__forward_arg__", kind)).replace("|", "\\|")  # a named tuple wraps it
            yield f"| `{name}` | `{kind}` |"
        yield ""
    for name, member in _methods(found):
        if isinstance(member, property | cached_property):
            yield f"#### {found.__name__}.{name}\n"
            yield from _docstring(member)
        else:
            yield from _function(member, f"{found.__name__}.{name}", "####")


def _methods(found: type) -> Iterator[tuple[str, Any]]:
    """
    Yield the public methods and properties in the order of the code; a base's come last. A method that only wraps one
    of another class is told there.
    """
    seen = set[str]()
    for each in found.__mro__:
        if not each.__module__.startswith("zsched"):
            continue
        for name, member in vars(each).items():
            is_own = inspect.isfunction(member) and not hasattr(member, "__wrapped__")
            is_shown = is_own or isinstance(member, property | cached_property | classmethod)
            if is_shown and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, getattr(found, name) if isinstance(member, classmethod) else member


def _function(function: Callable[..., Any], name: str, level: str) -> Iterator[str]:
    yield f"{level} {name}\n"
    yield f"```py\n{_signature(function, name)}\n```\n"
    yield from _docstring(function)


def _signature(function: Callable[..., Any], name: str) -> str:
    """Return the signature in one line if it is short, else with a line for each parameter."""
    signature = inspect.signature(function)
    shown = [each for each in signature.parameters.values() if each.name != "self"]
    parts, is_keyword = list[str](), False
    for each in shown:
        if each.kind is each.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            parts.append("*")
        parts.append(_parameter(each))
    line = f"{name}({', '.join(parts)}) -> {signature.return_annotation}"
    if len(line) <= _WIDTH:
        return line
    return f"{name}(\n    " + ",\n    ".join(parts) + f",\n) -> {signature.return_annotation}"


def _parameter(given: inspect.Parameter) -> str:
    """Return a parameter as the code has it; annotations are texts there."""
    stars = "*" if given.kind is given.VAR_POSITIONAL else "**" if given.kind is given.VAR_KEYWORD else ""
    kind = "" if given.annotation is given.empty else f": {given.annotation}"
    default = given.default
    value = "" if default is given.empty else f" = {default if isinstance(default, Enum) else repr(default)}"
    return f"{stars}{given.name}{kind}{value}"


def _docstring(found: Any) -> Iterator[str]:
    """Yield a docstring in Markdown, with its list of errors."""
    text, _, raised = (inspect.getdoc(found) or "").partition("\nRaises:\n")
    yield f"{_marked(text.strip())}\n"
    for error in re.split(r"\n(?=\S)", inspect.cleandoc(raised)) if raised else ():
        name, _, why = " ".join(error.split()).partition(": ")
        yield f"- raises `{name}`: {_marked(why)}"
    if raised:
        yield ""


def _marked(text: str) -> str:
    """Return a docstring's text with the marks of Markdown."""
    return _PARAMETER.sub(r"`\1`", _CODE.sub(r"`\1`", text))
