"""A run of the suite with a server, an RQ and a Python, and the file that keeps the last run of each combination."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from tests.prefix import RQ
from zsched.embedded import ServerBinary
from zsched.embedded.server import SERVER_VARIABLE
from zsched.storage.rqkeys import RQ_PREFIX
from zsched.storage.rqversion import release

PROJECT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.json")
INSTALL_S = 900
_VERSIONS = "import platform, importlib.metadata as m; print(m.version('rq'), platform.python_version())"


class Extent(StrEnum):
    """The part of the suite that a run executes."""

    WHOLE = "whole suite"
    SERVER = "tests that depend on the server"
    CONTRACT = "contract with RQ's worker"


TESTS: Final = {
    Extent.WHOLE: (),
    Extent.SERVER: ("-m", "redis and not once"),
    Extent.CONTRACT: (
        "tests/integration/test_daemon_with_rq.py",
        "tests/integration/guard",
        "-k",
        "installed or guard",
    ),
}


@dataclass(frozen=True)
class Run:
    """
    One run: its server, RQ and Python, the extent, the result, and the day. ``prefix`` is the prefix of RQ's keys,
    ``tree`` git's name of the folder zsched.
    """

    server: str
    rq: str
    python: str
    extent: Extent
    passed: int
    skipped: int
    failed: tuple[str, ...]
    took_s: int
    at: str
    tree: str
    prefix: str = RQ_PREFIX

    @property
    def of(self) -> tuple[str, str, str, str, str]:
        """The combination; a later run of the same combination replaces this run."""
        return self.server, self.rq, self.prefix, self.python, self.extent


def python_with(rq: str | None, python: str) -> Path:
    """
    Return a Python with zsched, the tests' requirements and the newest RQ of series *rq*; None: the newest RQ of all.
    """
    here = Path(sys.prefix)
    if rq is None and Path(python).resolve() == Path(sys.executable).resolve():
        return here / "bin" / "python"
    version = _output(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    place = here / "matrix" / f"python{version}-rq{rq or ''}"
    found = place / "bin" / "python"
    if not (place / ".installed").exists():
        subprocess.run([python, "-m", "venv", "--clear", str(place)], check=True, timeout=INSTALL_S)
        wanted = ["--editable", f"{PROJECT}[dev]", *([f"rq=={rq}.*"] if rq else [])]
        subprocess.run([str(found), "-m", "pip", "install", "-q", *wanted], check=True, timeout=INSTALL_S)
        (place / ".installed").touch()
    return found


def run(python: Path, server: ServerBinary, extent: Extent, options: Sequence[str]) -> Run:
    """Run the tests of *extent* by *python*, and return the result; *options* go to pytest."""
    environment = os.environ | {SERVER_VARIABLE: str(server.path), "ZSCHED_TEST_RQ": ""}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        reporting = [f"--junitxml={report}"]
        command = [str(python), "-m", "pytest", *reporting, *options, *TESTS[extent]]
        subprocess.run(command, cwd=PROJECT, env=environment, check=False)
        if not report.exists():
            raise RuntimeError(f"{server}: pytest ended without a report; run it by hand: {' '.join(command)}")
        passed, skipped, failed, took_s = read_report(report)
    rq, version = _output(str(python), "-c", _VERSIONS).split()
    tree = _output("git", "rev-parse", "--short=10", "HEAD:zsched")
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return Run(str(server), rq, version, extent, passed, skipped, failed, took_s, today, tree, RQ)


def read_report(file: Path) -> tuple[int, int, tuple[str, ...], int]:
    """
    Read pytest's report in XML. Return the number of passed tests, the number of skipped tests, the failed tests, and
    the seconds.
    """
    root = ElementTree.parse(file).getroot()
    passed, skipped, failed = 0, 0, list[str]()
    for case in root.iter("testcase"):
        ends = {child.tag for child in case}
        if ends & {"failure", "error"}:
            failed.append(f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}")
        elif "skipped" in ends:
            skipped += 1
        else:
            passed += 1
    return (
        passed,
        skipped,
        tuple(sorted(set(failed))),
        round(sum(float(s.get("time", 0)) for s in root.iter("testsuite"))),
    )


def load() -> list[Run]:
    """Return the stored runs."""
    return [
        Run(**{**run, "extent": Extent(run["extent"]), "failed": tuple(run["failed"])}) for run in _kept("runs", [])
    ]


def answers(of: str) -> dict[str, dict[str, str]]:
    """Return the stored answers, *of* "servers" or "rqs": by name, and by question."""
    return dict(_kept(of, {}))


def keep_answers(of: str, new: dict[str, dict[str, str]]) -> None:
    """Store *new* answers in place of older answers of the same server or RQ."""
    known = answers(of) | new
    _write({of: {name: known[name] for name in sorted(known, key=order)}})


def keep(new: Iterable[Run]) -> list[Run]:
    """Store *new* in place of runs of the same combination, write the file, and return all runs."""
    runs = {run.of: run for run in [*load(), *new]}
    ordered = sorted(runs.values(), key=lambda run: (*order(run.server), release(run.rq), *run.of[2:]))
    _write({"runs": [asdict(run) for run in ordered]})
    return ordered


def _kept(what: str, nothing: Any) -> Any:
    return json.loads(RESULTS.read_text()).get(what, nothing) if RESULTS.exists() else nothing


def _write(new: dict[str, Any]) -> None:
    told = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(told | new, indent=1, ensure_ascii=False) + "\n")


def order(name: str) -> tuple[str, tuple[int, ...]]:
    """Return the sort key of a server or an RQ: Redis before Valkey, then the numbers of the version."""
    return name.rstrip("0123456789."), tuple(map(int, re.findall(r"\d+", name)))


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout.strip()
