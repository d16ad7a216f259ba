"""
Unique names: grep finds the one class, or the one function, that a text names.

Classes and type aliases, private ones too, and public functions at the top of a module are counted over all of
``zsched``. Methods are not counted: their class distinguishes them. Nor are the functions behind commands, which have
the names that people type.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from tests.sources import PACKAGE, Source, sources

CLASS = re.compile(r"_?[A-Z]+[a-z]\w*")


def class_names(node: ast.stmt) -> Iterator[str]:
    """Yield the class or type alias that *node* defines."""
    if isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (each.id for each in targets if isinstance(each, ast.Name) and CLASS.fullmatch(each.id))


def function_names(node: ast.stmt) -> Iterator[str]:
    """Yield the public function that *node* defines, unless it is a command."""
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not is_command(node):
        yield node.name


def is_command(node: ast.FunctionDef) -> bool:
    return any("command(" in ast.unparse(each) or "group(" in ast.unparse(each) for each in node.decorator_list)


def homonyms(names_of: Callable[[ast.stmt], Iterable[str]], modules: dict[str, Source]) -> dict[str, list[str]]:
    """Return each name that more than one module defines, with these modules."""
    places: dict[str, set[str]] = defaultdict(set)
    for module, source in modules.items():
        for node in source.tree.body:
            for name in names_of(node):
                places[name].add(module)
    return {name: sorted(found) for name, found in places.items() if len(found) > 1}


def test_a_class_name_is_defined_once() -> None:
    assert {} == homonyms(class_names, sources(PACKAGE.rglob("*.py")))


def test_a_public_function_name_is_defined_once() -> None:
    assert {} == homonyms(function_names, sources(PACKAGE.rglob("*.py")))


def test_a_name_in_two_modules_is_detected() -> None:
    functions = "def show(): ...\ndef _own(): ..."
    first = Source(f"class Run: ...\nclass _Own: ...\nRow = tuple[str, int]\n{functions}")
    second = Source(f"class Run: ...\nclass Row: ...\n_Own: TypeAlias = str\n{functions}")
    both = ["a.py", "b.py"]

    assert {"Run": both, "_Own": both, "Row": both} == homonyms(class_names, {"a.py": first, "b.py": second})
    assert {"show": both} == homonyms(function_names, {"a.py": first, "b.py": second})


def test_a_function_behind_a_command_may_have_the_name_of_another() -> None:
    function, command = Source("def show(): ..."), Source("@click.command()\ndef show(): ...")

    assert {} == homonyms(function_names, {"a.py": function, "b.py": command})
