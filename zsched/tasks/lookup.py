"""
Tasks by name: find the task of a function path, and the tasks of a module.

Commands and files name functions by their paths. They may run on a machine without the workers' code. Then a path is
accepted unchecked, its payload too, and the caller can report that. A path into a module that is here and does not have
the name is a mistake.
"""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

from zsched.core.wording import nearest, some
from zsched.errors import NOT_GIVEN, InvalidSchedule, InvalidTask, NotImportable
from zsched.tasks import importing
from zsched.tasks.importing import Absent, Missing
from zsched.tasks.task import Task

_LISTED: Final = 10  # names in a message


class Lookup:
    """
    The function paths of one command. ``absent``: the paths that could not be checked, each with its missing module.
    """

    def __init__(self) -> None:
        self.absent: dict[str, str] = {}

    def find(self, path: str) -> Task[..., Any] | None:
        """
        Return the task at the function path *path*; None if it is not a task, or if its module is not here.

        Raises:
            InvalidTask: importing its module raises. NotImportable: the module has no such name.
        """
        names = path.split(".")
        if len(names) < 2 or names[0] == "__main__" or not all(map(str.isidentifier, names)):
            return None  # not a function path; the client refuses it
        found = importing.found_at(path)
        if isinstance(found, Missing):
            raise _missing(path, found)
        if isinstance(found, Absent):
            self.absent[path] = found.module
        return found if isinstance(found, Task) else None

    def options_for(self, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return *options* of ``client.schedule`` for the function *path*. For a task they are checked, and completed by
        the task's options. This imports the module, so check first that the path is allowed.

        Raises:
            InvalidSchedule: the payload does not fit. Others as ``find``.
        """
        task = self.find(path)
        return dict(options) if task is None else task.complete_options(options)

    def options_beside(self, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """
        Complete the options as ``options_for``, but with an unchecked payload and without its id. Raises as ``find``.
        """
        task = self.find(path)
        return dict(options) if task is None else task.options_beside(options)

    def mistakes(self, path: str, options: Mapping[str, Any]) -> Iterator[InvalidSchedule]:
        """Yield all mistakes in the payload in *options* for the function *path*. Raises as ``find``."""
        if (task := self.find(path)) is not None:
            yield from task.mistakes(options.get("args"), options.get("kwargs"))


def tasks_of(module_name: str) -> dict[str, Task[..., Any]]:
    """
    Return the tasks at the top level of a module, by name, in the order of its text.

    Raises:
        InvalidTask: there is no such module here, or importing it raises.
    """
    if (module := importing.imported(module_name)) is None:
        remedy = "give the dotted name of a module that Python finds from this folder"
        raise InvalidTask(module_name, "", NOT_GIVEN, "there is no such module here", remedy)
    return {name: value for name, value in vars(module).items() if isinstance(value, Task)}


def _missing(path: str, missing: Missing) -> NotImportable:
    """Return the error for a name that its module does not have, with similar names."""
    there = vars(missing.owner) if hasattr(missing.owner, "__dict__") else {}
    tasks = [name for name, value in there.items() if isinstance(value, Task)]
    functions = [name for name, value in there.items() if inspect.isroutine(value) and not name.startswith("_")]
    near = nearest(missing.name, tasks + functions)
    remedy = f"did you mean {near}?" if near else _choice("tasks", tasks) or _choice("functions", functions)
    problem = f"there is no {missing.name} in {missing.path}"
    return NotImportable("func", path, problem, remedy or "give a function that a worker can import")


def _choice(noun: str, names: list[str]) -> str:
    """Return a remedy with the existing *names*; "" if there are none."""
    return f"its {noun} are {some(names, _LISTED)}" if names else ""
