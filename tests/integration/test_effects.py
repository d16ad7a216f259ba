"""The net effects of what people and programs asked for between two times: from an archive, and from the log alone."""

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
from zsched.core.clock import from_ms, to_ms
from zsched.core.occurrences.changes import BACKFILL, RUN_NOW, Change
from zsched.core.occurrences.outcomes import What
from zsched.storage import answering
from zsched.storage.answering import effects_of
from zsched.storage.history_reader import HistoryReader

FUNC = "app.tasks.run"


def told(client: Client, start: datetime, end: datetime) -> list[tuple[str, str, int, list[str]]]:
    """Return the effects by words, without leaders."""
    told, _ = HistoryReader(client._link, client._keys).effects(to_ms(start), to_ms(end))
    found = ((one["words"], one["by"], one["number"], one["ids"]) for one in told["effects"])
    return sorted(one for one in found if not one[0].endswith(" leads"))


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
    assert [("shop", 1, [])] == [(by, number, ids) for text, by, number, ids in found if "holidays" in text]
    assert [100] == [len(ids) for text, _, _, ids in found if text == "put app.b"]
    assert 7 == len(found)
    assert [("made", client.by, 2, ["moved", "old"])] == [
        (text, by, number, sorted(ids)) for text, by, number, ids in told(client, from_ms(0), before)
    ]


def test_effects_that_take_too_long_or_are_too_many_go_back_to_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = ("ann", "bob", "cid")
    cancels = [entry(seq, "cancel", "rows", 1, f"a-{seq}", 5, by=by) for seq, by in enumerate(people, start=1)]
    path = archived(tmp_path / "archive.db", cancels)
    time: dict[str, Any] = {"since_us": 0, "until_us": at(4).t_us}

    with History(path) as history:
        all, slow = effects_of(history, **time), effects_of(history, **time, clock=SteppingClock(150))
        some = effects_of(history, **(time | {"since_us": at(2).t_us, "until_us": at(3).t_us}))
        monkeypatch.setattr(answering, "_EFFECTS", 1)
        many = effects_of(history, **time)

    assert (["cid", "bob", "ann"], None) == ([one["by"] for one in all["effects"]], all["reached_us"])
    assert (["cid", "bob"], at(1).t_us) == ([one["by"] for one in slow["effects"]], slow["reached_us"])
    assert (["bob"], None) == ([one["by"] for one in some["effects"]], some["reached_us"])
    assert (["cid"], 2) == ([one["by"] for one in many["effects"]], many["more"])


def change(what: What, why: str = "", nominal_ms: int | None = None) -> Change:
    return Change("a", what, 5, "1-1", why=why, nominal_ms=nominal_ms, by="ann")


PUT, CANCEL, RESUME = change(What.PUT), change(What.CANCELLED), change(What.RESUMED)
NOW, DIED = change(What.ENQUEUED, RUN_NOW), change(What.RUN_ENDED, "cancelled")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([PUT, PUT], "made"),
        ([change(What.PAUSED, "first"), RESUME, change(What.PAUSED, "no mails")], "paused: no mails"),
        ([change(What.PAUSED), RESUME, change(What.SKIPPED, "paused")], "resumed"),
        ([PUT, change(What.PAUSED), NOW, CANCEL], "made, cancelled"),
        ([CANCEL, PUT], "cancelled, made"),
        ([NOW, change(What.ENQUEUED, BACKFILL), NOW, NOW], "enqueued: backfill, enqueued: run now ×3"),
        ([change(What.RETRIED, "a-1"), DIED], "retried, run ended: cancelled"),
        (
            [
                change(What.SKIP_ASKED, "", 1),
                change(What.SKIP_ASKED, "holiday", 2),
                change(What.SKIP_TAKEN_BACK, "", 1),
            ],
            "skip asked: holiday, skip taken back",
        ),
    ],
)
def test_the_last_of_equal_and_opposite_changes_is_left(changes: list[Change], expected: str) -> None:
    assert expected == answering._left(changes, "made")
