"""Forked workers run each test once, report as pytest does, and survive a test that ends its process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import PROJECT

CONFTEST = """
import os, pytest
pytest_plugins = ["tests.suite.costs", "tests.suite.forks"]

@pytest.fixture(scope="session")
def server(tmp_path_factory):
    made = open(os.environ["LEDGER"], "a")
    print("server made", os.getpid(), file=made, flush=True)
    yield os.getpid()
    print("server ended", os.getpid(), file=made, flush=True)
"""
TESTS = """
import os, pytest

@pytest.fixture(scope="module")
def shared(server):
    return os.getpid()

def test_first(shared, server):
    assert shared == server == os.getpid()

def test_that_fails(shared):
    print("what it printed")
    assert shared == "wrong"

def test_that_ends_its_process(shared):
    os._exit(5)

def test_after_it(shared, tmp_path):
    assert shared == os.getpid()
    (tmp_path / "file").write_text("x")

@pytest.mark.skip(reason="no reason")
def test_skipped():
    pass

@pytest.mark.xfail
def test_expected_to_fail():
    raise ValueError
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:schemathesis",
        "--rootdir",
        ".",
        *options,
    ]
    env = {"PYTHONPATH": str(PROJECT), "LEDGER": str(folder / "ledger"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # not one of a folder above
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "test_other.py").write_text("def test_other(server):\n    pass\n")
    return tmp_path


def test_tests_run_once_and_a_worker_that_ends_is_replaced(folder: Path) -> None:
    done = run(folder, "--forks", "2")

    assert "2 failed, 3 passed, 1 skipped, 1 xfailed" in done.stdout
    assert 1 == done.returncode
    assert "what it printed" in done.stdout
    assert "the worker ended with 5 while it ran this test" in done.stdout
    ledger = (folder / "ledger").read_text().splitlines()
    made, ended = (
        {line.split()[2] for line in ledger if line.startswith(f"server {word}")} for word in ("made", "ended")
    )
    assert len(ledger) == len(made) + len(ended)
    assert len(made - ended) == 1  # the one that ended with os._exit
    assert ended < made


def test_the_first_failure_ends_all_workers_if_it_is_asked_for(folder: Path) -> None:
    (folder / "test_long.py").write_text("import signal\ndef test_that_waits(server):\n    signal.pause()\n")

    done = run(folder, "--forks", "3", "-x")

    assert "stopping after 1 failures" in done.stdout
    ledger = (folder / "ledger").read_text().splitlines()
    assert len([line for line in ledger if "made" in line]) >= len([line for line in ledger if "ended" in line])


def test_a_test_that_never_ends_fails_with_the_place_where_it_was(folder: Path) -> None:
    (folder / "test_long.py").write_text("import signal\ndef test_that_waits():\n    signal.pause()\n")

    limit = "-o", "faulthandler_timeout=1", "-o", "faulthandler_exit_on_timeout=true"

    done = run(folder, "--forks", "2", *limit, "test_long.py", "test_other.py")

    assert "FAILED test_long.py::test_that_waits, call" in done.stdout
    assert "the worker ended with 1 while it ran this test" in done.stdout
    assert '"test_long.py", line 3 in test_that_waits' in done.stderr.replace(f"{folder}/", "")
    assert "1 failed, 1 passed" in done.stdout


def test_sigterm_ends_a_session_with_the_names_of_its_failures(folder: Path) -> None:
    (folder / "test_long.py").write_text(
        "import os, signal\ndef test_that_waits():\n    os.kill(os.getppid(), signal.SIGTERM)\n    signal.pause()\n"
    )

    done = run(folder, "--forks", "1", "test_it.py::test_that_fails", "test_long.py")

    assert 2 == done.returncode
    assert "FAILED test_it.py::test_that_fails - AssertionError" in done.stdout
    assert "what it printed" in done.stdout


@pytest.mark.parametrize(("tier", "ran"), [("usual", "6 passed"), ("all", "7 passed")])
def test_a_tier_leaves_out_what_costs_more_and_says_so_last(folder: Path, tier: str, ran: str) -> None:
    (folder / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_n(n):\n    pass\n"
    )
    (folder / "tests").mkdir()
    (folder / "tests" / "costs.json").write_text(
        json.dumps({"test_it.py::test_n[3]": 0.6, "test_it.py::test_n[4]": 0.4})
    )

    done = run(folder, "--forks", "2", "--tier", tier)

    assert ran in done.stdout
    assert ("not run: 1 of the" in done.stdout.splitlines()[-1]) is (tier == "usual")
