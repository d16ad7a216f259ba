"""RQ's rate limits by the test's clock: runs get their slots as under workers."""

from __future__ import annotations

from datetime import timedelta

import pytest
import rq

from tests.unit.testing import tasks
from tests.unit.testing.ground import MINUTE, NINE
from tests.unit.testing.test_overlap import ids, queued
from zsched.testing import ManualScheduler

pytestmark = pytest.mark.skipif(not hasattr(rq, "RateLimit"), reason="RQ 2 has no rate limits")


def test_runs_of_one_limit_are_all_executed(scheduler: ManualScheduler) -> None:
    for n in range(5):
        scheduler.client.schedule(tasks.note, id=f"a{n}", at=NINE + MINUTE, rate_limit="mail:2")

    runs = scheduler.advance(MINUTE)
    with_a_slot = queued(scheduler)

    assert ids(runs[:2]) == with_a_slot
    assert ids(runs) == ids(scheduler.work())


def test_a_run_behind_a_cancelled_run_gets_its_slot(scheduler: ManualScheduler) -> None:
    for n in range(3):
        scheduler.client.schedule(tasks.note, id=f"a{n}", at=NINE + MINUTE, rate_limit="mail:1")
    first, second, third = scheduler.advance(MINUTE)

    scheduler.client.cancel_run(first.id)
    scheduler.client.cancel_run(second.id)

    assert [third.id] == ids(scheduler.work())


def test_a_run_behind_an_expired_run_gets_its_slot(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", at=NINE, rate_limit="mail:1", expires_after=60)
    scheduler.client.schedule(tasks.note, id="b", at=NINE + timedelta(minutes=2), rate_limit="mail:1")

    scheduler.advance(MINUTE * 3)

    assert ["b"] == [run.schedule_id for run in scheduler.work()]
