"""``docs/reference/compatibility.md``, from what ``results.json`` keeps."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tools.compatibility.runs import PROJECT, Run, answers, load

PAGE: Final = PROJECT / "docs" / "reference" / "compatibility.md"
_TEXT: Final = Path(__file__).with_name("page.md")  # what a person wrote, with a place for each table
_HEAD: Final = ("server", "Python", "prefix", "tests", "RQ")


def page() -> str:
    """Return the page's text."""
    return _TEXT.read_text().format(
        runs=_table(_HEAD, _combinations(load())),
        failed=_failed(load()),
        servers=_differences(answers("servers")),
        rqs=_differences({f"RQ {version}": told for version, told in answers("rqs").items()}),
    )


def _combinations(runs: Iterable[Run]) -> list[tuple[str, ...]]:
    """Return a row for each server, Python, prefix and part of the suite, with the RQs that it ran with."""
    rqs: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        rqs.setdefault((run.server, run.python, f"`{run.prefix}`", run.extent), []).append(run.rq)
    return [(*combination, ", ".join(versions)) for combination, versions in rqs.items()]


def _failed(runs: Iterable[Run]) -> str:
    """Return the tests that failed, with the server and the RQ."""
    return "; ".join(f"{run.server}, RQ {run.rq}: `{test}`" for run in runs for test in run.failed) or "none."


def _differences(told: dict[str, dict[str, str]]) -> str:
    """Return a line for each question that divides the programs, with the answer of each group."""
    lines = []
    for question in dict.fromkeys(question for given in told.values() for question in given):
        givers: dict[str, list[str]] = {}
        for program, given in told.items():
            givers.setdefault(given.get(question, "unknown"), []).append(program)
        if 1 < len(givers) < len(told):
            *others, most = sorted(givers, key=lambda answer: len(givers[answer]))
            named = [f"{answer} ({', '.join(givers[answer])})" for answer in others]
            lines.append(f"- {question}: {'; '.join([*named, f'otherwise {most}'])}")
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
