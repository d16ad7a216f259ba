"""
Modules and functions by name, imported only where they can be found, as a worker would: from ``sys.path``.

Whether a module is there is asked first: a client need not have the workers' code, and then nothing is imported. Three
things may become of a path, therefore: what it names is found, its module is not here, or the module is here and has
nothing of that name, which no worker would find either.

Not guaranteed: that a worker has the same module. A package may have more modules there; a module that is here is
taken for the one that is there.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from zsched.errors import NOT_GIVEN, InvalidTask


class Forbidden(InvalidTask):
    """An importer refuses the module because of where it is; nothing of it ran."""


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no *module* here: the first of a path's that cannot be found."""

    module: str


@dataclass(frozen=True, slots=True)
class Missing:
    """*owner*, a module or a class that is here, of the dotted name *path*, has no *name*."""

    owner: Any
    path: str
    name: str


def imported(name: str) -> ModuleType | None:
    """
    The module *name*; None where there is none of that name.

    Raises:
        InvalidTask: it is there, and its import raises.
    """
    if not all(map(str.isidentifier, name.split("."))):
        return None
    if (loaded := sys.modules.get(name)) is not None:
        return loaded
    try:
        if importlib.util.find_spec(name) is None:  # imports the packages that it is in
            return None
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise _broken(name, error) from error  # something that a package of it needs
    except Forbidden:
        raise
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error
    try:
        return importlib.import_module(name)
    except Forbidden:
        raise
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def found_at(path: str) -> Any:
    """
    Find the object at the dotted *path*, in a module or in a class there; else an ``Absent`` or a ``Missing``.

    Raises:
        InvalidTask: a module of it is there, and its import raises.
    """
    names = path.split(".")
    module, depth = None, 0
    for end in range(1, len(names)):  # the last name is the function's
        deeper = imported(".".join(names[:end]))
        if deeper is None:
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


def named(path: str) -> Any:
    """Return the object at the dotted *path*; None where there is nothing. Raises InvalidTask."""
    found = found_at(path)
    return None if isinstance(found, Absent | Missing) else found


def _broken(name: str, error: BaseException) -> InvalidTask:
    problem = f"importing it here raises {type(error).__name__}: {error}"
    return InvalidTask(name, "", NOT_GIVEN, problem, "repair the module, or run this where its workers run")
