"""The net effects of what people and programs asked for between two times: from an archive, and from the log alone."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.entries import at, entry
from tests.clocks import now_ms
from tests.unit.archive.contents import SteppingClock, archived
from tests.waiting import eventually
from zsched import Client
from zsched.archive import History
from zsched.core.clock import from_ms
from zsched.storage import effects
from zsched.storage.effects import effects_of

FUNC = "app.tasks.run"


def told(client: Client, start: datetime, end: datetime) -> list[tuple[str, str, int, tuple[str, ...]]]:
    """Return the effects by words, without leaders."""
    found, _, _ = client._effects(start, end)
    return sorted((one.words, one.by, one.number, one.ids) for one in found if not one.words.endswith(" leads"))


@pytest.mark.parametrize("source", ["daemon", "unanswered"], ids=["archive", "log"])
def test_the_effects_of_a_time_are_one_for_each_schedule_and_equal_ones_are_together(
    client: Client, redis_client: redis.Redis, request: pytest.FixtureRequest, source: str
) -> None:
    request.getfixturevalue(source)
    for id in ("old", "moved"):
        client.schedule(FUNC, id=id, cron="0 9 * * *", queue="mail")
    before = from_ms(now_ms(redis_client) + 1)
    eventually(lambda: from_ms(now_ms(redis_client)) >= before)
    ann, shop = client.acting_as("ann"), client.acting_as("shop")
    ann.update("moved", cron="0 10 * * *")
    ann.update("moved", cron="0 11 * * *", queue="fax")
    ann.schedule(FUNC, id="new", every=3600)
    ann.update("new", every=7200)
    for id in ("old", "new"):
        ann.pause(id, "no mails")
    client.acting_as("bob").resume("new")
    shop.schedule_many({"func": f"app.{name}", "id": f"{name}-{n}", "after": 3600} for name in "ab" for n in range(150))
    shop.cancel("a-7")
    shop.put_calendar("holidays", dates=["12-25"])

    found = told(client, before, from_ms(now_ms(redis_client) + 1))

    words = {(words, by, number) for words, by, number, _ in found}
    assert {
        ("changed cron: 0 9 * * * → 0 11 * * *; queue: mail → fax", "ann", 1),
        ("paused: no mails", "ann", 1),
        ("made, resumed", "ann, bob", 1),
        ("put app.a", "shop", 149),
        ("put app.a, cancelled", "shop", 1),
        ("put app.b", "shop", 150),
    } < words
    assert [("shop", 1, ())] == [(by, number, ids) for text, by, number, ids in found if "holidays" in text]
    assert [100] == [len(ids) for text, _, _, ids in found if text == "put app.b"]
    assert 7 == len(found)
    assert [("made", client.by, 2, ("moved", "old"))] == [
        (text, by, number, tuple(sorted(ids))) for text, by, number, ids in told(client, from_ms(0), before)
    ]


def test_effects_that_take_too_long_or_are_too_many_go_back_to_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = ("ann", "bob", "cid")
    cancels = [entry(seq, "cancel", "rows", 1, f"a-{seq}", 5, by=by) for seq, by in enumerate(people, start=1)]
    path = archived(tmp_path / "archive.db", cancels)
    time: dict[str, Any] = {"since_us": 0, "until_us": at(4).t_us}

    with History(path) as history:
        all, slow = effects_of(history, **time), effects_of(history, **time, clock=SteppingClock(400))
        some = effects_of(history, **(time | {"since_us": at(2).t_us, "until_us": at(3).t_us}))
        monkeypatch.setattr(effects, "_MOST", 1)
        many = effects_of(history, **time)

    assert (["cid", "bob", "ann"], None) == ([one.by for one in all["effects"]], all["reached_us"])
    assert (["cid", "bob"], at(1).t_us) == ([one.by for one in slow["effects"]], slow["reached_us"])
    assert (["bob"], None) == ([one.by for one in some["effects"]], some["reached_us"])
    assert (["cid"], at(3).t_us) == ([one.by for one in many["effects"]], many["reached_us"])
