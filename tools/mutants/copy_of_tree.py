"""
A copy of the project in which mutants are tried, so that no editor and no other test sees one.

Each run of tests is a fork of this process, which has imported the external modules of the tests already: that takes
longer than most tests. It has imported no module of zsched.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

_LONG_AGO_S = 1_000_000_000  # each text of a file gets a time of its own, or Python would take another one's bytecode
_OFTEN_S = 0.02  # the end of a run is seen so late
_OPTIONS = "-x -q --no-header --tb=no -p no:cacheprovider -p no:xdist".split()
_FROM_ELSEWHERE = "click croniter dateutil.rrule redis rq sqlite3 structlog".split()  # no plugins of pytest
_TEST, _TESTED = "tests/unit/core/test_wording.py", "zsched/core/wording.py"


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of pytest: the first test that failed, if any did; ``is_over`` unless the time was up."""

    failed: str | None
    is_over: bool
    took_s: float


class NoWitness(Exception):
    """Pytest failed as a whole."""


class _Witness:
    """A plugin of pytest that records the first test that failed, or the file that could not be imported."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tell(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._tell(report)

    def _tell(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and not self._path.exists():
            self._path.write_text(report.nodeid)


class CopyOfTree:
    """All files that git knows, at *folder*; ``run`` runs tests there."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._writes = folder / "tree", 0
        self._witness = folder / "witness"
        listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], check=True, capture_output=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if Path(name).is_file():
                (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(name, self._folder / name)
        for module in _FROM_ELSEWHERE:
            import_module(module)
        self._prove_itself()

    @contextmanager
    def holding(self, file: str, text: bytes) -> Iterator[None]:
        """Give *file* the contents *text* inside the block."""
        original = (self._folder / file).read_bytes()
        self._write(file, text)
        try:
            yield
        finally:
            self._write(file, original)

    def run(self, tests: Sequence[str], limit_s: float) -> Ran:
        """Run *tests*, files or single ones, until the first failure."""
        self._witness.unlink(missing_ok=True)
        begun = time.monotonic()
        child = os.fork()
        if not child:
            self._be_pytest(tests)
        try:
            code = _exit_code(child, begun + limit_s)
        finally:
            with suppress(ProcessLookupError):  # the tests' own processes end with it
                os.killpg(child, signal.SIGKILL)
        took_s = time.monotonic() - begun
        if code is None:
            os.waitpid(child, 0)
            return Ran(None, False, took_s)
        if code == pytest.ExitCode.USAGE_ERROR:
            return Ran("conftest.py", True, took_s)
        if code and not self._witness.exists():
            raise NoWitness(f"pytest ended with {code} and names no test that failed: {' '.join(tests)}")
        return Ran(self._witness.read_text() if code else None, True, took_s)

    def _prove_itself(self) -> None:
        """Check that the copy passes a test, and that a change in the copy is tested."""
        if self.run([_TEST], 60).failed:
            raise RuntimeError(f"{_TEST} fails without any mutant")
        with self.holding(_TESTED, b"raise LookupError"):
            if not self.run([_TEST], 60).failed:
                raise RuntimeError(f"{_TEST} does not test the copy")

    def _be_pytest(self, tests: Sequence[str]) -> None:
        """Run pytest in the forked process; never return."""
        try:
            os.setsid()
            os.chdir(self._folder)
            ours = str(Path(__file__).parents[2])
            sys.path[:] = [str(self._folder), *(path for path in sys.path if path not in ("", ours))]
            os.environ["PYTHONPATH"] = str(self._folder)  # of the tests' own processes
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            sys.dont_write_bytecode = False
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            os._exit(pytest.main([*_OPTIONS, *tests], [_Witness(self._witness)]))
        finally:
            os._exit(70)

    def _write(self, file: str, text: bytes) -> None:
        path = self._folder / file
        self._writes += 1
        path.write_bytes(text)
        os.utime(path, (_LONG_AGO_S + self._writes, _LONG_AGO_S + self._writes))


def _exit_code(child: int, until_s: float) -> int | None:
    """Return the exit code of *child*; None if it has not ended at *until_s*."""
    while time.monotonic() < until_s:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_OFTEN_S)
    return None
