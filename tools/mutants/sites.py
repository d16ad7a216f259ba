"""
The statements of a Python text as sites, and bytecode that notes each site that is executed.

Only statements of functions are sites: every import executes those of modules and classes. The key of a site has no
line number, so a recording stays true for functions that have not changed since. A Lua file is one site.

coverage.py is not used: a process that is killed writes no data (most daemons of the tests are), contexts of child
processes are not those of the tests, and its tracer doubles the time. Here a site costs one byte in a shared file.
"""

import ast
import importlib.util
import marshal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

SCRIPTS = "zsched/storage/scripts.py"  # loads the Lua files
_UNCHECKED = (1).to_bytes(4, "little")  # flags of a .pyc: Python takes it whatever the source says
_IMPORT, _NOTE = "from tools.mutants import hits as __hits__", "__hits__.seen[{}] = 1"
_OF_LUA = "load, source = __hits__.noting(load, source)"


@dataclass(frozen=True, slots=True)
class Site:
    """A statement of a function: its lines, with those of its body, and its key."""

    first: int
    last: int
    key: str


def lua_key(file: str) -> str:
    """Return the key of a Lua file."""
    return f"{file}||"


def function_of(key: str) -> str:
    """Return the beginning of the keys of the same function."""
    return key[: key.index("|", key.index("|") + 1) + 1]


def sites(file: str, text: str) -> list[Site]:
    """Return the sites of a text."""
    return [site for site, _, _ in _walk(file, text, ast.parse(text))]


def innermost(file: str, text: str, line: int) -> Site | None:
    """Return the smallest statement with *line*; None if no function has it."""
    around = [site for site in sites(file, text) if site.first <= line <= site.last]
    return min(around, key=lambda site: site.last - site.first, default=None)


def plant(tree: Path, file: str, number: Callable[[str], int]) -> None:
    """Give *file* in *tree* bytecode that notes its sites; *number* returns the number of a key."""
    path = tree / file
    text = path.read_text()
    module = ast.parse(text)
    found = list(_walk(file, text, module))
    for site, body, statement in found:
        body.insert(body.index(statement), _parsed(_NOTE.format(number(site.key)), statement))
    top = list(takewhile(lambda node: _is_docstring(node) or _is_future(node), module.body))
    rest = module.body[len(top) :]
    if file == SCRIPTS:
        [at] = [at for at, node in enumerate(rest) if isinstance(node, ast.FunctionDef) and node.name == "source"]
        rest.insert(at + 1, _parsed(_OF_LUA, rest[at]))
    module.body = [*top, _parsed(_IMPORT), *rest]
    code = marshal.dumps(compile(module, str(path), "exec", dont_inherit=True))
    cached = Path(importlib.util.cache_from_source(str(path)))
    cached.parent.mkdir(exist_ok=True)
    cached.write_bytes(importlib.util.MAGIC_NUMBER + _UNCHECKED + bytes(8) + code)


def _walk(file: str, text: str, module: ast.Module) -> Iterator[tuple[Site, list[ast.stmt], ast.stmt]]:
    """Yield each site with the list that it is in, and its statement."""
    lines, known = text.splitlines(), Counter[str]()

    def of(node: ast.AST, names: tuple[str, ...], is_inside: bool) -> Iterator[tuple[Site, list[ast.stmt], ast.stmt]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names, is_inside = (*names, node.name), is_inside or not isinstance(node, ast.ClassDef)
        for _, body in ast.iter_fields(node):
            for child in list(body) if isinstance(body, list) else ():
                if isinstance(child, ast.stmt) and is_inside and not _is_docstring(child):
                    key = f"{file}|{'.'.join(names)}|{' '.join(lines[child.lineno - 1].split())}"
                    known[key] += 1
                    key += f"#{known[key]}" if known[key] > 1 else ""
                    yield Site(child.lineno, child.end_lineno or child.lineno, key), body, child
                if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                    yield from of(child, names, is_inside)

    yield from of(module, (), False)


def _parsed(text: str, place: ast.stmt | None = None) -> ast.stmt:
    [statement] = ast.parse(text).body
    for node in ast.walk(statement):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = place.lineno if place else 1
            node.col_offset = node.end_col_offset = place.col_offset if place else 0
    return statement


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
