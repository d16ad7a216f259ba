"""
The tests that may notice a mutant, the likeliest and cheapest first.

A change in a function concerns the tests that execute its statement; a change of a script those that call the script.
What stands in a module or class (a constant, a default, a field) concerns the tests that execute a statement with its
name.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tools.mutants.change import Mutant
from tools.mutants.covered import Known, Recording
from tools.mutants.sites import Site, innermost, lua_key, sites

_SINGLY = 60  # the first tests run in any order; the others file by file, because tests of a file share fixtures
_NEAR, _OF_LUA = 10, 4  # a test of the same name is worth so much; and of a script, one of tests/lua
_LEARNED = 5


class Witnesses:
    """The tests of a recording; ``note`` tells which one killed a mutant, and moves it forward for its file."""

    def __init__(self, recording: Recording, is_chosen: Callable[[str, float], bool]) -> None:
        self._recording, self._is_chosen = recording, is_chosen
        self._kills: Counter[tuple[str, str]] = Counter()

    def note(self, file: str, test: str) -> None:
        """Count a kill of a mutant of *file* by *test*."""
        self._kills[file, test] += 1

    def of(self, mutant: Mutant) -> list[Known]:
        """Return the tests of *mutant* in the order in which they run."""
        concerned = keys(mutant)
        found = {test for key in concerned for test in self._recording.covering(key)}
        rarity = self._recording.rarity(concerned[0]) if len(concerned) == 1 else {}
        ordered = sorted(
            (test for test in found if self._is_chosen(test.id, test.cpu_s)),
            key=lambda test: (self._price(mutant, test) * rarity.get(test.id, 1), test.id),
        )
        first, rest = ordered[:_SINGLY], ordered[_SINGLY:]
        files = {file: at for at, file in reversed(list(enumerate(test.id.partition("::")[0] for test in rest)))}
        return [*first, *sorted(rest, key=lambda test: files[test.id.partition("::")[0]])]

    def _price(self, mutant: Mutant, test: Known) -> float:
        """
        Return the CPU seconds of *test*, weighed by the unlikelihood that it kills. A broad test checks little. ``of``
        prefers one that goes a rare way through the function.
        """
        path, name = Path(mutant.file), Path(test.id.partition("::")[0])
        is_near = name.stem.startswith(f"test_{path.stem}") or name.parent.name == path.stem
        is_of_lua = path.suffix == ".lua" and name.is_relative_to("tests/lua")
        worth = (
            (_NEAR if is_near else 1)
            * (_OF_LUA if is_of_lua else 1)
            * (1 + _LEARNED * self._kills[mutant.file, test.id])
        )
        return (test.cpu_s + 0.01) * (test.breadth + 20) / worth


def keys(mutant: Mutant) -> list[str]:
    """Return the keys of the sites that a mutant concerns."""
    if mutant.file.endswith(".lua"):
        return [lua_key(mutant.file)]
    text = Path(mutant.file).read_text()
    site = innermost(mutant.file, text, mutant.number)
    if site is not None:
        return [site.key]
    name = _name_at(ast.parse(text), mutant.number)
    return list(dict.fromkeys(_naming(name))) if name else [site.key for site in sites(mutant.file, text)]


def _name_at(node: ast.AST, line: int) -> str | None:
    """Return the name that the statement with *line*, of a module or class, gives to something."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt) or not child.lineno <= line <= (child.end_lineno or child.lineno):
            continue
        match child:
            case ast.ClassDef() | ast.If() | ast.Try() | ast.With() | ast.For():
                return _name_at(child, line) or getattr(child, "name", None)
            case ast.FunctionDef(name="__init__") if isinstance(node, ast.ClassDef):
                return node.name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                return name
            case ast.Assign(targets=[ast.Name(id=name), *_]):
                return name
    return None


def _naming(name: str) -> Iterator[str]:
    word = re.compile(rf"\b{re.escape(name)}\b")
    for lines, there in _sources():
        for number, line in enumerate(lines, start=1):
            if word.search(line):
                around = [site for site in there if site.first <= number <= site.last]
                if around:
                    yield min(around, key=lambda site: site.last - site.first).key


@cache
def _sources() -> list[tuple[list[str], list[Site]]]:
    found = ((str(path), path.read_text()) for path in sorted(Path("zsched").rglob("*.py")))
    return [(text.splitlines(), sites(file, text)) for file, text in found]
