"""The benchmark: its arithmetic, its detection of failures, and one small run end to end."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench.arena import Arena
from bench.catalogue import ROWS, Row
from bench.contest import Contestant, Figure, contest
from bench.journal import Fire, Lateness, lateness_ms, per_second
from bench.load import prove_count, prove_once, spread
from bench.program import main
from bench.raw import encode
from bench.report import figure, json_report, table_report
from bench.results import Absent, Broken, Result, percentile
from bench.rows import archive
from tests.waiting import ENDS_S
from zsched.archive import Archive
from zsched.cli.program import INTERRUPTED
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once

PACKAGE = Path(__file__).parents[2]
ABOUT = {
    "redis": "Redis 7.0.15", "persistence": "none", "python": "3.11", "redis_py": "8.1", "rq": "2.12", "bullmq": None,
    "cores": 2, "load": 0.1, "repetitions": 3, "is_quick": False,
}  # fmt: skip


def bench(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "ZSCHED_BENCH_NODE_MODULES"}
    ran = subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=PACKAGE, env=environment | {"NODE_PATH": ""}, capture_output=True, text=True, timeout=ENDS_S,
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stdout + ran.stderr
    return ran.stdout


def measured() -> Result:
    result = Result("dispatch", "a row", baseline="raw")
    for value in (100.0, 300.0, 200.0):
        result.open("zsched", "10", "jobs/s").add(value, p50=value / 100)
    result.open("raw", "10", "jobs/s").add(400.0)
    return result


# -- arithmetic -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([5.0], 99, 5.0),
        ([1.0, 2.0, 3.0, 4.0], 50, 2.0),
        ([3.0, 1.0, 2.0], 50, 2.0),
        ([float(n) for n in range(1, 101)], 99, 99.0),
        ([float(n) for n in range(1, 101)], 100, 100.0),
    ],
)
def test_a_percentile_is_the_nearest_rank(values: list[float], percent: float, expected: float) -> None:
    assert expected == percentile(values, percent)


def test_a_ratio_is_computed_from_medians_and_a_missing_measurement_has_none() -> None:
    result = measured()

    result.at_least("1 × BullMQ", result.ratio("zsched", "BullMQ"), 1.0)

    assert (0.5, 2.0, []) == (result.ratio("zsched"), result.ratio("raw", "zsched"), result.goals)


@pytest.mark.parametrize(("limit", "is_met"), [(0.4, True), (0.5, True), (0.6, False)])
def test_a_goal_is_met_at_its_limit(limit: float, is_met: bool) -> None:
    result = measured()

    result.at_least(f"{limit} × raw", result.ratio("zsched"), limit)

    assert [is_met] == [goal.is_met_at(1.0) for goal in result.goals]


@pytest.mark.parametrize(("speed", "are_met"), [(1.0, [True] * 3), (2.0, [False, False, True]), (0.5, [True] * 3)])
def test_the_limits_of_times_and_rates_follow_the_speed_of_the_machine(speed: float, are_met: list[bool]) -> None:
    result = Result("archive", "a row")

    result.at_rate("100/s", 100.0, 100.0)
    result.within("8 s", 8.0, 8.0)
    result.at_most("400 bytes", 400.0, 400.0)

    assert are_met == [goal.is_met_at(speed) for goal in result.goals]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.123, "0.12"), (5.0, "5"), (12.34, "12.3"), (234_567.8, "234,568"), (-732.4, "-732")],
)
def test_a_figure_shows_its_significant_digits(value: float, text: str) -> None:
    assert text == figure(value)


def test_the_table_names_figures_ratios_goals_failures_and_the_limits_on_this_machine() -> None:
    result, slow = measured(), measured()
    result.at_least("0.8 × raw", result.ratio("zsched"), 0.8)
    result.notes.append("a note")
    result.broken.append("one lost")
    slow.speed = 0.5
    slow.within("8 s", 17.0, 8.0)

    told: list[str] = []
    with table_report(ABOUT, told.append) as add:
        add(result)
        add(slow)

    lines = "\n".join(told).splitlines()
    zsched = next(line for line in lines if line.startswith("  zsched"))
    assert ["zsched", "10", "200", "jobs/s", "100", "…", "300", "0.50", "×", "raw", "p50", "2"] == zsched.split()
    assert {"  goal ≥ 0.8 × raw: 0.50, MISSED", "  note: a note", "  BROKEN: one lost"} <= set(lines)
    assert {"  goal ≤ 8 s (16 on this machine): 17, MISSED"} <= set(lines)
    assert "  speed: 0.50 × that of the machine of the goals" in lines
    assert "Redis 7.0.15" in lines[0]
    assert "2 cores" in lines[1]


def test_json_has_every_repetition() -> None:
    told: list[str] = []
    with json_report(ABOUT, told.append) as add:
        add(measured())
        add(measured())

    row, _ = json.loads("\n".join(told))["rows"]
    assert [100.0, 300.0, 200.0] == row["series"][0]["values"]
    assert 200.0 == row["series"][0]["median"]
    assert 0.5 == row["series"][0]["ratio"]


# -- what the log says --------------------------------------------------------------------------------


def test_a_rate_leaves_out_the_batch_whose_end_is_unknown() -> None:
    fired = [Fire(1, "fire", 1_000_000 + 1000 * n, ["a-1", "b-1"]) for n in range(5)]

    assert 2000.0 == per_second(fired)


def test_lateness_is_between_a_runs_own_time_and_its_entry() -> None:
    fired = [Fire(1, "fire", 1_000_500, ["a-1000", "b-999-nother"]), Fire(1, "advance", 2_000_000, ["c-1998"])]

    assert [0.5, 1.5, 2.0] == lateness_ms(fired)
    assert [0.5] == lateness_ms(fired, 1000, 1998)


@pytest.mark.parametrize(("values", "message"), [([], "no run"), ([1.0, -0.25], "0.250 ms early")])
def test_an_early_run_breaks_the_row(values: list[float], message: str) -> None:
    with pytest.raises(Broken, match=message):
        Lateness.of(values)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (["a", "b", "b"], "0 lost, 1 twice, 0 unknown"),
        (["a"], "1 lost, 0 twice, 0 unknown"),
        (["a", "b", "c"], "0 lost, 0 twice, 1 unknown"),
    ],
)
def test_a_lost_doubled_or_unknown_run_breaks_the_row(found: list[str], message: str) -> None:
    prove_once(["a", "b"], ["b", "a"])
    prove_count(2, 2, "x")

    with pytest.raises(Broken, match=message):
        prove_once(["a", "b"], found)


def test_due_times_are_spread_evenly_and_in_order() -> None:
    assert [("x-000000", 1000), ("x-000001", 1250), ("x-000002", 1500), ("x-000003", 1750)] == spread(
        4, 1000, 1000, "x"
    )


def test_a_bare_command_is_encoded_as_resp() -> None:
    assert b"*2\r\n$4\r\nLLEN\r\n$1\r\nq\r\n" == encode("LLEN", "q")


# -- running ------------------------------------------------------------------------------------------


def test_contestants_take_turns_and_absent_or_broken_ones_are_reported() -> None:
    said: list[str] = []
    turns: list[str] = []

    def one(name: str, error: Exception | None = None) -> Contestant:
        def measure() -> Figure:
            turns.append(name)
            if error is not None:
                raise error
            return Figure(1.0)

        return Contestant(name, "1", "x", measure)

    with Guard() as guard:
        arena = Arena(guard, said.append, repeat=2)
        result = Result("row", "title")
        every = [one("a"), one("b", Absent("not there")), one("c", Broken("lost")), one("d")]
        with arena.redis() as ground:
            contest(arena, ground, result, every)

    assert ["a", "b", "c", "d", "a", "d"] == turns
    assert ["a", "d"] == [series.who for series in result.series]
    assert ["not there"] == result.notes
    assert ["c, 1: lost"] == result.broken
    assert "row 2/2: d, 1" in said


def test_a_quick_run_proves_its_runs_and_reports_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    dispatch, bulk = rows("dispatch", "bulk")

    assert {"zsched", "raw", "RQ's scheduler"} <= {series["who"] for series in dispatch["series"]}
    assert bulk["series"]
    assert any("BullMQ was left out" in note for note in dispatch["notes"])
    assert [] == list(tmp_path.iterdir())  # the daemons' archives were elsewhere


def test_a_quick_run_of_the_archive_rows_names_figures_and_goals() -> None:
    archive, dispatch, durable, why = found = rows("archive", "archived-dispatch", "durable", "why")

    assert {"fires/s", "per CPU s", "bytes each"} <= archive["series"][0]["details"].keys()
    assert ["zsched", "without archiver"] == [series["who"] for series in dispatch["series"]]
    assert {"p50", "max"} == durable["series"][0]["details"].keys()
    assert {"median", "warm", "bytes each"} == why["series"][0]["details"].keys()
    assert [2, 2, 1, 1] == [len(row["goals"]) for row in found]


def test_a_quick_run_of_the_start_and_listing_rows_names_figures_and_goals() -> None:
    startup, listing = rows("startup", "listing")

    assert ["python", "import redis", "import rq", "a client", "zsched --version", "zsched ls"] == [
        series["who"] for series in startup["series"]
    ]
    assert 3 == len(listing["series"])
    assert [5, 2] == [len(row["goals"]) for row in (startup, listing)]


def test_a_quick_run_of_the_http_rows_names_figures() -> None:
    single, batch = rows("http", "http-batch")

    assert ["PUT /schedules/{id}", "an empty route"] == [series["who"] for series in single["series"]]
    assert ["POST /schedules:batch", "schedule_many"] == [series["who"] for series in batch["series"]]


def rows(*names: str) -> list[dict[str, Any]]:
    """Run rows of the benchmark; return their reports."""
    found: list[dict[str, Any]] = json.loads(
        bench("--quick", "--json", *(part for name in names for part in ("--only", name)))
    )["rows"]
    assert [(name, []) for name in names] == [(row["row"], row["broken"]) for row in found]
    assert all(series["median"] > 0 for row in found for series in row["series"])
    return found


def test_an_incomplete_archive_breaks_the_row(tmp_path: Path) -> None:
    with closing(Archive(tmp_path / "archive.db", "default")):
        pass

    with pytest.raises(Broken, match="should have 3 open"):
        archive.prove(tmp_path / "archive.db", "open", 3)


def test_a_quick_run_reports_as_a_table() -> None:
    lines = bench("--quick", "--only", "bulk").splitlines()

    assert any(line.startswith("bulk: ") for line in lines)
    assert any(line.startswith("  zsched ") and "rows/s" in line for line in lines)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a run whose second row is interrupted."""

    def interrupt(arena: Arena) -> Result:
        raise KeyboardInterrupt

    monkeypatch.setitem(ROWS, "dispatch", Row("dispatch", "first", lambda arena: measured()))
    monkeypatch.setitem(ROWS, "native", Row("native", "second", interrupt))
    return ["--only", "dispatch", "--only", "native"]


def test_an_interrupted_run_has_reported_its_finished_rows(
    interrupted: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert INTERRUPTED == main(interrupted)
    table = capsys.readouterr().out
    assert INTERRUPTED == main([*interrupted, "--json"])
    report = json.loads(capsys.readouterr().out)

    assert "dispatch: a row" in table.splitlines()
    assert ["dispatch"] == [row["row"] for row in report["rows"]]
    assert "load" in report["environment"]


def test_an_unknown_row_is_refused_with_the_list_of_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["--only", "speed"])

    told = capsys.readouterr().err
    assert "'speed' is not one of" in told
    assert all(f"'{row}'" in told for row in ROWS)


def test_the_list_names_every_row_and_marks_rows_run_only_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["--list"])

    lines = {line.split()[0]: "only with --all" in line for line in capsys.readouterr().out.splitlines()}
    assert {"campaign": True, "why-10m": True, "why": False, "dispatch": False}.items() <= lines.items()
