"""
Import modules and functions by name, as a worker would, from ``sys.path``; a missing module is not an error.

A client need not have the workers' code. Therefore a path has three outcomes: its object is found; its module is not
installed here; or the module is here and has no such name, so that no worker would find it either.

Not guaranteed: a worker may have another version of the module. A package may have more modules there; a module here
is assumed to be the worker's module.
"""

import importlib
from types import ModuleType
from typing import Any, NamedTuple

from zsched.errors import NOT_GIVEN, InvalidTask


class Forbidden(InvalidTask):
    """An importer refuses the module because of where it is; nothing of it ran."""


class Absent(NamedTuple):
    """The first *module* of a path that cannot be found here."""

    module: str


class Missing(NamedTuple):
    """A missing *name*: *owner*, a module or class with the dotted name *path*, does not have it."""

    owner: Any
    path: str
    name: str


def imported(name: str) -> ModuleType | None:
    """
    Return the module *name*; None if there is no such module.

    Raises:
        InvalidTask: it exists, and its import raises.
    """
    if not all(map(str.isidentifier, name.split("."))):
        return None
    try:
        return importlib.import_module(name)
    except Forbidden:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            return None
        problem = f"importing it here raises {type(error).__name__}: {error}"
        remedy = "repair the module, or run this where its workers run"
        raise InvalidTask(name, "", NOT_GIVEN, problem, remedy) from error


def found_at(path: str) -> Any:
    """
    Find the object at the dotted *path*, in a module or in a class there; else an ``Absent`` or a ``Missing``.

    Raises:
        InvalidTask: a module in the path exists, and its import raises.
    """
    names = path.split(".")
    module, depth = None, 0
    for end in range(1, len(names)):  # the last name is the function's
        if (deeper := imported(".".join(names[:end]))) is None:
            break
        module, depth = deeper, end
    if module is None:
        return Absent(names[0])
    found: Any = module
    for end, name in enumerate(names[depth:], depth):
        if not hasattr(found, name):
            at = ".".join(names[:end])
            is_package = found is module and hasattr(module, "__path__")  # a worker's may have more modules
            return Absent(f"{at}.{name}") if is_package and end < len(names) - 1 else Missing(found, at, name)
        found = getattr(found, name)
    return found
