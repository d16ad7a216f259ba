"""A test has its tier by the cost that was measured last."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import PROJECT
from tests.suite.costs import SMOKES, Costs, cpu_s


@pytest.fixture
def costs(tmp_path: Path) -> Costs:
    (tmp_path / "a.py").write_text("def test_heavy(): ...")
    (tmp_path / "tests").mkdir()
    file = tmp_path / "tests" / "costs.json"
    file.write_text(json.dumps({"a.py::test_heavy": 2.0, "a.py::test_noted": 0.4}))
    return Costs(file)


def test_tests_of_a_file_have_equal_parts_of_the_fixtures_that_they_share(costs: Costs) -> None:
    costs.note("a.py::test_first", 0.1, 3.0)
    costs.note("a.py::test_second", 0.2, 0.0)
    costs.note("b.py::test_other", 0.3, 0.0)

    measured = {nodeid: round(cost_s, 3) for nodeid, cost_s in costs.measured().items()}

    assert {"a.py::test_first": 1.6, "a.py::test_second": 1.7, "b.py::test_other": 0.3} == measured


@pytest.mark.parametrize(
    ("nodeid", "cost_s", "says"),
    [
        ("a.py::test_new", 0.8, "takes 0.8 CPU-s: too much for `make test`"),
        ("a.py::test_heavy", 0.3, "takes 0.3 CPU-s: no longer heavy"),
        ("a.py::test_noted", 0.7, None),  # a busy machine measures that much more
        ("a.py::test_heavy", 0.4, None),
    ],
)
def test_a_test_in_the_wrong_tier_is_named(costs: Costs, nodeid: str, cost_s: float, says: str | None) -> None:
    costs.note(nodeid, cost_s, 0.0)

    assert ([f"{nodeid} {says}. `make costs` notes it."] if says else []) == list(costs.wrong())


def test_a_written_file_keeps_existing_tests_outside_the_run(costs: Costs, tmp_path: Path) -> None:
    costs.note("a.py::test_cheap", 0.09, 0.0)
    costs.note("a.py::test_dear", 1.27, 0.0)

    costs.write()

    assert {"a.py::test_dear": 1.3, "a.py::test_heavy": 2.0} == json.loads((tmp_path / "tests/costs.json").read_text())


def test_a_cost_includes_living_and_ended_children() -> None:
    burn = "import time; until = time.process_time() + 0.2\nwhile time.process_time() < until: pass\n"
    before_s = cpu_s()
    subprocess.run([sys.executable, "-c", burn], check=True)
    with subprocess.Popen(
        [sys.executable, "-c", f"{burn}print(1, flush=True)\ninput()"], stdout=-1, stdin=-1
    ) as living:
        assert living.stdout is not None
        living.stdout.readline()
        spent_s = cpu_s() - before_s
        living.communicate(b"\n")

    assert 0.4 - 2 / os.sysconf("SC_CLK_TCK") <= spent_s


@pytest.mark.parametrize("nodeid", SMOKES.values(), ids=list(SMOKES))
def test_a_smoke_is_a_test_that_exists(nodeid: str) -> None:
    file, _, name = nodeid.partition("::")

    assert f"def {name.partition('[')[0]}(" in (PROJECT / file).read_text()
