"""Mutants of a text, the code that a fork gets, and the recording of what tests execute (tools/mutants)."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tools.mutants import hits, of_lua, of_python
from tools.mutants.change import mutants
from tools.mutants.covered import Recording
from tools.mutants.sites import SCRIPTS, innermost, plant, sites
from tools.mutants.swap import Unswappable, swap
from tools.mutants.witnesses import keys

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

    assert expected == {mutant.mutated for mutant in found if of_python.compiles(mutant.text)}


@pytest.mark.parametrize(("text", "expected"), LUA, ids=[text for text, _ in LUA])
def test_a_lua_text_has_the_expected_mutants(text: str, expected: set[str]) -> None:
    found = mutants("a.lua", text.encode(), of_lua.changes(text.encode()))

    assert expected == {mutant.mutated for mutant in found if of_lua.compiles(mutant.text)}


SOURCE = '''"""A module."""

from functools import cache

LIMIT = 3


def parse(text, most=LIMIT):
    """Read."""
    if len(text) > most:
        return None
    def inner():
        return text
    return inner


class Reader:
    names = [parse(name) for name in "ab"]

    @property
    def size(self):
        return 1

    @cache
    def read(self):
        return [parse(one)() for one in ("c", "d")]


class Other:
    size = staticmethod(lambda: 2)
'''


def module(name: str, text: str) -> ModuleType:
    made = ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), vars(made))
    return made


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = module("source", SOURCE)
    monkeypatch.setitem(sys.modules, "source", made)
    return made


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        ("> most", ">= most", lambda source: source.parse("abc")),
        ("return text", "return text * 2", lambda source: source.parse("x")()),
        ("return 1", "return 2", lambda source: source.Reader().size),
        ('("c", "d")', '("c",)', lambda source: source.Reader().read()),
        ("lambda: 2", "lambda: 3", lambda source: source.Other.size()),
    ],
    ids=["function", "inner function", "property", "cached method", "lambda"],
)
def test_a_swapped_function_behaves_as_after_an_import_of_the_mutant(
    source: ModuleType, before: str, after: str, seen: Callable[[ModuleType], object]
) -> None:
    mutated = SOURCE.replace(before, after)

    swap("source", SOURCE, mutated)

    assert seen(module("mutated", mutated)) == seen(source)
    assert seen(module("original", SOURCE)) != seen(source)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 3", "LIMIT = 6"),
        ("most=LIMIT", "most=1"),
        ('for name in "ab"', 'for name in "a"'),
        ("@cache\n    ", ""),
    ],
    ids=["constant", "default", "comprehension of a class", "decorator"],
)
def test_a_change_that_an_import_executes_is_not_swapped(source: ModuleType, before: str, after: str) -> None:
    with pytest.raises(Unswappable):
        swap("source", SOURCE, SOURCE.replace(before, after))


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (5, None),
        (10, "a.py|parse|if len(text) > most:"),
        (11, "a.py|parse|return None"),
        (13, "a.py|parse.inner|return text"),
        (18, None),
        (26, 'a.py|Reader.read|return [parse(one)() for one in ("c", "d")]'),
    ],
)
def test_the_site_of_a_line_is_the_innermost_statement_of_a_function(line: int, key: str | None) -> None:
    site = innermost("a.py", SOURCE, line)

    assert key == (site and site.key)


def test_equal_statements_of_a_function_are_different_sites() -> None:
    text = "def f():\n    if a:\n        b()\n    else:\n        b()\n"

    assert ["a.py|f|if a:", "a.py|f|b()", "a.py|f|b()#2"] == [site.key for site in sites("a.py", text)]


def test_planted_bytecode_notes_the_statements_that_a_process_executes(tmp_path: Path) -> None:
    (tmp_path / "tree" / "tools").mkdir(parents=True)
    shutil.copytree(Path(hits.__file__).parent, tmp_path / "tree" / "tools" / "mutants")
    (tmp_path / "seen").write_bytes(bytes(hits.SIZE))
    (tmp_path / "tree" / "a.py").write_text("def f(a):\n    if a:\n        return 1\n    return 2\n")
    numbers: dict[str, int] = {}
    plant(tmp_path / "tree", "a.py", lambda key: numbers.setdefault(key, len(numbers)))

    dying = "import a, os, signal; a.f(0); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", dying], cwd=tmp_path / "tree", check=False)

    seen = (tmp_path / "seen").read_bytes()
    assert ["a.py|f|if a:", "a.py|f|return 2"] == [key for key, number in numbers.items() if seen[number]]


def test_a_recording_returns_the_passing_tests_of_a_site(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "recording.sqlite")
    first, second = recording.number("a.py|f|x = 1"), recording.number("a.py|f|y = 2")
    tests = [("one", "", [first]), ("two", "", [first, second]), ("broken", "call", [first])]
    recording.keep(
        "t.py", "digest", [{"test": f"t.py::{id}", "cpu_s": 1, "failed": f, "sites": s} for id, f, s in tests]
    )

    again = Recording(tmp_path / "recording.sqlite")
    again.load()

    assert ["t.py::one", "t.py::two"] == [test.id for test in again.covering("a.py|f|x = 1")]
    assert ["t.py::two"] == [test.id for test in again.covering("a.py|f|y = 2")]
    assert ["t.py::one", "t.py::two"] == [test.id for test in again.covering("a.py|f|a changed line")]
    assert [] == again.covering("a.py|another|x = 1")


def test_a_constant_concerns_the_tests_that_execute_its_users() -> None:
    text = Path(SCRIPTS).read_bytes()
    [mutant] = (one for one in mutants(SCRIPTS, text, of_python.changes(text)) if one.line.startswith("_LOADS ="))

    assert f"{SCRIPTS}|Scripts.call|for _ in range(_LOADS):" in keys(mutant)
