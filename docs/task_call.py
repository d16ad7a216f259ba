"""
The stub ``zsched/tasks/task_call.pyi``, made from the table of options.

A TypedDict cannot say that a call takes other keywords, too. So the options and their types are repeated there, for
editors and type checkers only.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zsched.core.options import table as option_table
from zsched.core.options.table import ONLY_ENQUEUE, OPTIONS
from zsched.core.triggers import trigger

_CALLS: Final = '''
P = ParamSpec("P")
T = TypeVar("T")
Result = TypeVar("Result", covariant=True)

class AnyClient(Protocol[Result]):
    """A `Client`, or an `AsyncClient` whose calls are awaited."""

    @property
    def schedule(self) -> Callable[..., Result]: ...

class ClientCall(Protocol[P]):
    """A call that takes a client before the options: its result is that of the client's own call."""

    def __call__(self, client: AnyClient[T], /, *args: P.args, **options: P.kwargs) -> T: ...

def options(
    *,
    OPTIONS,
    **payload: Any,
) -> None:
    """Take options and a payload, as each call of a task does."""'''
_USED: Final = ("Any", "Callable", "ParamSpec", "Protocol", "TypeVar")
_LEFT_TO_TASKS: Final = ("args", "kwargs", "name")  # a task's payload, and a usual name of a parameter


def task_call() -> Iterator[str]:
    """Yield the lines of the stub."""
    modules = [ast.parse(Path(module.__file__ or "").read_text()) for module in (trigger, option_table)]
    nodes = [node for module in modules for node in ast.walk(module)]
    types = {ast.unparse(node.target): _type_of(node.annotation) for node in nodes if isinstance(node, ast.AnnAssign)}
    names = [name for name in OPTIONS | ONLY_ENQUEUE if name not in _LEFT_TO_TASKS]
    parameters = "\n".join(f"    {name}: {types[name]} = ...," for name in names)
    yield '"""Calls that take options beside a payload; `make pages` writes them from the table of options."""\n'
    yield from _imports(nodes, {*_USED, *re.findall(r"\w+", parameters)})
    yield _CALLS.replace("    OPTIONS,", parameters)


def _type_of(annotation: ast.expr) -> str:
    """Return the type of an entry of the table, as its source has it."""
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        return ast.unparse(annotation.slice.elts[0])
    return ast.unparse(annotation)


def _imports(nodes: list[ast.AST], used: set[str]) -> Iterator[str]:
    """Yield the imports of the *used* names, sorted; *nodes*: with the imports of the table's modules."""
    found = defaultdict[str, set[str]](set)
    found["typing"] |= used & {"ParamSpec", "Protocol", "TypeVar"}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found[node.module] |= used & {each.name for each in node.names}
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(found.items()) if names]
    yield from (line for line in lines if "zsched" not in line)
    yield ""
    yield from (line for line in lines if "zsched" in line)
