"""``zsched tasks``: the tasks of a module."""

from __future__ import annotations

import inspect
import json
from typing import Any, Final

import click

from zsched.cli.functions import importing
from zsched.cli.invocation import Invocation, echo_array, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.tables import lines
from zsched.tasks.lookup import tasks_of
from zsched.tasks.signature import NO_DEFAULT, Parameter
from zsched.tasks.task import Task

_HEADER: Final = ("NAME", "FUNC", "PARAMETERS", "OPTIONS", "ABOUT")


@click.command(cls=Subcommand)
@click.argument("module")
@pass_invocation
def tasks(invocation: Invocation, /, module: str) -> None:
    """
    List the tasks of MODULE, a dotted name: what they take, and the options of their schedules. No Redis is needed.

    The module is imported from this folder, or from where Python finds modules.

    \b
    Examples:
      zsched tasks app.tasks
      zsched tasks app.tasks --json | jq -r '.[].func'
    """
    with importing():
        found = tasks_of(module)
    if invocation.wants_json:
        echo_array(_as_json(name, task) for name, task in found.items())
        return
    for line in lines(_HEADER, (_row(name, task) for name, task in found.items())):
        click.echo(line)


def _row(name: str, task: Task[..., Any]) -> tuple[str, ...]:
    parameters = ", ".join(map(str, task.signature.parameters.values()))
    options = ", ".join(f"{option}={_plain(value)!r}" for option, value in task.options.items())
    return name, task.path, parameters, options, _about(task)


def _as_json(name: str, task: Task[..., Any]) -> dict[str, Any]:
    return {
        "name": name,
        "func": task.path,
        "parameters": [_parameter(parameter) for parameter in task.signature.parameters.values()],
        "options": {option: _plain(value) for option, value in task.options.items()},
        "about": _about(task),
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    told: dict[str, Any] = {"name": parameter.name, "type": parameter.type_text}
    is_required = parameter.default is NO_DEFAULT
    return {**told, "required": is_required, "default": None if is_required else _plain(parameter.default)}


def _about(task: Task[..., Any]) -> str:
    """The first line of the docstring."""
    return (inspect.getdoc(task) or "").partition("\n")[0]


def _plain(value: Any) -> Any:
    """*value* as JSON has it; a function as its path, and as a text what is none of JSON's."""
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return str(value)
