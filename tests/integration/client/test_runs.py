"""client.enqueue and client.run_now."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
import redis

from tests.integration.client.ground import KEYS, queued
from zsched import Client, InvalidSchedule, ScheduleExists, ScheduleNotFound
from zsched.core.clock import to_ms


def test_enqueue_pushes_at_once(client: Client, redis_client: redis.Redis) -> None:
    made = client.enqueue("app.task", (1,), {"k": 2}, queue="sms", id="e")

    assert ("e", "created", [made.run_id]) == (made.id, made.outcome, queued(redis_client, "sms"))
    assert [] == list(client.list())
    json.dumps(made.to_dict())


def test_enqueue_honours_if_exists(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="a", after=60)

    with pytest.raises(ScheduleExists):
        client.enqueue("app.task", id="a", if_exists="error")
    assert ("kept", None) == (client.enqueue("app.task", id="a", if_exists="keep").outcome, None)
    assert [] == queued(redis_client)
    assert "updated" == client.enqueue("app.task", id="a").outcome
    assert (1, []) == (len(queued(redis_client)), list(client.list()))


def test_an_id_that_was_enqueued_with_keep_runs_once(client: Client, redis_client: redis.Redis) -> None:
    first = client.enqueue("app.pay", id="pay-77", if_exists="keep")
    again = client.enqueue("app.pay", (2,), id="pay-77", if_exists="keep", unique_for="1h")

    assert ("created", "kept") == (first.outcome, again.outcome)
    assert (first.run_id, None) == (again.run_id, again.next_at)
    assert [first.run_id] == queued(redis_client)
    with pytest.raises(ScheduleExists, match=f"^id 'pay-77' was enqueued already: run {first.run_id}; "):
        client.enqueue("app.pay", id="pay-77", if_exists="error")
    assert 86_000_000 < redis_client.pttl(f"{KEYS.unique_prefix()}pay-77") <= 86_400_000


def test_the_id_of_a_cancelled_run_can_be_enqueued_again(client: Client, redis_client: redis.Redis) -> None:
    first = client.enqueue("app.pay", id="pay-77", if_exists="keep")
    assert first.run_id is not None
    client.cancel_run(first.run_id)

    again = client.enqueue("app.pay", id="pay-77", if_exists="keep")

    assert ("created", [again.run_id]) == (again.outcome, queued(redis_client))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"unique_for": 60}, "unique_for=60: each of these calls is another run; give id= and if_exists="),
        ({"id": "a", "unique_for": 60}, "unique_for=60: each of these calls"),
        ({"if_exists": "keep", "unique_for": 60}, "unique_for=60: each of these calls"),
        ({"id": "a", "if_exists": "keep", "unique_for": "soon"}, "unique_for='soon': not a duration"),
        ({"id": "a", "if_exists": "keep", "unique_for": 0}, "unique_for=0: out of range"),
        ({"id": "a", "period": 60}, "period=60: no such option here; our option is unique_for="),
    ],
)
def test_a_time_for_which_nothing_counts_is_refused(
    client: Client, redis_client: redis.Redis, options: Any, told: str
) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        client.enqueue("app.pay", **options)

    assert str(caught.value).startswith(told)
    assert [] == redis_client.keys("*")


def test_run_now_removes_a_one_shot_and_keeps_a_recurring_schedule(
    client: Client, redis_client: redis.Redis, soon: datetime
) -> None:
    client.schedule("app.task", id="a", at=soon)
    client.schedule("app.task", id="r", every=60)

    runs = [client.run_now("a"), client.run_now("r"), client.run_now("r")]

    assert f"a-{to_ms(soon)}" == runs[0]
    assert (runs, 3) == (queued(redis_client), len(set(runs)))
    assert ["r"] == [schedule.id for schedule in client.list()]
    assert runs[2] == client.get("r").last_run_id
    with pytest.raises(ScheduleNotFound, match="'a'"):
        client.run_now("a")
