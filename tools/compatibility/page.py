"""``docs/reference/compatibility.md``, from what ``results.json`` keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tools.compatibility.runs import PROJECT, Run, answers, load

PAGE: Final = PROJECT / "docs" / "reference" / "compatibility.md"
_TEXT: Final = Path(__file__).with_name("page.md")  # what a person wrote, with a place for each table
_HEAD: Final = ("server", "RQ", "prefix", "Python", "tests", "passed", "skipped", "failed", "ran")


def page() -> str:
    """Return the page's text."""
    return _TEXT.read_text().format(
        runs=_table(_HEAD, map(_row, load())),
        failed=_failed(load()),
        servers=_differences(answers("servers")),
        rqs=_differences({f"RQ {version}": told for version, told in answers("rqs").items()}),
    )


def _row(run: Run) -> tuple[str, ...]:
    counts = (f"{count:,}" for count in (run.passed, run.skipped, len(run.failed)))
    combination = run.server, run.rq, f"`{run.prefix}`", run.python, run.extent
    return *combination, *counts, f"{run.at}, {run.took_s:,} s, `{run.tree}`"


def _failed(runs: Iterable[Run]) -> str:
    """Return a list of the tests that failed, with the server and the RQ."""
    lines = [f"- {run.server}, RQ {run.rq}: `{test}`" for run in runs for test in run.failed]
    return "\n".join(lines) or "None."


def _differences(told: dict[str, dict[str, str]]) -> str:
    """Return a row for each question that got different answers, with a column for each program that answered."""
    questions = dict.fromkeys(question for given in told.values() for question in given)
    rows = [(question, *(given.get(question, "") for given in told.values())) for question in questions]
    return _table(("", *told), [row for row in rows if len(set(row[1:])) > 1])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
