"""client.schedule: accepted and refused calls, and the clock that decides."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis

from tests.clocks import pass_time
from tests.integration.client.calls import HOUR, KEYS, SOON
from tests.prefix import RQ
from zsched import Client, InvalidSchedule, ScheduleExists, ScheduleInPast
from zsched.core.clock import ManualClock, from_ms, to_ms
from zsched.core.options.choices import Priority
from zsched.core.triggers.trigger import build, delay_of, due_of


def test_scheduling_returns_the_id_the_time_and_the_run_of_a_one_shot(client: Client) -> None:
    made = client.schedule("app.task", id="a", at=SOON)

    assert ("a", "created", SOON, f"a-{to_ms(SOON)}") == (made.id, made.outcome, made.next_at, made.run_id)
    assert UTC is made.next_at.tzinfo  # type: ignore[union-attr]

    first, second = (client.schedule("app.task", at=SOON) for _ in range(2))

    assert first.id != second.id
    assert first.run_id == f"{first.id}-{to_ms(SOON)}"

    made = client.schedule("app.task", id="r", cron="0 9 * * *", tz="Asia/Seoul")

    assert ("created", None) == (made.outcome, made.run_id)
    assert (9, 0) == (made.next_at.astimezone(ZoneInfo("Asia/Seoul")).hour, made.next_at.minute)  # type: ignore[union-attr]


def test_a_schedule_is_read_with_all_options_that_were_given(client: Client) -> None:
    client.schedule(
        "app.task", id="a", at=SOON, tz="Asia/Seoul", queue="sms", priority="high", at_front=True, on_uncertain="skip",
        timeout="5m", result_ttl=100, failure_ttl=timedelta(hours=1), retry=3, description="Say hello", tags=("b", "a"),
        owner="file", meta={"trace": 1}, on_lost="fail",
    )  # fmt: skip

    told = client.get("a").to_dict()

    expected = {
        "id": "a", "state": "active", "kind": "once", "next_at": SOON.isoformat(timespec="milliseconds")[:-6] + "Z",
        "tz": "Asia/Seoul", "trigger": None, "func": "app.task", "queue": "sms", "priority": "high", "at_front": True,
        "on_uncertain": "skip", "timeout_s": 300, "result_ttl_s": 100, "failure_ttl_s": 3600, "retries": 3,
        "description": "Say hello", "tags": ["a", "b"], "owner": "file", "note": None,
        "on_lost": "fail", "pause_after_failures": None,
    }  # fmt: skip
    assert expected == {name: told[name] for name in expected}
    json.dumps(told)


def test_policies_of_a_rule_are_in_every_run_and_survive_an_update(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="r", every=60, on_lost="fail", pause_after_failures=3)
    assert ("fail", 3) == policies(client, "r")

    assert "unchanged" == client.schedule("app.task", id="r", every=60, on_lost="fail", pause_after_failures=3).outcome
    assert "updated" == client.update("r", args=(1,)).outcome
    assert ("fail", 3) == policies(client, "r")
    assert b"fail" == redis_client.hget(f"{RQ}:job:{client.run_now('r')}", "zs_on_lost")

    assert "updated" == client.update("r", pause_after_failures=2).outcome
    assert ("fail", 2) == policies(client, "r")
    assert "updated" == client.update("r", on_lost="retry", pause_after_failures=None).outcome
    assert ("retry", None) == policies(client, "r")
    assert redis_client.hget(f"{RQ}:job:{client.run_now('r')}", "zs_on_lost") is None


def test_on_lost_is_in_a_job_if_not_the_default(client: Client, redis_client: redis.Redis) -> None:
    words = {}
    for word in ("retry", "fail"):
        runs = (
            client.enqueue("app.task", on_lost=word).run_id,
            client.schedule("app.task", at=SOON, on_lost=word).run_id,
        )
        words[word] = [redis_client.hget(f"{RQ}:job:{run_id}", "zs_on_lost") for run_id in runs]

    assert {"retry": [None, None], "fail": [b"fail", b"fail"]} == words
    client.schedule("app.task", id="a", at=SOON, on_lost="fail")
    client.update("a", args=(1,))
    assert ("fail", None) == policies(client, "a")


def policies(client: Client, id: str) -> tuple[str, int | None]:
    told = client.get(id).to_dict()
    return told["on_lost"], told["pause_after_failures"]


def test_a_recurring_schedule_is_read_with_its_rule(client: Client) -> None:
    client.schedule("app.task", id="r", rrule="FREQ=DAILY;COUNT=3", tz="Asia/Seoul", tags=["t"], priority="low")

    told = client.get("r")

    assert ("rrule", "app.task", Priority.LOW, ("t",)) == (told.kind, told.func, told.priority, told.tags)
    assert ("FREQ=DAILY", 3, "Asia/Seoul") == (told.trigger.expr, told.trigger.count, told.trigger.tz)  # type: ignore[union-attr]
    assert told.nominal_ms == told.next_ms
    json.dumps(told.to_dict())


def test_arguments_are_shown_for_json_only(redis_url: str) -> None:
    pickling, jsonic = Client.from_url(redis_url), Client.from_url(redis_url, "json", serializer="json")
    for client in (pickling, jsonic):
        client.schedule("app.task", args=(1, [2]), kwargs={"k": None}, id="a", at=SOON)

    assert ([1, [2]], {"k": None}) == (jsonic.get("a").args, jsonic.get("a").kwargs)
    assert (None, None) == (pickling.get("a").args, pickling.get("a").kwargs)


@pytest.mark.parametrize("rule", [{"at": "soon"}, {"every": 60}, {"cron": "*/5 * * * *"}, {"rrule": "FREQ=DAILY"}])
def test_repeating_a_call_returns_unchanged(client: Client, rule: dict[str, Any]) -> None:
    options = {"id": "a", "args": (1,)} | ({"at": SOON} if "at" in rule else rule)
    first = client.schedule("app.task", **options)

    again = client.schedule("app.task", **options)

    assert ("created", "unchanged", first.next_at) == (first.outcome, again.outcome, again.next_at)


def test_a_past_time_raises_schedule_in_past_with_the_servers_time(client: Client, redis_client: redis.Redis) -> None:
    past = datetime.now(UTC) - HOUR

    with pytest.raises(ScheduleInPast, match=r"^at=.*on the Redis server; give a later time, or allow_past=True"):
        client.schedule("app.task", id="a", at=past)
    assert ("not_found", 0) == (client.cancel("nobody"), redis_client.dbsize())
    assert "created" == client.schedule("app.task", id="a", at=past, allow_past=True).outcome


def test_the_servers_clock_decides_what_is_past(redis_url: str, redis_client: redis.Redis) -> None:
    client = Client.from_url(redis_url, clock=ManualClock())
    pass_time(redis_client, timedelta(days=2))

    with pytest.raises(ScheduleInPast):
        client.schedule("app.task", at=SOON)


@pytest.mark.parametrize("wrong", [HOUR, -HOUR, timedelta(days=400), timedelta(days=-400)])
@pytest.mark.parametrize("rule", [{"cron": "*/5 * * * *"}, {"rrule": "FREQ=DAILY;BYHOUR=3,15"}, {"every": 90}])
def test_a_clients_wrong_clock_does_not_matter(
    redis_url: str, rule: dict[str, Any], wrong: timedelta, redis_client: redis.Redis
) -> None:
    right = Client.from_url(redis_url)
    off_by = Client.from_url(redis_url, clock=ManualClock(to_ms(datetime.now(UTC) + wrong)))

    before_s = redis_client.time()[0]
    made = off_by.schedule("app.task", id="r", **rule)
    after_s = redis_client.time()[0]

    anchor_ms = right.get("r").anchor_ms or 0
    assert made.next_at == right.preview("r", n=1, start=from_ms(anchor_ms))[0]
    assert before_s <= anchor_ms // 1000 <= after_s


@pytest.mark.parametrize("rule", ["after", "every"])
def test_if_exists_error_refuses_an_existing_schedule(client: Client, rule: str) -> None:
    client.schedule("app.task", id="a", every=60)

    with pytest.raises(ScheduleExists, match="'a' exists"):
        client.schedule("app.task", id="a", if_exists="error", **{rule: 5})


@pytest.mark.parametrize("rule", ["after", "every"])
def test_if_exists_keep_leaves_an_existing_schedule_alone(client: Client, rule: str) -> None:
    client.schedule("app.task", id="a", at=SOON)

    kept = client.schedule("app.other", id="a", if_exists="keep", **{rule: 5})

    assert ("kept", SOON) == (kept.outcome, kept.next_at)
    assert "app.task" == client.get("a").func


def test_a_rule_and_a_one_shot_replace_each_other_under_one_id(client: Client) -> None:
    client.schedule("app.task", id="a", at=SOON)

    assert "updated" == client.schedule("app.task", id="a", every=60).outcome
    assert "every" == client.get("a").kind
    assert "updated" == client.schedule("app.task", id="a", at=SOON).outcome
    assert "once" == client.get("a").kind
    assert 1 == len(list(client.list()))


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("trigger", {}), ("at and every", {"at": datetime.now(UTC), "every": 5}),
        ("tz", {"cron": "* * * * *", "tz": "EST"}),
        ("at", {"at": datetime(2030, 1, 1)}), ("at", {"at": date(2030, 1, 1)}), ("every", {"every": 0}),
        ("cron", {"cron": "0 0 30 2 *"}), ("rrule", {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}),
        ("rrule", {"rrule": "FREQ=SECONDLY"}), ("id", {"after": 5, "id": "a.b"}),
        ("queue", {"after": 5, "queue": "a b"}),
        ("timeout", {"after": 5, "timeout": "soon"}), ("timeout", {"every": 5, "timeout": "soon"}),
        ("args", {"after": 5, "args": (lambda: None,)}), ("args", {"every": 5, "args": "text"}),
        ("meta", {"after": 5, "meta": 5}), ("retry", {"after": 5, "retry": 0}), ("eta", {"eta": 5}),
        ("jitter", {"every": 5, "jitter": 6}), ("ends", {"every": 60, "ends": datetime(2020, 1, 1, tzinfo=UTC)}),
        ("on_success", {"after": 5, "on_success": lambda: None}), ("result_ttl", {"every": 5, "result_ttl": "1 h"}),
        ("rrule", {"rrule": "FREQ=DAILY;UNTIL=20200101T000000Z"}), ("args", {"after": 5, "args": ("x" * 600_000, )}),
    ],
)  # fmt: skip
def test_bad_input_names_its_field_and_writes_nothing(
    redis_url: str, redis_client: redis.Redis, field: str, options: dict[str, Any]
) -> None:
    client = Client.from_url(redis_url, serializer="pickle", payload_limit=500)

    with pytest.raises(InvalidSchedule) as caught:
        client.schedule("app.task", **options)

    assert field == caught.value.field
    assert [] == redis_client.keys("*")


@pytest.mark.parametrize("func", [lambda: None, "task", "__main__.task", 5, None])
def test_a_function_that_no_worker_imports_writes_nothing(client: Client, redis_client: redis.Redis, func: Any) -> None:
    for call in (
        lambda: client.schedule(func, after=5),
        lambda: client.enqueue(func),
        lambda: client.schedule(func, every=5),
    ):
        with pytest.raises(InvalidSchedule, match=r"^func="):
            call()
    many = client.schedule_many([{"func": func, "after": 5}], errors="return")

    assert [0] == [index for index, _ in many.errors]
    assert [] == redis_client.keys("*")


def test_a_one_shot_with_jitter_has_a_nominal_and_a_later_due_time(client: Client) -> None:
    made = client.schedule("app.task", id="a", at=SOON, jitter=HOUR)
    again = client.schedule("app.task", id="a", at=SOON, jitter=HOUR)

    delay = timedelta(milliseconds=delay_of("a", HOUR // timedelta(milliseconds=1)))
    schedule = client.get("a")
    assert ("created", "unchanged", SOON + delay) == (made.outcome, again.outcome, made.next_at)
    assert (to_ms(SOON), to_ms(SOON + delay), 3_600_000) == (
        schedule.nominal_ms, schedule.next_ms, schedule.jitter_ms,
    )  # fmt: skip
    assert f"a-{to_ms(SOON + delay)}" == made.run_id


def test_a_rule_with_jitter_is_due_later_than_its_nominal_time(client: Client) -> None:
    made = client.schedule("app.task", id="r", every=60, jitter=60)

    schedule = client.get("r")
    assert schedule.trigger is not None
    trigger = build(schedule.trigger, schedule.anchor_ms or 0)
    assert trigger.next_after(schedule.anchor_ms or 0) == schedule.nominal_ms
    assert due_of(trigger, "r", schedule.nominal_ms or 0) == schedule.next_ms
    assert from_ms(schedule.next_ms or 0) == made.next_at


def test_a_clients_own_urgencies_are_used(redis_url: str) -> None:
    client = Client.from_url(redis_url, urgencies={"news": {"priority": "low", "expires_after": 60}})

    client.schedule("app.task", id="a", after=60, urgency="news")
    many = client.schedule_many([{"func": "app.task", "id": "b", "after": 60, "urgency": "news"}])

    assert [] == many.errors
    assert {("low", 60_000)} == {(one.priority.value, one.expires_ms) for one in client.list()}
    with pytest.raises(InvalidSchedule, match="give one of asap, time_sensitive, digest, news"):
        client.enqueue("app.task", urgency="new")


@pytest.mark.parametrize("when", [{"every": 60}, {"after": 60}])
def test_a_schedule_put_disabled_waits_for_a_resume(client: Client, redis_client: redis.Redis, when: Any) -> None:
    client.schedule("app.task", id="a", enabled=False, **when)
    [many] = client.schedule_many([{"func": "app.task", "id": "b", "enabled": False, **when}]).ids

    for id in ("a", many):
        found = client.get(id or "")
        assert ("paused", "put with enabled=False") == (found.state.value, found.note)
    assert 0 == redis_client.zcard(KEYS.due_normal())

    client.resume("a")
    assert "active" == client.get("a").state.value


@pytest.mark.parametrize(
    ("given", "state"), [({}, "paused"), ({"enabled": False}, "paused"), ({"enabled": True}, "active")]
)
def test_a_put_without_enabled_leaves_a_paused_schedule_paused(client: Client, given: Any, state: str) -> None:
    client.schedule("app.task", id="a", every=60)
    client.pause("a", "for a while")

    client.schedule("app.task", id="a", every=60, queue="email", **given)

    assert (state, "email") == (client.get("a").state.value, client.get("a").queue)


def test_enabled_is_not_an_option_of_update_or_enqueue(client: Client) -> None:
    client.schedule("app.task", id="a", every=60)

    with pytest.raises(InvalidSchedule, match=r"^enabled=False: an update cannot change it; pause or resume it"):
        client.update("a", enabled=False)  # type: ignore[call-arg]
    with pytest.raises(InvalidSchedule, match=r"^enabled=False: no such option"):
        client.enqueue("app.task", enabled=False)  # type: ignore[call-arg]
