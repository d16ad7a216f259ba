"""The client on fakeredis, for the tests of users of zsched: every client script parses and runs there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import fakeredis
import pytest
import redis
import redis.asyncio

from zsched import Client, ConfigError, ScheduleNotFound
from zsched.core.choices import ScheduleState

SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)

KINDS: dict[str, dict[str, Any]] = {
    "at": {"at": SOON},
    "after": {"after": 60},
    "every": {"every": 60},
    "cron": {"cron": "0 9 * * *", "tz": "Asia/Seoul"},
    "rrule": {"rrule": "FREQ=DAILY;BYHOUR=9"},
}


@pytest.fixture
def client() -> Client:
    return Client(fakeredis.FakeRedis())


OPERATIONS: dict[str, Callable[[Client], Any]] = {
    "update": lambda c: c.update("a", args=(2,)).outcome == "updated",
    "pause": lambda c: c.pause("a", "why").state is ScheduleState.PAUSED,
    "resume": lambda c: c.pause("a") and c.resume("a").state is ScheduleState.ACTIVE,  # type: ignore[union-attr]
    "skip": lambda c: c.pause("a") and c.resume("a", "skip").state is ScheduleState.ACTIVE,  # type: ignore[union-attr]
    "run_now": lambda c: c.run_now("a").startswith("a-"),
    "cancel": lambda c: c.cancel("a") == "cancelled" and c.cancel("a") == "not_found",
    "enqueue": lambda c: c.enqueue("app.task", (1,)).outcome == "created",
    "list": lambda c: [schedule.id for schedule in c.list()] == ["a"],
    "preview": lambda c: len(c.preview("a", n=1)) == 1,
    "overview": lambda c: sum(c.overview().waiting.values()) == 1,
    "again": lambda c: c.schedule("app.task", id="a", after=5).outcome == "updated",
    "keep": lambda c: c.schedule("app.task", id="a", after=5, if_exists="keep").outcome == "kept",
    "many": lambda c: c.schedule_many({"func": "app.task", "after": 5} for _ in range(3)).created == 3,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_of_the_client_works_on_fakeredis(client: Client, kind: str, operation: str) -> None:
    assert "created" == client.schedule("app.task", args=(1,), id="a", **KINDS[kind]).outcome
    assert ("once" if kind in ("at", "after") else kind) == client.get("a").kind

    assert OPERATIONS[operation](client)


def test_a_rule_is_backfilled_on_fakeredis(client: Client) -> None:
    client.schedule("app.task", id="a", cron="0 * * * *")
    this_hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)  # not before it is the schedule's next

    done = client.backfill("a", this_hour - timedelta(days=1), this_hour)

    assert 24 == len(done.run_ids)


def test_an_unknown_schedule_is_not_found_on_fakeredis_either(client: Client) -> None:
    with pytest.raises(ScheduleNotFound):
        client.get("a")


@pytest.mark.parametrize("given", ["redis://:secret@localhost", None, redis.asyncio.Redis()])
def test_an_object_of_another_class_than_a_redis_client_is_refused_without_its_secrets(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^redis=.*not a redis\.Redis; give one, or use Client\.from_url") as caught:
        Client(given)
    assert "secret" not in str(caught.value)


def test_a_client_that_decodes_its_replies_is_accepted() -> None:
    client = Client(fakeredis.FakeRedis(decode_responses=True))

    client.schedule("app.task", id="a", every=5)

    assert ["a"] == [schedule.id for schedule in client.list()]
