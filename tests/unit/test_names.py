"""
A name says one thing: grep finds the one class, or the one function, that a text talks of.

Public classes, and public functions at the top of a module, are counted over all of ``zsched``. Methods are not: their
class tells them apart. Nor are the functions behind commands, which have the names that people type.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "zsched"

# Still names of two things. Take a name out when one of the two has another one; put none in.
CLASSES_NOT_YET = frozenset("Fired Fold Found Known Line Look Record Recovery Replanned Row Verdict What".split())
FUNCTIONS_NOT_YET = frozenset("checksum connect due_of lines look_at_files reading row_of shown unknown".split())


def modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        name = str(file.relative_to(PACKAGE))
        if not name.startswith("bench/"):  # measurements, which are no part of what is installed
            yield name, ast.parse(file.read_text())


def is_command(node: ast.FunctionDef) -> bool:
    return any("command(" in ast.unparse(each) or "group(" in ast.unparse(each) for each in node.decorator_list)


def homonyms(classes: bool, trees: Iterator[tuple[str, ast.Module]]) -> dict[str, list[str]]:
    """Return each public name that more than one module defines, with these modules."""
    places: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees:
        for node in tree.body:
            if (
                isinstance(node, ast.ClassDef)
                if classes
                else isinstance(node, ast.FunctionDef) and not is_command(node)
            ):
                places[node.name].add(name)  # type: ignore[attr-defined]  # both have names
    return {name: sorted(found) for name, found in places.items() if len(found) > 1 and not name.startswith("_")}


def test_a_class_name_is_defined_once() -> None:
    found = homonyms(True, modules())

    assert {} == {name: places for name, places in found.items() if name not in CLASSES_NOT_YET}


def test_a_public_function_name_is_defined_once() -> None:
    found = homonyms(False, modules())

    assert {} == {name: places for name, places in found.items() if name not in FUNCTIONS_NOT_YET}


def test_a_name_in_two_modules_is_seen() -> None:
    first = ("a.py", ast.parse("class Run: ...\ndef show(): ...\ndef _own(): ..."))
    second = ("b.py", ast.parse("class Run: ...\n@click.command()\ndef show(): ...\ndef _own(): ..."))

    assert {"Run": ["a.py", "b.py"]} == homonyms(True, iter([first, second]))
    assert {} == homonyms(False, iter([first, second]))
