"""
Functions named by dotted paths: import their modules, and report missing modules. Also ``zsched tasks``, which lists
the tasks of a module.

Importing a module runs it, so ``client.put_checks`` comes first.
"""

import contextlib
import inspect
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, Final

import click

from zsched.cli.output import Table, jsonable, say
from zsched.cli.program import Invocation, command
from zsched.errors import NOT_GIVEN
from zsched.tasks.importing import Forbidden
from zsched.tasks.lookup import tasks_of
from zsched.tasks.signature import NO_DEFAULT
from zsched.tasks.task import Task

_SHOWN: Final = 10  # function paths in a remark


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """
    Import modules from the current folder too, as ``rq worker`` does, and keep their output out of the results.
    Installed modules come first, so a module of this folder cannot replace one.

    For root, modules of a folder that other users may write to are Forbidden, unless ``sys.path`` already contains that
    folder. Subfolders are not checked.
    """
    here = os.getcwd()
    with contextlib.ExitStack() as after, contextlib.redirect_stdout(sys.stderr):
        if here not in sys.path:
            if os.geteuid() != 0 or is_roots_alone(os.stat(here)):
                sys.path.append(here)
            else:
                refusal = _Refusal(here)
                sys.meta_path.append(refusal)
                after.callback(sys.meta_path.remove, refusal)
        yield


def is_roots_alone(folder: os.stat_result) -> bool:
    """Return True if only root may put files into *folder*."""
    return folder.st_uid == 0 and not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class _Refusal:
    """The last import finder; it refuses the modules of *folder*."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None = None, *_: object) -> ModuleSpec | None:
        if path is None and PathFinder.find_spec(name, [self._folder]) is not None:
            problem = f"others may write to {self._folder}, and root would run their code"
            remedy = f"run this as the user of your workers, or trust that folder by PYTHONPATH={self._folder}"
            raise Forbidden(name, "", NOT_GIVEN, problem, remedy)
        return None


def tell_unchecked(absent: Mapping[str, str], consequence: str = "") -> None:
    """List on stderr the function paths that could not be checked. *absent* maps each path to its missing module."""
    if not absent:
        return
    shown = [f"{path} (no module {module!r})" for path, module in list(absent.items())[:_SHOWN]]
    more = [f"and {len(absent) - _SHOWN:,} more"] if len(absent) > _SHOWN else []
    lead = "not checked, and options of tasks not used, as they cannot be imported from here"
    say(f"{lead}: {', '.join(shown + more)}" + (f"; {consequence}" if consequence else ""))


# -- zsched tasks -----------------------------------------------------------------------------------


_HEADER: Final = ("NAME", "FUNC", "PARAMETERS", "OPTIONS", "ABOUT")


@command()
@click.argument("module")
def tasks(invocation: Invocation, /, module: str) -> None:
    """
    List the tasks of MODULE, a dotted name in this folder or Python's path, with their parameters and schedule options.

    \b
    Examples:
      zsched tasks app.tasks
      zsched tasks app.tasks --json | jq -r '.[].func'
    """
    with importing():
        found = tasks_of(module)
    shown = [(_as_json(name, task), task.signature.parameters.values()) for name, task in found.items()]
    rows = (_row(value, parameters) for value, parameters in shown)
    invocation.answer((value for value, _ in shown), Table(_HEADER, rows, nothing=f"{module} has no task"))


def _row(value: Mapping[str, Any], parameters: Iterable[inspect.Parameter]) -> tuple[str, ...]:
    options = ", ".join(f"{option}={given!r}" for option, given in value["options"].items())
    return value["name"], value["func"], ", ".join(map(str, parameters)), options, value["about"]


def _as_json(name: str, task: Task[..., Any]) -> dict[str, Any]:
    return {
        "name": name,
        "func": task.path,
        "parameters": [_parameter(parameter) for parameter in task.signature.parameters.values()],
        "options": {option: _plain(value) for option, value in task.options.items()},
        "about": (inspect.getdoc(task) or "").partition("\n")[0],
    }


def _parameter(parameter: inspect.Parameter) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": parameter.name, "type": inspect.formatannotation(parameter.annotation)}
    is_required = parameter.default is NO_DEFAULT
    return {**shown, "required": is_required, "default": None if is_required else _plain(parameter.default)}


def _plain(value: Any) -> Any:
    """Convert *value* to JSON: a function to its path, any other unknown type to text."""
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return jsonable(value)
