"""Puts of one client, which remembers the shapes of earlier ones: each is as that of a new client."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import permutations
from typing import Any

import pytest
import redis

from tests.integration.client.ground import KEYS, payload
from zsched import Client
from zsched.errors import InvalidSchedule

AT = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=3)
ONCE: list[dict[str, Any]] = [
    {"at": AT},
    {"at": AT.astimezone(timezone(timedelta(hours=9))), "args": (1,)},
    {"at": (AT + timedelta(days=1)).replace(tzinfo=None), "tz": "Asia/Seoul", "args": [True]},
    {"at": AT, "kwargs": {"a": 1.0}, "queue": "mail"},
    {"at": AT, "tags": ["b", "a"], "priority": "high"},
    {"at": AT, "tags": ["a"], "priority": "high", "jitter": 60},
    {"at": AT, "timeout": 60, "expires_after": 90},
    {"at": AT, "enabled": False},
]
RULES: list[dict[str, Any]] = [
    {"every": 60},
    {"every": 60.0, "args": (1,)},
    {"cron": "0 9 * * *", "tz": "Asia/Seoul"},
    {"cron": "0 9 * * *", "tz": "Asia/Seoul", "jitter": 600},
    {"cron": "0 10 * * *", "count": 2, "overlap": "skip"},
]


def stored(client: Client, redis_client: redis.Redis) -> Any:
    """Return what Redis holds of schedule ``a``, but the times of its puts."""
    found = client.get("a")
    key = KEYS.rq.job(KEYS.run_id("a", found.next_ms or 0)) if found.kind == "once" else KEYS.template("a")
    job = {name: value for name, value in redis_client.hgetall(key).items() if name not in (b"created_at", b"data")}
    own = found.to_dict()
    for name in ("version", "created_at", "updated_at", "anchor_at", "since"):
        own.pop(name)
    return own, job, payload(redis_client, key), found.next_ms


@pytest.mark.parametrize("puts", [ONCE, RULES], ids=["once", "rules"])
def test_a_put_of_a_known_shape_is_as_that_of_a_new_client(
    client: Client, redis_url: str, redis_client: redis.Redis, puts: list[dict[str, Any]]
) -> None:
    alone = []
    for options in puts:
        if "every" not in options:  # its times depend on the put's
            client.cancel("a")
            Client.from_url(redis_url).schedule("app.task", id="a", **options)
            alone.append((options, stored(client, redis_client)))
    for (first, _), (second, expected) in permutations(alone, 2):
        for options in (first, second, first, second):
            client.cancel("a")
            client.schedule("app.task", id="a", **options)
        assert expected == stored(client, redis_client), (first, second)


@pytest.mark.parametrize(
    ("bad", "option"),
    [({"args": 5}, "args"), ({"at": "noon"}, "at"), ({"id": "a/b"}, "id"), ({"kwargs": {1: 2}}, "kwargs"),
     ({"queue": "a b"}, "queue"), ({"at": None}, "trigger"), ({"after": 5}, "at and after")],
)  # fmt: skip
def test_a_bad_put_of_a_known_shape_names_the_option(client: Client, bad: dict[str, Any], option: str) -> None:
    good: dict[str, Any] = {"id": "a", "at": AT}
    client.schedule("app.task", **good)
    with pytest.raises(InvalidSchedule) as refused:
        client.schedule("app.task", **{**good, **bad})
    assert option == refused.value.field
