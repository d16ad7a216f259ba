"""
Tasks by name: which one a function path means, and which a module has.

For commands and files, which name functions by their paths. They may run where the workers' code is not: then a path
is taken as it is, and its payload is the worker's to find wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zsched.errors import InvalidTask
from zsched.tasks import importing
from zsched.tasks.task import Task


def find(path: str) -> Task[..., Any] | None:
    """
    The task that the function path *path* names; None when it names none, or cannot be imported here.

    Raises:
        InvalidTask: importing its module raises.
    """
    found = importing.named(path)
    return found if isinstance(found, Task) else None


def options_for(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """
    *options* of ``client.schedule`` for the function *path*: those of a task checked and completed by its own, any
    others as they are. Imports what *path* names, so ask who may name it first.

    Raises:
        InvalidTask: importing its module raises. InvalidSchedule: the payload does not fit.
    """
    task = find(path)
    return dict(options) if task is None else task.complete_options(options)


def tasks_of(module_name: str) -> dict[str, Task[..., Any]]:
    """
    The tasks at the top level of a module, by their names there, in the order of its text.

    Raises:
        InvalidTask: there is no such module here, or importing it raises.
    """
    module = importing.imported(module_name)
    if module is None:
        remedy = "give the dotted name of a module that Python finds from this folder"
        raise InvalidTask(module_name, module_name, "there is no such module here", remedy)
    return {name: value for name, value in vars(module).items() if isinstance(value, Task)}
