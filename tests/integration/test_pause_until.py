"""Pauses that end by themselves, with a real daemon: at their time, once, also after a loss or another leader."""

from datetime import timedelta

import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.clocks import now_ms, set_back
from tests.integration.test_skip import archiving, lose
from tests.ledger import queued
from tests.waiting import eventually
from zsched import Client, InvalidSchedule
from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.options.choices import ScheduleState

FUNC = "app.tasks.run"
AGO_MS = 10 * 60_000


def is_active(client: Client, id: str = "tick") -> bool:
    return client.get(id).state is ScheduleState.ACTIVE


def test_a_pause_with_an_end_is_resumed_by_the_leader_without_the_missed_times(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    until = from_ms(now_ms(redis_client) - 60_000)
    with set_back(redis_client, AGO_MS):
        client.schedule(FUNC, id="tick", cron="* * * * *", catch_up="all", overlap="allow")
        paused = client.pause("tick", "the provider is down", until=until)
    assert (until, ScheduleState.PAUSED) == (from_ms(paused.resumes_ms or 0), paused.state)

    with DaemonThread(redis_url):
        eventually(lambda: is_active(client))

    assert (client.get("tick").next_ms or 0) > now_ms(redis_client) - 60_000
    told = "\n".join(text for _, text in client.why("tick").lines)
    assert f"paused by {client.by} until {until:%Y-%m-%d %H:%M:%S}" in told
    assert f"resumed, as {client.by} had asked" in told
    [skipped] = [one for one in client.history("tick", limit=200) if one.what is What.SKIPPED]
    assert ("paused", True) == (skipped.why, skipped.count >= 8)
    assert 0 == redis_client.exists("zsched:{default}:resumes")
    assert len(queued(redis_client)) <= 1


def test_a_pause_whose_end_is_to_come_lasts(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    later = from_ms(now_ms(redis_client)) + timedelta(hours=1)
    client.schedule(FUNC, id="tick", cron="* * * * *")
    client.schedule(FUNC, id="tock", cron="* * * * *")
    client.pause("tick", until=later)
    with set_back(redis_client, AGO_MS):
        client.pause("tock", until=from_ms(now_ms(redis_client) - AGO_MS // 2))

    with DaemonThread(redis_url):
        eventually(lambda: is_active(client, "tock"))

    assert not is_active(client)
    assert f"until {later:%Y-%m-%d %H:%M}" in client.why("tick").verdict.text


def test_the_end_of_a_pause_can_be_moved_and_taken_away(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with set_back(redis_client, AGO_MS):
        soon = from_ms(now_ms(redis_client) - AGO_MS // 2)
        for id in ("moved", "lasting", "put", "tock"):
            client.schedule(FUNC, id=id, cron="0 0 1 1 *")
            client.pause(id, until=soon)
        later = from_ms(now_ms(redis_client)) + timedelta(days=1)
        client.pause("moved", until=later)
        client.pause("lasting")
        client.resume("put")
        client.pause("put")

    with DaemonThread(redis_url):
        eventually(lambda: is_active(client, "tock"))
        eventually(lambda: 1 == redis_client.zcard("zsched:{default}:resumes"))

    assert {"moved", "lasting", "put"} == {one.id for one in client.list(state="paused")}
    assert later == from_ms(client.get("moved").resumes_ms or 0)
    assert client.get("lasting").resumes_ms is None


def test_a_pause_with_an_end_returns_after_a_loss_and_ends(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    client.schedule(FUNC, id="tick", cron="0 0 1 1 *")
    until = from_ms(now_ms(redis_client)) + timedelta(hours=1)

    with archiving(client, redis_url):
        client.pause("tick", "why not", until=until)
        lose(client, redis_client)
        held = client.get("tick")
        assert (until, client.by, "why not") == (from_ms(held.resumes_ms or 0), held.paused_by, held.note)
        redis_client.hset("zsched:{default}:meta", "offset_ms", 2 * 3_600_000)
        eventually(lambda: is_active(client))


def test_a_later_leader_ends_a_pause(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    client.schedule(FUNC, id="tick", cron="0 0 1 1 *")
    with DaemonThread(redis_url) as first:
        first.wait_for("term_began")
        with set_back(redis_client, AGO_MS):
            client.pause("tick", until=from_ms(now_ms(redis_client) - AGO_MS // 2))
    with DaemonThread(redis_url):
        eventually(lambda: is_active(client))

    told = [one.what for one in client.why("tick").changes]
    assert 1 == told.count(What.RESUMED)


def test_an_end_that_has_passed_is_refused(client: Client, redis_client: redis.Redis) -> None:
    client.schedule(FUNC, id="tick", cron="0 0 1 1 *")

    with pytest.raises(InvalidSchedule, match="the time has come"):
        client.pause("tick", until=from_ms(now_ms(redis_client) - 1))
    assert is_active(client)


def test_a_local_end_is_in_the_zone_of_the_schedule(client: Client, redis_client: redis.Redis) -> None:
    client.schedule(FUNC, id="tick", cron="0 0 1 1 *", tz="Asia/Seoul")
    tomorrow = (from_ms(now_ms(redis_client)) + timedelta(days=1)).replace(tzinfo=None, microsecond=0)

    paused = client.pause("tick", until=tomorrow)

    assert tomorrow - timedelta(hours=9) == from_ms(paused.resumes_ms or 0).replace(tzinfo=None)


def test_a_pause_with_an_end_raises_no_warning_when_a_time_passes(client: Client, redis_client: redis.Redis) -> None:
    later = from_ms(now_ms(redis_client)) + timedelta(hours=1)
    with set_back(redis_client, AGO_MS):
        for id in ("tick", "tock"):
            client.schedule(FUNC, id=id, cron="* * * * *")
        client.pause("tick", until=later)
        client.pause("tock")

    assert ["tock"] == [id for id, _ in client._overview().troubles.overdue_paused.worst]
