"""The counts of ``make lines``."""

from collections import Counter
from pathlib import Path

import pytest

from tools.lines import count, excess, lua_code, python_code, table


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", 0),
        ('"""A docstring."""\n\nimport os  # why\n', 1),
        ('def f():\n    """\n    Of three\n    lines.\n    """\n    # why\n    return 1\n', 2),
        ('class C:\n    """One."""\n\n    async def f(self):\n        """Two."""\n', 2),
        ('TEXT = """\nno docstring\n\n"""\n', 3),
        ("call(\n    1,  # one\n    # nothing\n    2,\n)\n", 4),
    ],
    ids=["empty", "module", "function", "class", "text", "call"],
)
def test_counting_python_code_leaves_out_docstrings_comments_and_blanks(source: str, expected: int) -> None:
    assert expected == python_code(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", 0),
        ("-- purpose\n\nlocal a = 1 -- one\n", 1),
        ("--[[ of\ntwo lines ]]\nreturn 1\n", 1),
        ("local a = '--' .. \"--[[\"\nreturn a\n", 2),
        ("local a = [[\n-- text\n]]\n", 3),
    ],
    ids=["empty", "comment", "block", "strings", "text"],
)
def test_counting_lua_code_leaves_out_comments_and_blanks(source: str, expected: int) -> None:
    assert expected == lua_code(source)


def test_files_are_counted_by_the_folder_below_the_package(tmp_path: Path) -> None:
    (tmp_path / "core" / "triggers").mkdir(parents=True)
    (tmp_path / "core" / "triggers" / "cron.py").write_text("a = 1\n")
    (tmp_path / "core" / "clock.py").write_text("# nothing\nb = 2\n")
    (tmp_path / "errors.py").write_text("c = 3\n")

    counts = count(tmp_path)

    assert {
        "core": Counter(files=2, lines=3, code=2),
        ".": Counter(files=1, lines=1, code=1),
    } == counts
    assert ["total", "3", "4", "3"] == table(counts).splitlines()[-1].split()


@pytest.mark.parametrize(("ceiling", "expected"), [(6, 1), (7, 0), (8, 0)])
def test_lines_above_the_ceiling_are_an_excess(ceiling: int, expected: int) -> None:
    counts = {"core": Counter(code=5), "lua": Counter(code=2)}

    assert expected == excess(counts, f"[tool.lines]\nceiling = {ceiling}\n")
