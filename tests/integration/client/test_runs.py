"""client.enqueue and client.run_now."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
import redis

from tests.integration.client.ground import queued
from zsched import (
    Client,
    ScheduleExists,
    ScheduleNotFound,
)
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
