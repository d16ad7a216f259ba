"""RQ's keys are defined once in Python and once in Lua, with the same values."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.prefix import needs_prefix
from tests.sources import PACKAGE, sources
from zsched.storage import rqkeys
from zsched.storage.rqkeys import RqKeys

LITERAL = re.compile(r"(?<![\w-])rq:|:(dependents|dependencies)\b")


def test_only_rqkeys_py_contains_keys_of_rq() -> None:
    files = {name: source for name, source in sources(PACKAGE.rglob("*.py")).items() if LITERAL.search(source.text)}

    assert ["storage/rqkeys.py"] == [name for name, source in files.items() if any(map(LITERAL.search, source.texts))]


def test_lua_and_python_have_the_same_keys_of_rq() -> None:
    library = (PACKAGE / "lua" / "lib" / "rq.lua").read_text()
    in_python = inspect.getsource(rqkeys)

    kinds = re.findall(r"^local RQ_[A-Z]+ = '\{rq\}:([a-z-]+):'$", library, re.MULTILINE)

    assert len(kinds) == len(re.findall(r"^local RQ_", library, re.MULTILINE))
    assert {"execution"} == {kind for kind in kinds if f'"{kind}"' not in in_python}  # which scripts alone look at


@needs_prefix
@pytest.mark.parametrize("name", ["a", b"a", "a:b", b"\xff"])
def test_the_name_of_a_queue_is_read_back_from_its_key(name: str | bytes) -> None:
    rq = RqKeys("{app}:rq")

    assert name == rq.queue_name(rq.queue(name))
    assert isinstance(rq.job(name), type(name))
