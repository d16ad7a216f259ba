"""``cancel_many``, ``pause_many`` and ``resume_many``: schedules that filters choose."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from tests.builders.leaders import KEYS
from tests.clocks import pass_time
from tests.integration.client.calls import HOUR
from zsched import Client, InvalidSchedule, RedisUnavailable
from zsched.core.clock import ManualClock
from zsched.core.options.allowed import Limits
from zsched.core.repair import AT_ONCE
from zsched.storage.connection import Link
from zsched.storage.log import Log
from zsched.storage.store import Store

FUNC = "app.task"
LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def client(link: Link) -> Client:
    return Client(link)


def campaign(client: Client, number: int, **more: Any) -> list[str]:
    """Put *number* one-shots, and one schedule that no filter of a test chooses."""
    ids = [f"mail-{n:04}" for n in range(number)]
    rows: list[Any] = [{"func": FUNC, "id": id, "at": LATER, "tags": ["sale"], **more} for id in ids]
    client.schedule_many([*rows, {"func": FUNC, "id": "other", "every": 60}])
    return ids


def kinds(link: Link) -> list[str]:
    return [entry.kind for entry in Log(link, KEYS).entries()]


def test_cancel_many_cancels_what_the_filter_chooses_with_an_entry_per_portion(client: Client, link: Link) -> None:
    campaign(client, 250)
    progress: list[tuple[int, int]] = []

    result = client.cancel_many(tag="sale", on_progress=lambda done, total: progress.append((done, total)))

    assert (250, 250, 0, []) == (result.found, result.done, result.skipped, list(result.refused))
    assert ["other"] == [schedule.id for schedule in client.list()]
    assert 3 == kinds(link).count("cancel")
    assert [(0, 250), (AT_ONCE, 250), (2 * AT_ONCE, 250), (250, 250)] == progress


@pytest.mark.parametrize(
    "chosen",
    [{"tag": "sale"}, {"match": "mail-*"}, {"queue": "push"}, {"func": "app.mail"}, {"owner": "ann"}, {"kind": "once"}],
    ids=lambda chosen: next(iter(chosen)),
)
def test_schedules_are_chosen_by_each_filter(client: Client, chosen: dict[str, Any]) -> None:
    ids = campaign(client, 3, queue="push", func="app.mail", owner="ann")

    assert ids == list(client.cancel_many(**chosen, dry_run=True).sample)


def test_a_dry_run_and_a_plan_that_is_not_confirmed_change_nothing(client: Client, link: Link) -> None:
    ids = campaign(client, 25)
    before, asked = kinds(link), list[int]()

    plan = client.cancel_many(tag="sale", dry_run=True)
    result = client.cancel_many(tag="sale", confirm=lambda plan: bool(asked.append(plan.found)))

    assert (25, tuple(ids[:10]), 0, True) == (plan.found, plan.sample, plan.done, plan.is_dry_run)
    assert ([25], True) == (asked, result.is_dry_run)
    assert before == kinds(link)


def test_a_limit_takes_only_the_first_candidates_and_a_result_is_json(client: Client) -> None:
    ids = campaign(client, 5)

    assert 2 == client.cancel_many(tag="sale", limit=2).done
    assert ids[2:] == [schedule.id for schedule in client.list(tag="sale")]
    assert {
        "found": 3, "done": 3, "skipped": 0, "refused": [], "refused_count": 0, "sample": ids[2:], "source": None,
        "dry_run": False,
    } == client.cancel_many(tag="sale").to_dict()  # fmt: skip


def test_pause_many_pauses_active_schedules_and_resume_many_resumes_them(client: Client, link: Link) -> None:
    ids = campaign(client, 150)
    client.pause(ids[7], "long ago")

    paused = client.pause_many("mail provider down", tag="sale")
    notes = {schedule.note for schedule in client.list(tag="sale")}
    resumed = client.resume_many(tag="sale", per_second=100_000)

    assert (149, 149) == (paused.found, paused.done)
    assert {"mail provider down", "long ago"} == notes
    assert (150, 150) == (resumed.found, resumed.done)
    assert {"active"} == {schedule.state.value for schedule in client.list()}
    assert (3, 2) == (kinds(link).count("pause"), kinds(link).count("resume"))


def test_resume_many_with_skip_plans_rules_and_drops_one_shots(client: Client, redis_client: redis.Redis) -> None:
    client.schedule(FUNC, id="tick", every=3600, tags=["sale"])
    client.schedule(FUNC, id="late", at=datetime(2026, 1, 1, tzinfo=UTC), allow_past=True, tags=["sale"])
    client.schedule(FUNC, id="later", at=LATER, tags=["sale"])
    client.pause_many(tag="sale")
    pass_time(redis_client, 2 * HOUR)

    result = client.resume_many("skip", tag="sale")

    assert (3, 3, []) == (result.found, result.done, list(result.refused))
    assert {"tick", "later"} == {schedule.id for schedule in client.list(state="active")}


def test_a_refused_schedule_does_not_stop_the_others(client: Client, redis_client: redis.Redis) -> None:
    client.schedule(FUNC, id="broken", every=60)
    client.schedule(FUNC, id="fine", every=60)
    redis_client.zrem(KEYS.due_normal(), "broken")
    redis_client.hset(KEYS.quarantine(), "broken", "normal 5 5 no rule")

    result = client.pause_many(match="*", state=None)

    assert (1, 1) == (result.done, result.refused_count)
    assert ["broken"] == [id for id, _ in result.refused]
    assert "quarantined" in result.refused[0][1]


def test_a_repeated_call_continues_after_a_lost_redis(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign(client, 250)
    cancel, calls = Store.cancel, 0

    def lost(store: Store, *given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RedisUnavailable("away", may_have_been_applied=True)
        return cancel(store, *given, **named)

    monkeypatch.setattr(Store, "cancel", lost)
    with pytest.raises(RedisUnavailable, match=r"100 of 250 were done before; repeating the call continues"):
        client.cancel_many(tag="sale")

    again = client.cancel_many(tag="sale")

    assert (150, 150) == (again.found, again.done)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "match"), ({"tag": None}, "match"), ({"tag": "sale", "limit": 0}, "limit"),
        ({"tag": "sale", "per_second": True}, "per_second"), ({"tag": "sale", "dry_run": "no"}, "dry_run"),
        ({"state": "gone"}, "state"),
    ],
)  # fmt: skip
def test_invalid_options_are_refused_and_change_nothing(client: Client, given: dict[str, Any], field: str) -> None:
    campaign(client, 1)

    with pytest.raises(InvalidSchedule) as refused:
        client.cancel_many(**given)
    assert field == refused.value.field
    assert 2 == len(list(client.list()))


def test_changes_are_spread_by_their_rate(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign(client, 40)
    seen: list[float] = []
    clock = ManualClock()
    monkeypatch.setattr(client._bulk, "_clock", clock)
    monkeypatch.setattr(Link, "pause", lambda _, seconds: clock.advance(seconds * 1000))

    client.pause_many(tag="sale", per_second=80, on_progress=lambda done, _: seen.append(clock.monotonic_ms()))

    assert [0, 0, 250] == seen


def test_a_client_with_limits_changes_each_of_its_schedules_as_it_was_found(client: Client) -> None:
    campaign(client, 4)
    shop = client.acting_as("shop", Limits(tags=("sale",)))

    def leaves(_: object) -> bool:
        client.update("mail-0001", tags=["taken"])
        return True

    result = shop.pause_many(match="*", limit=3, confirm=leaves)

    assert (3, 2, ["mail-0001"]) == (result.found, result.done, [id for id, _ in result.refused])
    assert ["mail-0000", "mail-0002"] == [one.id for one in client.list(state="paused")]


def test_schedules_are_chosen_by_their_ids_whatever_their_state(client: Client) -> None:
    campaign(client, 4)
    client.pause("mail-0001")

    result = client.pause_many(ids=["mail-0000", "mail-0001", "mail-0009"])

    assert (3, 1, 1, ["mail-0009"]) == (result.found, result.done, result.skipped, [id for id, _ in result.refused])
    assert ["mail-0000", "mail-0001"] == sorted(one.id for one in client.list(state="paused"))
    assert 0 == client.cancel_many(ids=[]).found
    for given in ({"ids": ["mail-0000"], "tag": "sale"}, {"ids": "mail"}, {"ids": ["a/b"]}):
        with pytest.raises(InvalidSchedule):
            client.cancel_many(**given)  # type: ignore[arg-type]  # of a table


def test_a_client_with_limits_changes_no_schedule_beyond_them_by_its_id(client: Client) -> None:
    campaign(client, 1)
    limited = client.acting_as("sam", Limits(tags=("sale",)))

    result = limited.cancel_many(ids=["other", "mail-0000"])

    assert (2, 1, ["other"]) == (result.found, result.done, [id for id, _ in result.refused])
    assert ["other"] == [one.id for one in client.list()]
