"""``make rounds``: what it counts, and that it fails when a test failed once."""

from pathlib import Path

from click.testing import CliRunner

from tools import rounds

# Fails in the second round only: it remembers the first one in a file.
_ONCE = """
import pathlib

def test_that_holds(): pass

def test_that_fails_once():
    first = pathlib.Path(__file__).with_name("first")
    was_here = first.exists()
    first.touch()
    assert not was_here
"""


def test_a_test_that_fails_in_one_round_is_named_and_ends_with_1(tmp_path: Path) -> None:
    test = tmp_path / "test_once.py"
    test.write_text(_ONCE)

    result = CliRunner().invoke(
        rounds.main,
        [
            "--rounds",
            "2",
            "--busy",
            "1",
            "--forks",
            "0",
            "--",
            "-p",
            "tests.suite.forks",
            "-p",
            "tests.suite.costs",
            str(test),
        ],
    )

    assert 1 == result.exit_code
    assert ["round 1 of 2: 2 passed", "round 2 of 2: 1 failed, 1 passed"] == result.output.splitlines()[:2]
    assert result.output.splitlines()[2].endswith("test_once.py::test_that_fails_once")
    assert "2 rounds, 1 busy processes: 4 runs of tests, 1 failures" == result.output.splitlines()[3]


def test_every_risky_test_exists() -> None:
    files = {Path(line.partition("::")[0]) for line in rounds.RISKY.read_text().split()}

    assert set() == {str(file) for file in files if not (rounds.PROJECT / file).exists()}


def test_a_round_without_a_result_is_an_error_with_its_output(tmp_path: Path) -> None:
    result = CliRunner().invoke(rounds.main, ["--rounds", "1", "--busy", "1", str(tmp_path / "missing.py")])

    assert 1 == result.exit_code
    assert "pytest ended with 4; see" in result.output
