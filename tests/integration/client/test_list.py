"""client.list: filters, order, cursors."""

import json
from datetime import datetime
from itertools import islice
from typing import Any

import pytest
import redis

from tests.integration.client.calls import HOUR, KEYS, SOON, ids
from zsched import Client, InvalidSchedule, ScheduleNotFound
from zsched.core.options.allowed import Limits
from zsched.core.options.choices import Priority


def test_a_listing_applies_every_filter_and_lists_paused_schedules_last(client: Client) -> None:
    client.schedule("app.a", id="late", at=SOON + HOUR, queue="sms", priority="high")
    client.schedule("app.b", id="early", at=SOON, tags=["t"], priority="low")
    client.schedule("app.a", id="rule", cron="0 0 1 1 *")
    client.schedule("app.a", id="held", at=SOON)
    client.pause("held")

    assert ids(client.list())[-1] == "held"
    assert ["early", "late", "rule"] == sorted(ids(client.list(state="active")))
    assert ["early", "late"] == ids(client.list(kind="once", state="active"))
    assert ["late"] == ids(client.list(queue="sms"))
    assert ["early"] == ids(client.list(tag="t"))
    assert ["early"] == ids(client.list(func="app.b"))
    assert ["held"] == ids(client.list(match="h*"))
    assert ["early"] == ids(client.list(state="active", due_before=SOON + HOUR, due_after=SOON - HOUR, kind="once"))
    assert ["late"] == ids(client.list(due_after=SOON, due_before=SOON + 2 * HOUR, kind="once"))
    for bad in ({"state": "gone"}, {"due_after": datetime(2026, 1, 1)}, {"limit": -1}, {"after": "x"}, {"kind": "x"}):
        with pytest.raises(InvalidSchedule):
            client.list(**bad)


def test_a_client_with_limits_reads_no_schedule_beyond_them(client: Client) -> None:
    for id, queue in (("a", "sms"), ("b", "shop"), ("c", "shop")):
        client.schedule("app.a", id=id, at=SOON, queue=queue)
    shop = client.acting_as("shop", Limits(queues=("shop",)))

    assert ["b"] == ids(shop.list(limit=1))
    assert "b" == shop.get("b").id
    for read in (shop.get, shop.preview):
        with pytest.raises(ScheduleNotFound):
            read("a")


@pytest.mark.parametrize("text", ["größe", 'a"b', "a\\b", "<&>", "ключ", "😀"])
def test_a_listing_filters_by_any_text(client: Client, text: str) -> None:
    given: dict[str, Any] = {"tags": [text, "t"], "queue": text, "owner": text}
    client.schedule("app.a", id="once", at=SOON, **given)
    client.schedule("app.a", id="rule", every=60, **given)
    client.schedule("app.a", id="other", at=SOON, tags=[f"{text}!"])

    assert ["once", "rule"] == sorted(ids(client.list(tag=text)))
    assert ["once", "rule"] == sorted(ids(client.list(queue=text)))
    assert ["rule"] == ids(client.list(queue=text, kind="recurring"))
    assert ["once", "rule"] == sorted(ids(client.list(owner=text)))


def test_pages_of_schedules_due_in_one_millisecond_are_complete(client: Client) -> None:
    rows = [
        {"func": "app.task", "id": f"i-{n:04}", "at": SOON, "priority": ("high", "low")[n % 2]} for n in range(2500)
    ]
    client.schedule_many([*rows, {"func": "app.task", "id": "z", "at": SOON + HOUR}])
    client.pause("i-0007")
    expected = [row["id"] for row in rows if row["id"] != "i-0007"] + ["z", "i-0007"]

    seen: list[str] = []
    after = None
    while page := list(client.list(limit=700, after=after)):
        seen += [schedule.id for schedule in page]
        after = page[-1].cursor

    assert expected == seen
    assert expected == ids(client.list())


@pytest.mark.parametrize("gone", [range(150), range(50, 450), range(500), range(0, 500, 2)])
def test_schedules_that_leave_a_listing_hide_no_other(client: Client, redis_client: redis.Redis, gone: range) -> None:
    names = [f"i-{n:04}" for n in range(1500)]
    client.schedule_many({"func": "app.task", "id": id, "at": SOON + n // 500 * HOUR} for n, id in enumerate(names))
    client.schedule("app.task", id="z", at=SOON + 3 * HOUR)

    listing = client.list()
    seen = ids(islice(listing, 200))
    redis_client.zrem(KEYS.due(Priority.NORMAL), *(names[n] for n in gone))
    seen += ids(listing)

    remain = [id for n, id in enumerate(names) if n < 200 or n not in gone]
    assert [*remain, "z"] == seen


def test_a_listing_reads_no_more_than_it_needs(client: Client, redis_client: redis.Redis) -> None:
    client.schedule_many({"func": "app.task", "at": SOON} for _ in range(2000))
    redis_client.config_resetstat()

    assert 5 == len(list(client.list(limit=5)))
    stats = redis_client.info("commandstats")
    before = stats["cmdstat_zrangebyscore"]["calls"]
    assert 5 == stats["cmdstat_hgetall"]["calls"]

    assert 5 == len(list(islice(client.list(), 5)))
    stats = redis_client.info("commandstats")
    assert stats["cmdstat_hgetall"]["calls"] <= 5 + 200
    assert stats["cmdstat_zrangebyscore"]["calls"] - before <= 3


def test_a_listing_by_id_reads_only_what_matches(client: Client, redis_client: redis.Redis) -> None:
    rows = [{"func": "app.task", "id": f"i-{n:04}", "at": SOON + n // 900 * HOUR} for n in range(5000)]
    client.schedule_many(rows)
    matching = [row["id"] for row in rows if "99" in row["id"]]
    redis_client.config_resetstat()

    first = list(client.list(match="*99*", limit=5))
    rest = client.list(match="*99*", after=first[-1].cursor)

    assert matching == [*(one.id for one in first), *ids(rest)]
    stats = redis_client.info("commandstats")
    assert len(matching) == stats["cmdstat_hgetall"]["calls"]
    assert stats["cmdstat_zrangebyscore"]["calls"] <= 20


def test_a_corrupted_schedule_or_score_hides_no_other(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="a", at=SOON)
    client.schedule("app.task", id="r", every=60, tags=["t"])
    client.schedule("app.task", id="s", every=60)
    redis_client.hset(KEYS.schedule("r"), mapping={"trigger": "garbage", "tags": "[", "anchor": "x"})
    redis_client.delete(KEYS.schedule("s"))

    assert ["a", "r", "s"] == sorted(ids(client.list()))
    assert (None, ()) == (client.get("r").trigger, client.get("r").tags)
    json.dumps([schedule.to_dict() for schedule in client.list()])

    client.schedule("app.task", id="good", every=60)
    redis_client.zadd(KEYS.due_normal(), {"odd": 1.5, "far": 1e300})

    assert "good" in ids(client.list())
    assert 3 + 3 == sum(client._overview().waiting.values())
