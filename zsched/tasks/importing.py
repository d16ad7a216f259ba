"""
Modules by name, imported only where they can be found, as a worker would: from ``sys.path``.

Whether a module is there is asked first: a client need not have the workers' code, and then nothing is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

from zsched.errors import InvalidTask


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
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def named(path: str) -> Any:
    """What stands under the dotted *path* of a module's top level; None where there is nothing. Raises InvalidTask."""
    module_name, _, name = path.rpartition(".")
    module = imported(module_name)
    return None if module is None else getattr(module, name, None)


def _broken(name: str, error: BaseException) -> InvalidTask:
    problem = f"importing it here raises {type(error).__name__}: {error}"
    return InvalidTask(name, name, problem, "repair the module, or run this where its workers run")
