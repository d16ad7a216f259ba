"""Mutants of a text (tools/mutants)."""

from __future__ import annotations

import pytest

from tools.mutants import of_lua, of_python
from tools.mutants.change import mutants

PYTHON = [
    ("a = b <= c\n", {"a = b < c", "a = b > c"}),
    ("a = b is not c\n", {"a = b is c"}),
    ("a = (b) not in (c)\n", {"a = (b) in (c)"}),
    ("a = b and not c\n", {"a = b or not c", "a = b and c"}),
    ("a = -b + c\n", {"a = b + c", "a = -b - c"}),
    ("a = 'text' + b\n", set()),
    ("a: int = b[3]\n", {"a: int = b[4]", "a: int = b[2]"}),
    ("PAGE = 3\n", {"PAGE = 6"}),
    ("a = zip(b, c, strict=True)\n", set()),
    ("a = min(b, True)\n", {"a = max(b, True)", "a = min(b, False)"}),
    ("if a:\n    b()\n", {"if (not (a)):", "pass"}),
    ("def f():\n    if a < b:\n        return c\n    return d\n", {"if a <= b:", "if a >= b:", "pass"}),
    ("def f():\n    '''Text.'''\n    a = b  # 3 < 4\n", set()),
    ("a = 'ä', b == c\n", {"a = 'ä', b != c"}),
]
LUA = [
    ("local a = b ~= c -- d == e\n", {"local a = b == c -- d == e"}),
    ("a = b < -1\n", {"a = b <= -1", "a = b >= -1", "a = b < 1", "a = b < -2", "a = b < -0", ""}),
    ("local a = not b or 'c and d'\n", {"local a = b or 'c and d'", "local a = not b and 'c and d'"}),
    ("local a = KEYS[1]\n", set()),
    ("local PAGE = 3\n", {"local PAGE = 6"}),
    ("local a = string.find(b, 'c', 1, true)\n", set()),
    ("if a then\n  b(\n    c)\nend\n", {"if not a then", ""}),
    ("if a then return end\n", {"if not a then return end", ""}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PYTHON, ids=[text for text, _ in PYTHON])
def test_a_python_text_has_the_expected_mutants(text: str, expected: set[str]) -> None:
    found = mutants("a.py", text.encode(), of_python.changes(text.encode()))

    assert expected == {mutant.mutated for mutant in found}
    for mutant in found:
        compile(mutant.text, "mutant", "exec")


@pytest.mark.parametrize(("text", "expected"), LUA, ids=[text for text, _ in LUA])
def test_a_lua_text_has_the_expected_mutants(text: str, expected: set[str]) -> None:
    found = mutants("a.lua", text.encode(), of_lua.changes(text.encode()))

    assert expected == {mutant.mutated for mutant in found}
