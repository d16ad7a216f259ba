"""
Tasks by name: which one a function path means, and which a module has.

For commands and files, which name functions by their paths. They may run where the workers' code is not: then a path
is taken as it is, its payload is the worker's to find wrong, and who asked can tell so. A path into a module that is
here, and has nothing of that name, is a mistake.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

from zsched.errors import NOT_GIVEN, InvalidSchedule, InvalidTask, NotImportable
from zsched.tasks import importing
from zsched.tasks.importing import Absent, Missing
from zsched.tasks.task import Task

_LISTED: Final = 10  # names in a message


class Lookup:
    """
    The function paths of one command. ``absent`` are those that could not be looked at, each with the module that is
    not here.
    """

    def __init__(self) -> None:
        self.absent: dict[str, str] = {}

    def find(self, path: str) -> Task[..., Any] | None:
        """
        The task that the function path *path* names; None when it names none, or its module is not here.

        Raises:
            InvalidTask: importing its module raises. NotImportable: the module has nothing of that name.
        """
        names = path.split(".")
        if len(names) < 2 or names[0] == "__main__" or not all(map(str.isidentifier, names)):
            return None  # no function path; the client refuses it
        found = importing.found_at(path)
        if isinstance(found, Missing):
            raise _missing(path, found)
        if isinstance(found, Absent):
            self.absent[path] = found.module
        return found if isinstance(found, Task) else None

    def options_for(self, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """
        *options* of ``client.schedule`` for the function *path*: those of a task checked and completed by its own, any
        others as they are. Imports what *path* names, so ask who may name it first.

        Raises:
            InvalidSchedule: the payload does not fit. And as ``find``.
        """
        task = self.find(path)
        return dict(options) if task is None else task.complete_options(options)

    def options_beside(self, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """
        Complete the options as ``options_for``, but of any payload, and without an id made of it. Raises as ``find``.
        """
        task = self.find(path)
        return dict(options) if task is None else task.options_beside(options)

    def mistakes(self, path: str, options: Mapping[str, Any]) -> Iterator[InvalidSchedule]:
        """All that is wrong with the payload in *options* for the function *path*. Raises as ``find``."""
        task = self.find(path)
        if task is not None:
            yield from task.mistakes(options.get("args"), options.get("kwargs"))


def tasks_of(module_name: str) -> dict[str, Task[..., Any]]:
    """
    The tasks at the top level of a module, by their names there, in the order of its text.

    Raises:
        InvalidTask: there is no such module here, or importing it raises.
    """
    module = importing.imported(module_name)
    if module is None:
        remedy = "give the dotted name of a module that Python finds from this folder"
        raise InvalidTask(module_name, "", NOT_GIVEN, "there is no such module here", remedy)
    return {name: value for name, value in vars(module).items() if isinstance(value, Task)}


def _missing(path: str, missing: Missing) -> NotImportable:
    """The mistake of a path whose module has nothing of that name, with what it may be a slip of."""
    there = vars(missing.owner) if hasattr(missing.owner, "__dict__") else {}
    tasks = [name for name, value in there.items() if isinstance(value, Task)]
    functions = [name for name, value in there.items() if inspect.isroutine(value) and not name.startswith("_")]
    near = difflib.get_close_matches(missing.name, tasks + functions, 1, 0.6)
    remedy = f"did you mean {near[0]}?" if near else _choice("tasks", tasks) or _choice("functions", functions)
    problem = f"there is no {missing.name} in {missing.path}"
    return NotImportable("func", path, problem, remedy or "give a function that a worker can import")


def _choice(noun: str, names: list[str]) -> str:
    """Name what there is instead; "" for nothing."""
    more = ", …" if len(names) > _LISTED else ""
    return f"its {noun} are {', '.join(names[:_LISTED])}{more}" if names else ""
