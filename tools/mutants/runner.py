"""
A process of pytest that runs chosen tests again and again, each time in a fork: ``python -m tools.mutants.runner``.

``collected`` has collected the whole suite, so a fork begins with the first test. ``bare`` has imported nothing of
zsched, so its forks see a change of a module; they collect the files of the tests. Jobs come over a socket, a line of
JSON each; so do the reports, one for each test, and at last ``{"end": …}``.
"""

import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tools.mutants.hits import SEEN, taken
from tools.mutants.swap import Unswappable, swap

OPTIONS = "-q --no-header --tb=no -p no:cacheprovider -p no:randomly".split()
_FROM_ELSEWHERE = "click croniter dateutil.rrule redis rq sqlite3 structlog".split()  # no plugins of pytest
_SUBREAPER = 36  # of prctl: orphans of a fork become our children, and end with it

Job = dict[str, Any]  # tests, limits_s, is_first_only, is_recorded, swap: [module, text before, text after] or null
Tell = Callable[[Job], None]


class Runner:
    """A plugin of pytest: runs the tests of *job* once, or those of each job that comes over *wire*."""

    def __init__(self, wire: socket.socket | None, job: Job | None = None, tell: Tell | None = None) -> None:
        self._wire, self._job, self._tell = wire, job, tell
        self._failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = self._failed or report.when

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and self._tell is not None:
            self._tell({"uncollected": report.nodeid})

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed and self._wire is not None:
            raise session.Interrupted("the suite cannot be collected")
        by_id = {item.nodeid: item for item in session.items}

        def run(job: Job, tell: Tell) -> None:
            if job["swap"]:
                swap(*job["swap"])
            if scripts := sys.modules.get("zsched.storage.scripts"):
                scripts.load.cache_clear()  # a test may have loaded some when it was collected
            self._run([by_id[name] for name in job["tests"] if name in by_id], job, tell)

        if self._wire is not None:
            serve(self._wire, run, {"known": list(by_id), "sites": taken() if SEEN.exists() else []})
        elif self._job is not None and self._tell is not None:
            self._run([by_id[name] for name in self._job["tests"] if name in by_id], self._job, self._tell)
        return True

    def _run(self, items: Sequence[pytest.Item], job: Job, tell: Tell) -> None:
        for item, following in zip(items, [*items[1:], None], strict=False):  # there may be none
            self._failed, before_s = "", _cpu_s()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            told: Job = {"test": item.nodeid, "failed": self._failed, "cpu_s": round(_cpu_s() - before_s, 3)}
            if job["is_recorded"]:
                told["sites"] = taken()
            tell(told)
            if self._failed and job["is_first_only"]:
                break


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def serve(wire: socket.socket, run: Callable[[Job, Tell], None], first: Job) -> None:
    """Send *first*, and run each job that comes in a fork, until the other side has gone."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    wire.sendall(json.dumps(first).encode() + b"\n")
    with wire.makefile("rb") as jobs:
        for line in jobs:
            job, before_s = json.loads(line), _cpu_s()
            reading, writing = os.pipe()
            with tempfile.TemporaryDirectory(prefix="zm-") as folder:
                child = os.fork()
                if not child:
                    _be_fork(writing, folder, partial(run, job))
                os.close(writing)
                try:
                    end = _relay(wire, reading, job)
                finally:
                    os.close(reading)
                    _end_all(child)
            wire.sendall(json.dumps({"end": end, "cpu_s": round(_cpu_s() - before_s, 2)}).encode() + b"\n")


def _be_fork(writing: int, folder: str, run: Callable[[Tell], None]) -> None:
    """Run a job; never return."""

    def tell(told: Job) -> None:
        os.write(writing, json.dumps(told).encode() + b"\n")

    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        run(tell)
        tell({"done": True})
    except Unswappable as error:
        tell({"unswappable": str(error)})
    except BaseException as error:
        tell({"broken": repr(error)})
    finally:
        os._exit(0)


def _relay(wire: socket.socket, reading: int, job: Job) -> str:
    """Pass the reports of a fork on. Return "" at its end, or "timeout" if a test takes longer than its limit."""
    limits_s, done, rest = job["limits_s"], 0, b""
    until_s = time.monotonic() + limits_s[0]
    while True:
        ready, _, _ = select.select([reading, wire.fileno()], [], [], max(until_s - time.monotonic(), 0))
        if wire.fileno() in ready:
            pytest.exit("the other side has gone")  # it sends nothing before the end
        if not ready:
            return "timeout"
        part = os.read(reading, 1 << 20)
        if not part:
            return ""
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            wire.sendall(line + b"\n")
            done += line.startswith(b'{"test"')
        if lines:
            until_s = time.monotonic() + limits_s[min(done, len(limits_s) - 1)]


def _end_all(child: int) -> None:
    """Kill the fork, and every process that it left."""
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            for one in _children():
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, rest = path.parent.name, path.read_text().rpartition(")")[2].split()
            if int(rest[1]) == os.getpid():
                found.append(int(pid))
    return found


def _run_bare(job: Job, tell: Tell) -> None:
    files = list(dict.fromkeys(name.partition("::")[0] for name in job["tests"]))
    try:
        code = pytest.main([*OPTIONS, *files], [Runner(None, job, tell)])
    except Warning:  # something was left open, as pytest finds at its end; the tests have been reported
        return
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
        tell({"uncollected": "conftest.py"})


def main() -> None:
    """Be the process: descriptor of the socket, and the mode."""
    wire = socket.socket(fileno=int(sys.argv[1]))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    if sys.argv[2] == "bare":
        for module in _FROM_ELSEWHERE:
            import_module(module)
        serve(wire, _run_bare, {"known": []})
    else:
        sys.exit(pytest.main([*OPTIONS, "tests"], [Runner(wire)]))


if __name__ == "__main__":
    main()
