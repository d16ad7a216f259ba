"""The fixture, and the test of the README, as a product would have them: pytest runs them in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFTEST = 'pytest_plugins = ["zsched.testing.fixtures"]\n'

PRODUCT = """
from zsched import Client, current_run

SENT = []


def send_report(customer):
    SENT.append((customer, current_run().nominal_at.isoformat()))


def sign_up(client: Client, customer: str) -> None:
    client.schedule(send_report, args=(customer,), id=f"report-{customer}", cron="0 9 * * 1", tz="Europe/Berlin")
"""

TEST = """
import shop


def test_a_customer_gets_a_report_every_monday_at_nine(scheduler):
    shop.sign_up(scheduler.client, "ada")  # it is 2026-01-01T00:00Z, a Thursday

    runs = scheduler.advance(days=14, work=True)

    assert [run.schedule_id for run in runs] == ["report-ada", "report-ada"]
    assert shop.SENT == [("ada", "2026-01-05T08:00:00+00:00"), ("ada", "2026-01-12T08:00:00+00:00")]


def test_each_test_has_its_own(scheduler):
    assert list(scheduler.client.list()) == []
"""


def test_a_product_tests_its_schedules(tmp_path: Path) -> None:
    for name, text in (("conftest.py", CONFTEST), ("shop.py", PRODUCT), ("test_shop.py", TEST)):
        (tmp_path / name).write_text(text)

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", "."]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)

    assert 0 == ran.returncode, ran.stdout
    assert "2 passed" in ran.stdout
