"""client.update and pickles of other writers: none of them runs unless the client allows it."""

from __future__ import annotations

import os
import pickle
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.bombs import Bomb
from tests.integration.client.ground import HOUR, KEYS, payload
from tests.prefix import RQ
from zsched import Client, InvalidSchedule


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The file that a hostile pickle makes in the process that opens it."""
    return tmp_path / "made"


@pytest.fixture
def key(client: Client, redis_client: redis.Redis, soon: datetime, made: Path) -> str:
    """The job of a one-shot with a payload and meta that a user with rights to rq:job:* replaced."""
    key = f"{RQ}:job:{client.schedule('app.task', id='reminder-42', at=soon, args=(1,)).run_id}"
    evil = Bomb(os.system, f"touch {made}")
    redis_client.hset(key, mapping={"data": pickle.dumps(("app.task", None, (evil,), {})), "meta": pickle.dumps(evil)})
    return key


@pytest.mark.parametrize(
    ("change", "field"), [({"kwargs": {"a": 1}}, "args"), ({"args": (2,)}, "kwargs"), ({"func": "app.other"}, "args")]
)
def test_an_update_of_part_of_a_foreign_payload_is_refused_without_opening_it(
    client: Client, redis_client: redis.Redis, key: str, made: Path, change: dict[str, Any], field: str
) -> None:
    before = redis_client.hgetall(key)

    with pytest.raises(InvalidSchedule) as refused:
        client.update("reminder-42", **change)

    assert not made.exists()
    assert before == redis_client.hgetall(key)
    assert refused.value.field.startswith(field)
    assert "schedule 'reminder-42'" in str(refused.value)
    assert "posix.system" in str(refused.value)
    assert refused.value.remedy == (
        "give args and kwargs both, or Client(runs_pickles=True) if you trust every writer of RQ's jobs"
    )


def test_an_update_with_args_and_kwargs_replaces_a_payload_without_opening_it(
    client: Client, redis_client: redis.Redis, key: str, made: Path
) -> None:
    made_by_update = client.update("reminder-42", args=(2,), kwargs={"a": 1})

    assert not made.exists()
    assert ("app.task", None, (2,), {"a": 1}) == payload(redis_client, f"{RQ}:job:{made_by_update.run_id}")


def test_an_update_of_the_time_keeps_payload_and_meta_without_opening_them(
    client: Client, redis_client: redis.Redis, key: str, made: Path, soon: datetime
) -> None:
    before = redis_client.hmget(key, "data", "meta")

    moved = client.update("reminder-42", at=soon + HOUR)

    assert not made.exists()
    assert before == redis_client.hmget(f"{RQ}:job:{moved.run_id}", "data", "meta")


def test_an_update_keeps_plain_arguments_that_it_does_not_change(
    client: Client, redis_client: redis.Redis, soon: datetime
) -> None:
    client.schedule("app.task", id="a", at=soon, args=(soon, {1, 2}))

    made = client.update("a", kwargs={"k": 2})

    assert ("app.task", None, (soon, {1, 2}), {"k": 2}) == payload(redis_client, f"{RQ}:job:{made.run_id}")


def test_a_client_that_trusts_all_writers_opens_objects_of_any_class(redis_url: str, redis_client: redis.Redis) -> None:
    client = Client.from_url(redis_url, runs_pickles=True)
    client.schedule("app.task", id="r", every=60, args=(Fraction(1, 3),))

    with pytest.raises(InvalidSchedule, match=r"args: the stored ones of schedule 'r' .*fractions\.Fraction"):
        Client.from_url(redis_url).update("r", kwargs={"k": 2})
    client.update("r", kwargs={"k": 2})

    assert ("app.task", None, (Fraction(1, 3),), {"k": 2}) == payload(redis_client, KEYS.template("r"))
