"""A copy of the project in which mutants are tried, so that no editor and no other test sees one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.witness import WHERE

_LONG_AGO_S = 1_000_000_000  # each text of a file gets a time of its own, or Python would take another one's bytecode


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of pytest: the first test that failed, if any did; ``is_over`` unless the time was up."""

    failed: str | None
    is_over: bool


class CopyOfTree:
    """All files that git knows, at *folder*; ``run`` runs tests there with the interpreter that runs this."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._writes = folder / "tree", 0
        self._witness = folder / "witness"
        listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], check=True, capture_output=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if Path(name).is_file():
                (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(name, self._folder / name)

    @contextmanager
    def holding(self, file: str, text: bytes) -> Iterator[None]:
        """Inside the block *file* is *text*."""
        original = (self._folder / file).read_bytes()
        self._write(file, text)
        try:
            yield
        finally:
            self._write(file, original)

    def run(self, tests: Sequence[str], limit_s: float) -> Ran:
        """Run *tests*, files or single ones, until the first failure."""
        self._witness.unlink(missing_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(self._folder), WHERE: str(self._witness)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        options = "-x -q --no-header --tb=no -p no:cacheprovider -p no:xdist -p tests.mutants.witness".split()
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self._folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return Ran(None, False)
        finally:
            self._end(process)
        if process.returncode == 0:
            return Ran(None, True)
        failed = self._witness.read_text() if self._witness.exists() else ""
        return Ran(failed or f"pytest itself ({process.returncode})", True)

    def _write(self, file: str, text: bytes) -> None:
        path = self._folder / file
        self._writes += 1
        path.write_bytes(text)
        os.utime(path, (_LONG_AGO_S + self._writes, _LONG_AGO_S + self._writes))

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        """The tests' own processes end with it: they are of its session."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
