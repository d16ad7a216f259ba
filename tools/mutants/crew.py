"""Processes that run tests for the tool, each in a tree of its own, and the recording of the whole suite by them."""

import json
import os
import queue
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from tools.mutants.covered import IMPORT, Recording, digest_of
from tools.mutants.tree import Tree

_LEAST_S = 60.0  # a test may take so long, and many times as long as when it was recorded
_TIMES = 15
_UNKNOWN_S = 600.0


class Crew:
    """A process of ``runner`` in *tree*; *mode* is ``collected`` or ``bare``. *has_all*: of the tests, all cases."""

    def __init__(self, tree: Tree, mode: str, *, has_all: bool = True) -> None:
        self.tree, self.mode, self._has_all = tree, mode, has_all
        self._wire: socket.socket | None = None
        self.known: dict[str, None] = {}
        self.at_import: list[int] = []  # sites that an import executes, of a planted tree
        self.cpu_s = 0.0

    def start(self) -> None:
        """Start the process and wait until it has collected."""
        if self._wire is not None:
            return
        self._wire, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tools.mutants.runner", str(theirs.fileno()), self.mode]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = str(self.tree.root)  # of the tests' own processes, too
        environment["ZSCHED_TEST_ALL"] = "1" if self._has_all else ""
        self._process = subprocess.Popen(command, cwd=self.tree.root, env=environment, pass_fds=[theirs.fileno()])
        theirs.close()
        self._lines = self._wire.makefile("rb")
        first = self._line()
        self.known, self.at_import = dict.fromkeys(first["known"]), first.get("sites", [])

    def close(self) -> None:
        """End the process."""
        if self._wire is not None:
            self._wire.shutdown(socket.SHUT_RDWR)
            self._process.wait()
            self._wire = None

    def run(
        self,
        tests: Sequence[tuple[str, float]],
        *,
        is_first_only: bool = True,
        is_recorded: bool = False,
        swap: tuple[str, str, str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Run tests, each with its usual CPU seconds, and yield the reports as they come; the last has "end"."""
        self.start()
        assert self._wire is not None
        tests = [test for test in tests if self.mode == "bare" or test[0] in self.known] or [("", 0.0)]
        limits_s = [cpu_s * _TIMES + _LEAST_S if cpu_s else _UNKNOWN_S for _, cpu_s in tests]
        job = {"tests": [id for id, _ in tests], "limits_s": limits_s, "is_first_only": is_first_only}
        self._wire.sendall(json.dumps({**job, "is_recorded": is_recorded, "swap": swap}).encode() + b"\n")
        while True:
            told = self._line()
            if "end" in told:
                self.cpu_s += told["cpu_s"]
            yield told
            if "end" in told:
                return

    def _line(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            raise RuntimeError(f"the {self.mode} process in {self.tree.root} has ended")
        return dict(json.loads(line))


def record_all(trees: Sequence[Tree], recording: Recording, tell: Callable[[str], None]) -> None:
    """Record every file of tests that has changed since it was recorded; the trees are as before afterwards."""
    files = recording.missing(str(path) for path in sorted(Path("tests").rglob("test_*.py"), reverse=True))
    if files:
        with recording.in_one_step():
            for tree in trees:
                tree.plant(recording.number)
        crews = [Crew(tree, "collected") for tree in trees]
        crews[0].start()
        recording.keep(IMPORT, "", [{"test": IMPORT, "cpu_s": 0, "failed": IMPORT, "sites": crews[0].at_import}])
        wanted, progress = queue.SimpleQueue[str](), count(1)
        for file in files:
            wanted.put(file)

        def work(crew: Crew) -> None:
            with suppress(queue.Empty):
                while True:
                    file = wanted.get_nowait()
                    failed = _record(crew, recording, file)
                    tell(f"recorded {next(progress)}/{len(files)} {file}" + (f": {failed} failed" if failed else ""))

        with ThreadPoolExecutor(len(crews)) as pool:
            list(pool.map(work, crews))
        for crew in crews:
            crew.close()
        for tree in trees:
            tree.clean()


def _record(crew: Crew, recording: Recording, file: str) -> int:
    """Run all tests of a file in a planted tree and keep what they execute; return the number that failed."""
    crew.start()
    digest, told = digest_of(crew.tree.root / file), list[dict[str, Any]]()
    rest = [id for id in crew.known if id.startswith(f"{file}::")]
    while rest:  # behind a test that did not end
        reports = list(crew.run([(id, 0.0) for id in rest], is_first_only=False, is_recorded=True))
        ran = [report for report in reports if "test" in report]
        told += ran
        rest = rest[len(ran) + 1 :]
    recording.keep(file, digest, told)
    return sum(bool(report["failed"]) for report in told)
