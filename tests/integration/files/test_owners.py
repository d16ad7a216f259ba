"""
A file owns the schedules that it created: schedules of other owners are unchanged, and omitted ones are removed on
request.
"""

from __future__ import annotations

import pytest
import redis

from tests.integration.files.ground import BEAT, DIGEST, Ground, log_length, texts
from zsched.client import Client
from zsched.errors import InvalidFile, InvalidSchedule

pytestmark = pytest.mark.once


@pytest.mark.parametrize(("owner", "told"), [("terraform", "'terraform'"), (None, "nobody")])
def test_a_schedule_of_another_owner_stops_the_whole_file(
    ground: Ground, redis_client: redis.Redis, owner: str | None, told: str
) -> None:
    ground.client.schedule("app.tasks.digest", id="digest", every=60, managed_by=owner)
    before = log_length(redis_client)

    with pytest.raises(InvalidFile) as caught:
        ground.apply(BEAT + DIGEST)

    problem = f"it exists and is managed by {told}, not by 'file:jobs.toml'; --take-over makes it this file's"
    assert (f"jobs.toml:4: [schedules.digest]: id='digest': {problem}, or give another id",) == caught.value.complaints
    assert before == log_length(redis_client)


def test_a_schedule_is_taken_over_when_asked(ground: Ground) -> None:
    ground.client.schedule("app.tasks.digest", id="digest", cron="0 9 * * *", managed_by="terraform")

    (step,) = ground.apply(DIGEST, takes_over=True).steps

    assert ("updated", ["managed_by: terraform → file:jobs.toml"]) == (step.outcome, texts(step))


def test_a_one_shot_is_never_replaced(ground: Ground) -> None:
    ground.client.schedule("app.tasks.digest", id="digest", after=3600, managed_by="file:jobs.toml")

    with pytest.raises(InvalidFile, match="a one-shot of this id exists; cancel that one first"):
        ground.apply(DIGEST, takes_over=True)

    assert "once" == ground.client.get("digest").kind


def test_a_namespace_of_another_serializer_is_refused_before_a_payload_is_opened(redis_client: redis.Redis) -> None:
    Ground(Client(redis_client, serializer="json")).apply(BEAT)

    with pytest.raises(InvalidSchedule, match="uses json"):
        Ground(Client(redis_client, serializer="pickle")).apply(BEAT)


def test_pruning_removes_only_schedules_that_the_file_owned(ground: Ground) -> None:
    ground.apply(BEAT + DIGEST)
    ground.client.schedule("app.other", id="nobodys", every=60)
    ground.client.schedule("app.other", id="others", every=60, managed_by="terraform")
    ground.client.schedule("app.other", id="one-shot", after=3600, managed_by="file:jobs.toml")
    ground.client.pause("beat")

    kept, removed = ground.apply(DIGEST), ground.apply(DIGEST, prune=True)

    assert ([], ["beat"]) == (kept.removed, removed.removed)
    assert ["digest", "nobodys", "one-shot", "others"] == ground.ids()


def test_a_schedule_that_changed_owners_is_not_removed(ground: Ground) -> None:
    ground.apply(BEAT + DIGEST)
    application = ground.application(DIGEST)
    stale = application.stale()
    ground.client.update("beat", managed_by="terraform")

    applied = application.run(application.compare(), stale, lambda done: None)

    assert (["beat"], []) == (stale, applied.removed)
    assert ["beat", "digest"] == ground.ids()


def test_an_empty_file_removes_schedules_only_with_pruning(ground: Ground) -> None:
    ground.apply(BEAT + DIGEST)

    applied = ground.apply("[schedules]", prune=True)

    assert (["beat", "digest"], []) == (applied.removed, ground.ids())
