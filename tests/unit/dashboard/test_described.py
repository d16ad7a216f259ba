"""The dashboard's description of a run: its schedule and its nominal time, before the job's own description."""

from __future__ import annotations

import pytest

pytest.importorskip("rq_dashboard", reason="needs the extra web")

from zsched.dashboard.jobs import described

FUNC = "app.tasks.remind"


@pytest.mark.parametrize(
    ("job_id", "expected"),
    [
        ("reminder-42-1798102800000", f"reminder-42 · 2026-12-24 09:00:00+00:00 · {FUNC}"),
        ("reminder-42-1798102800250", f"reminder-42 · 2026-12-24 09:00:00.250+00:00 · {FUNC}"),
        ("a-1798102800000-r2", f"a · 2026-12-24 09:00:00+00:00 · extra run 2 · {FUNC}"),
        ("a-1798102800000-nemail", f"a · 2026-12-24 09:00:00+00:00 · namespace email · {FUNC}"),
        ("a-1798102800000-nemail-r1", f"a · 2026-12-24 09:00:00+00:00 · namespace email · extra run 1 · {FUNC}"),
    ],
)
def test_a_run_is_described_by_schedule_and_nominal_time(job_id: str, expected: str) -> None:
    assert expected == described(job_id, FUNC)


@pytest.mark.parametrize("job_id", ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "report-2026", "mine", "a-1"])
def test_a_foreign_job_keeps_its_own_description(job_id: str) -> None:
    assert FUNC == described(job_id, FUNC)
    assert described(job_id, None) is None


def test_a_run_without_a_description_is_described_too() -> None:
    assert "a · 2026-12-24 09:00:00+00:00" == described("a-1798102800000", None)
