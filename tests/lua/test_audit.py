"""audit.lua: the schedules that Redis lacks, wholly or in part."""

import pytest

from tests.builders.namespaces import Namespace


@pytest.fixture
def stocked(ns: Namespace) -> Namespace:
    ns.freeze()
    ns.put_later("a", "p")
    ns.put_recurring("r", ns.now_ms + 1000)
    ns.call("pause", ["p"], note="why not")
    return ns


def _audit(ns: Namespace) -> list[str]:
    due_ms = ns.places()["a"].split()[-1] if "a" in ns.places() else "5"
    return list(ns.call("audit", ["a", due_ms, "p", due_ms, "r", ""]))


def test_a_schedule_that_is_there_is_not_missing(stocked: Namespace) -> None:
    assert [] == _audit(stocked)


def test_schedules_without_a_place_are_missing(stocked: Namespace) -> None:
    stocked.redis.delete(stocked.keys.due_normal(), stocked.keys.paused())

    assert ["a", "p", "r"] == _audit(stocked)


@pytest.mark.parametrize("what", ["schedule", "template"])
def test_a_rule_without_its_hash_or_template_is_missing(stocked: Namespace, what: str) -> None:
    stocked.redis.delete(getattr(stocked.keys, what)("r"))

    assert ["r"] == _audit(stocked)


def test_a_one_shot_without_its_job_is_missing(stocked: Namespace) -> None:
    stocked.redis.delete(stocked.keys.rq.job(stocked.run("a", stocked.places()["a"].split()[-1])))

    assert ["a"] == _audit(stocked)
