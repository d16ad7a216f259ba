"""Schedules in quarantine are released, at every door."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.web import Web
from tests.clocks import pass_time
from tests.integration.client.calls import KEYS
from zsched import Client, InvalidSchedule, ScheduleNotFound
from zsched.aio import AsyncClient
from zsched.core.options.choices import ScheduleState

pytestmark = pytest.mark.once

FUNC = "app.remind"
IDS = ("once", "rule")


def quarantined(client: Client, redis_client: redis.Redis, *ids: str) -> None:
    """Put schedules, and quarantine them as a leader would; their content stays."""
    for id in ids:
        rule: dict[str, Any] = {"every": 3600} if id.startswith("rule") else {"after": 600}
        client.schedule(FUNC, id=id, **rule)
        due_ms = int(redis_client.zscore(KEYS.due_normal(), id))
        redis_client.zrem(KEYS.due_normal(), id)
        redis_client.hset(KEYS.quarantine(), id, f"normal {due_ms} 1 wrong type at a key (string)")


class Doors:
    """The ways to release schedules."""

    def __init__(self, web: Web, url: str) -> None:
        self.web, self.url, self.zsched, self.client = web, url, Zsched(url), Client.from_url(url)

    def call(self) -> None:
        for id in IDS:
            self.client.release(id)

    def call_many(self) -> None:
        assert 2 == self.client.release_many(match="*").done

    def call_in_a_loop(self) -> None:
        async def release() -> None:
            async with AsyncClient.from_url(self.url) as client:
                for id in IDS:
                    await client.release(id)

        asyncio.run(release())

    def command(self) -> None:
        assert "rule: released (next " in self.zsched("release", *IDS).stdout

    def command_with_filters(self) -> None:
        assert "2 schedules would be released" in self.zsched("release", "--match", "*", "--dry-run").stdout
        assert "2 schedules released" in self.zsched("release", "--match", "*").stdout

    def http(self) -> None:
        with self.web.client() as http:
            assert [200, 200] == [http.post(f"/schedules/{id}:release").status_code for id in IDS]

    def http_in_bulk(self) -> None:
        with self.web.client() as http:
            assert 2 == http.post("/schedules:release", json={"filter": {"match": "*"}}).json()["done"]

    def console(self) -> None:
        with self.web.browser("ann") as browser:
            for id in IDS:
                assert ">Release schedule &#39;" in browser.get(f"/schedules/{id}").text
                assert 303 == browser.post(f"/schedules/{id}:release").status_code

    def console_in_bulk(self) -> None:
        with self.web.browser("ann") as browser:
            assert "Release 2 schedules" in browser.get("/schedules:release?match=*").text
            assert 303 == browser.post("/schedules:release", data={"match": "*"}).status_code


@pytest.mark.parametrize("door", [name for name in vars(Doors) if not name.startswith("_")])
def test_schedules_in_quarantine_are_released(
    web: Web, redis_url: str, redis_client: redis.Redis, client: Client, door: str
) -> None:
    quarantined(client, redis_client, *IDS)
    client.schedule(FUNC, id="paused", every=3600)
    client.pause("paused")

    getattr(Doors(web, redis_url), door)()

    assert [b"once", b"rule"] == sorted(redis_client.zrange(KEYS.due_normal(), 0, -1))
    assert ScheduleState.PAUSED is client.get("paused").state


def test_a_released_schedule_keeps_its_time_or_skips_what_passed(client: Client, redis_client: redis.Redis) -> None:
    quarantined(client, redis_client, "once", "once-2", "rule", "rule-2")
    due = {id: client.get(id).next_at for id in ("once", "rule", "rule-2")}
    pass_time(redis_client, timedelta(hours=5, seconds=1))

    kept = {id: client.release(id) for id in ("once", "rule")}
    skipped = [client.release(id, "skip") for id in ("once-2", "rule-2")]

    assert [due["once"], due["rule"]] == [one.next_at for one in kept.values() if one is not None]
    assert skipped[0] is None
    assert skipped[1] is not None
    assert due["rule-2"] + timedelta(hours=5) == skipped[1].next_at  # type: ignore[operator]  # it is a time


LOSSES: dict[str, Callable[[redis.Redis], Any]] = {
    "its job": lambda r: r.delete(*r.keys(KEYS.rq.job("once-*"))),
    "its hash": lambda r: r.delete(KEYS.schedule("rule")),
    "its template": lambda r: r.delete(KEYS.template("rule")),
    "its time": lambda r: r.hset(KEYS.quarantine(), "rule", "normal - 1 its due time is none"),
    "its value": lambda r: r.hset(KEYS.quarantine(), "rule", "nonsense"),
}


@pytest.mark.parametrize("lost", LOSSES)
def test_a_schedule_that_lost_what_it_needs_is_not_released_and_the_error_says_who_can(
    client: Client, redis_client: redis.Redis, lost: str
) -> None:
    quarantined(client, redis_client, *IDS)
    LOSSES[lost](redis_client)
    id, other = ("once", "rule") if lost == "its job" else ("rule", "once")

    with pytest.raises(InvalidSchedule, match="a daemon restores it if its archive has it; otherwise schedule it"):
        client.release(id)
    result = client.release_many(match="*")

    assert (1, [id]) == (result.done, [refused for refused, _ in result.refused])
    assert ScheduleState.ACTIVE is client.get(other).state


def test_release_leaves_other_schedules_and_the_other_calls_name_it(client: Client, redis_client: redis.Redis) -> None:
    quarantined(client, redis_client, "once")
    client.schedule(FUNC, id="active", every=3600)

    for call in (client.resume, client.pause):
        with pytest.raises(InvalidSchedule, match="zsched release once releases it"):
            call("once")
    assert (active := client.release("active")) is not None
    assert ScheduleState.ACTIVE is active.state
    with pytest.raises(ScheduleNotFound):
        client.release("none")
    assert client.why("once").verdict.remedy.endswith("or release it if the cause is gone: zsched release once")
    client.update("once", queue="other")
    assert ScheduleState.ACTIVE is client.get("once").state


@pytest.mark.parametrize("rule", [{"after": 600}, {"every": 60}], ids=["one-shot", "rule"])
def test_a_put_that_keeps_what_exists_replaces_a_schedule_in_quarantine(
    client: Client, redis_client: redis.Redis, rule: dict[str, Any]
) -> None:
    quarantined(client, redis_client, "once")

    put = client.schedule(FUNC, id="once", if_exists="keep", **rule)
    again = client.schedule(FUNC, id="once", if_exists="keep", **rule)

    assert ("updated", "kept") == (put.outcome, again.outcome)
    assert ScheduleState.ACTIVE is client.get("once").state
