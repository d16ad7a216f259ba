"""
The fixture, and the test in docs/how-to/schedule.md, as a product has them: pytest runs them in a separate folder.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.documents import programs
from tests.faults.processes import ENDS_S

CONFTEST = 'pytest_plugins = ["zsched.testing.fixtures"]\n'

ANOTHER_TEST = """

def test_each_test_has_its_own_scheduler(scheduler):
    assert list(scheduler.client.list()) == []
"""


def test_a_product_tests_its_schedules(tmp_path: Path) -> None:
    for name, text in programs("docs/how-to/test-schedules.md").items():
        (tmp_path / name).write_text(text)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    with (tmp_path / "test_shop.py").open("a") as file:
        file.write(ANOTHER_TEST)

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", "."]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=ENDS_S)

    assert 0 == ran.returncode, ran.stdout
    assert "2 passed" in ran.stdout
