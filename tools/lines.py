"""
Count the lines of code of the installed package: ``python -m tools.lines [FOLDER]``, or ``make lines``.

A line of code is neither blank nor all comment nor part of a docstring. Python is read by its own parser and tokenizer,
Lua by its two kinds of comments. ``pyproject.toml`` has the ceiling of their sum, which ``make lint`` holds: a change
that needs more raises it, and says why.
"""

import ast
import re
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "zsched"

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}
# A comment or a string, so that neither is looked for inside the other; long brackets of level 0 are all that is used.
_LUA = re.compile(
    r"""
    (?P<comment> --\[\[ .*? \]\] | --[^\n]* )
    | \[\[ .*? \]\] | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    """,
    re.DOTALL | re.VERBOSE,
)


def python_code(source: str) -> int:
    """Count the lines of code of a Python file."""
    lines = source.splitlines()
    found: set[int] = set()
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type not in _NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    for first, last in _docstrings(ast.parse(source)):
        found.difference_update(range(first, last + 1))
    return sum(1 for number in found if lines[number - 1].strip())


def lua_code(source: str) -> int:
    """Count the lines of code of a Lua file."""
    without = _LUA.sub(lambda one: "\n" * one[0].count("\n") if one["comment"] else one[0], source)
    return sum(1 for line in without.splitlines() if line.strip())


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body[:1]:
                case [ast.Expr(value=ast.Constant(value=str())) as text]:
                    yield text.lineno, text.end_lineno or text.lineno


def count(package: Path) -> dict[str, Counter[str]]:
    """Count *package*: its folders by name, and "." for the files beside them."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for suffix, code in ((".py", python_code), (".pyi", python_code), (".lua", lua_code)):
        for file in sorted(package.rglob(f"*{suffix}")):
            source = file.read_text()
            part = file.relative_to(package).parts
            counts[part[0] if len(part) > 1 else "."].update(files=1, lines=len(source.splitlines()), code=code(source))
    return dict(counts)


def table(counts: dict[str, Counter[str]]) -> str:
    """Write *counts* as a table, the largest first, and their sum."""
    rows = sorted(counts.items(), key=lambda row: -row[1]["code"])
    rows.append(("total", sum(counts.values(), Counter())))
    text = [f"{'package':12}{'files':>7}{'lines':>9}{'code':>9}"]
    text += [f"{name:12}{found['files']:7,}{found['lines']:9,}{found['code']:9,}" for name, found in rows]
    return "\n".join(text) + "\n"


def excess(counts: dict[str, Counter[str]], pyproject: str) -> int:
    """Return by how many lines of code *counts* are above the ceiling that the text *pyproject* has."""
    ceiling = int(tomllib.loads(pyproject)["tool"]["lines"]["ceiling"])
    return max(0, sum(found["code"] for found in counts.values()) - ceiling)


def main() -> int:
    """Print by how much the package is above its ceiling, as a lint rule."""
    if found := excess(count(PACKAGE), (PROJECT / "pyproject.toml").read_text()):
        sys.stdout.write(
            f"zsched: {found:,} lines of code above the ceiling: remove as many, or raise [tool.lines] ceiling in "
            "pyproject.toml, and say in the commit why\n"
        )
    return int(bool(found))


if __name__ == "__main__":
    sys.stdout.write(table(count(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE)))
