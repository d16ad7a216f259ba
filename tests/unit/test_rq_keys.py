"""RQ's keys have one home in Python and one in Lua, which agree."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import zsched
from zsched.storage import rqkeys
from zsched.storage.rqkeys import RqKeys

PACKAGE = Path(zsched.__file__).parent
LITERAL = re.compile(r"(?<![\w-])rq:|:(dependents|dependencies)\b")


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts of *tree* that are no docstrings."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in said and isinstance(node.value, str | bytes):
            yield node.value if isinstance(node.value, str) else node.value.decode(errors="replace")


def test_no_other_file_of_the_package_has_one_of_rqs_keys() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if any(map(LITERAL.search, texts(ast.parse(file.read_bytes()))))]

    assert [Path(inspect.getfile(rqkeys))] == files


def test_lua_has_the_same_keys_as_python() -> None:
    library = (PACKAGE / "lua" / "lib" / "rq.lua").read_text()
    in_python = inspect.getsource(rqkeys)

    kinds = re.findall(r"^local RQ_[A-Z]+ = '\{rq\}:([a-z-]+):'$", library, re.MULTILINE)

    assert len(kinds) == len(re.findall(r"^local RQ_", library, re.MULTILINE))
    assert {"execution"} == {kind for kind in kinds if f'"{kind}"' not in in_python}  # which scripts alone look at


@pytest.mark.parametrize("name", ["a", b"a", "a:b", b"\xff"])
def test_a_queue_is_named_as_its_key_was_made(name: str | bytes) -> None:
    rq = RqKeys("{app}:rq")

    assert name == rq.queue_name(rq.queue(name))
    assert isinstance(rq.job(name), type(name))
