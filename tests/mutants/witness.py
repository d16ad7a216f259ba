"""A plugin of pytest: writes down the first test that failed, or the file that could not be imported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

WHERE = "ZSCHED_MUTANTS_WITNESS"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _tell(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _tell(report.nodeid)


def _tell(nodeid: str) -> None:
    path = Path(os.environ[WHERE])
    if not path.exists():
        path.write_text(nodeid)
