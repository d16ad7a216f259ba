"""The matrix of servers and RQs: the stored results of its runs, and the generated page."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools.compatibility import runs
from tools.compatibility.page import PAGE, page
from tools.compatibility.runs import Extent, Run, keep, load, order, read_report
from tools.compatibility.servers import BINARIES, WHEELS, requirement

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="5" time="61.7">
<testcase classname="tests.lua.test_put" name="test_one" time="0.1"/>
<testcase classname="tests.lua.test_put" name="test_two" time="0.1"><skipped message="no TLS"/></testcase>
<testcase classname="tests.lua.test_put" name="test_three" time="0.1"><skipped type="pytest.xfail"/></testcase>
<testcase classname="tests.lua.test_put" name="test_four[a]" time="0.1"><failure message="assert 1 == 2"/></testcase>
<testcase classname="tests.lua.test_put" name="test_five" time="0.1"><error message="failed on setup"/></testcase>
<testcase classname="tests.lua.test_put" name="test_five" time="0.1"><error message="failed on teardown"/></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty file of results."""
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results.json")
    return tmp_path / "results.json"


def a_run(server: str = "Redis 6.2.14", rq: str = "3.0.0", passed: int = 9) -> Run:
    return Run(server, rq, "3.11.7", Extent.WHOLE, passed, 1, (), 700, "2026-11-23", "abc")


def test_the_page_is_generated_from_the_stored_results() -> None:
    assert page() == PAGE.read_text(), "make matrix ARGS=--page writes it anew"


def test_a_report_is_read_as_passed_skipped_failed_and_seconds(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)

    told = read_report(tmp_path / "report.xml")

    assert (1, 2, ("tests/lua/test_put.py::test_five", "tests/lua/test_put.py::test_four[a]"), 62) == told


def test_a_later_run_of_the_same_combination_replaces_the_earlier_one(results: Path) -> None:
    keep([a_run(passed=9), a_run(rq="2.12.0"), a_run("Redis 10.0.1"), a_run("Valkey 9.1.2"), a_run("Redis 8.2.3")])

    kept = keep([a_run(passed=10)])

    assert load() == kept
    servers = ("Redis 6.2.14", "Redis 6.2.14", "Redis 8.2.3", "Redis 10.0.1", "Valkey 9.1.2")
    assert [("2.12.0", 9), ("3.0.0", 10), ("3.0.0", 9), ("3.0.0", 9), ("3.0.0", 9)] == [(r.rq, r.passed) for r in kept]
    assert servers == tuple(run.server for run in kept)


@pytest.mark.parametrize("other", [{"extent": Extent.SERVER}, {"prefix": "{default}:rq"}])
def test_a_run_of_other_tests_or_with_another_prefix_is_kept_separately(results: Path, other: dict[str, Any]) -> None:
    keep([a_run()])

    assert 2 == len(keep([replace(a_run(), **other)]))


def test_versions_are_ordered_as_numbers() -> None:
    assert ["2.8.0", "2.12.0", "3.0.0"] == sorted(["3.0.0", "2.12.0", "2.8.0"], key=order)


@pytest.mark.parametrize("package", BINARIES)
def test_every_wheel_with_a_server_is_pinned_by_its_checksums(package: str) -> None:
    lines = [line.strip(" \\") for line in requirement(package).splitlines()]

    assert lines[0].startswith(f"{package}==")
    assert lines[1:]
    assert all(line.startswith("--hash=sha256:") and len(line) == len("--hash=sha256:") + 64 for line in lines[1:])


def test_the_listed_wheels_are_exactly_the_wheels_that_are_run() -> None:
    listed = [line.partition("==")[0] for line in WHEELS.read_text().splitlines() if "==" in line]

    assert list(BINARIES) == listed
