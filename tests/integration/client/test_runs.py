"""client.enqueue, client.run_now and client.preview; a client that names someone else as the writer."""

import json
import os
import pwd
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis

from tests.clocks import freeze
from tests.integration.client.calls import HOUR, KEYS, SOON
from tests.ledger import queued
from zsched import Client, InvalidSchedule, ScheduleExists, ScheduleNotFound
from zsched.client.calls import caller
from zsched.core.clock import ManualClock, from_ms, to_ms
from zsched.core.entry import Entry
from zsched.core.triggers.trigger import build, due_of

AT = datetime(2030, 1, 1, tzinfo=UTC)
USER, HOST = pwd.getpwuid(os.getuid()).pw_name, socket.gethostname()
NOT_LINES = ["", "x" * 201, "two\nlines", "\x1b[31m", 7]
CHANGES: list[tuple[Callable[[Client], object], str]] = [
    (lambda client: client.schedule("app.task", id="new", at=AT), "put"),
    (lambda client: client.schedule("app.task", id="new", every=60), "put_recurring"),
    (lambda client: client.schedule_many([{"func": "app.task", "at": AT}, {"func": "app.task", "at": AT}]), "put"),
    (lambda client: client.update("once", at=datetime(2031, 1, 1, tzinfo=UTC)), "put"),
    (lambda client: client.update("rule", queue="email"), "put_recurring"),
    (lambda client: client.pause("rule", "until May"), "pause"),
    (lambda client: client.resume("paused"), "resume"),
    (lambda client: client.cancel("rule"), "cancel"),
    (lambda client: client.run_now("rule"), "run_now"),
    (lambda client: client.enqueue("app.task"), "enqueue"),
]


def test_enqueue_pushes_at_once(client: Client, redis_client: redis.Redis) -> None:
    made = client.enqueue("app.task", (1,), {"k": 2}, queue="sms", id="e")

    assert ("e", "created", [made.run_id]) == (made.id, made.outcome, queued(redis_client, "sms"))
    assert [] == list(client.list())
    json.dumps(made.to_dict())


def test_enqueue_honours_if_exists(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="a", after=60)

    with pytest.raises(ScheduleExists):
        client.enqueue("app.task", id="a", if_exists="error")
    assert ("kept", None) == (client.enqueue("app.task", id="a", if_exists="keep").outcome, None)
    assert [] == queued(redis_client)
    assert "updated" == client.enqueue("app.task", id="a").outcome
    assert (1, []) == (len(queued(redis_client)), list(client.list()))


def test_an_id_enqueued_with_keep_runs_once_unless_it_is_cancelled(client: Client, redis_client: redis.Redis) -> None:
    first = client.enqueue("app.pay", id="pay-77", if_exists="keep")
    again = client.enqueue("app.pay", (2,), id="pay-77", if_exists="keep", unique_for="1h")

    assert ("created", "kept") == (first.outcome, again.outcome)
    assert (first.run_id, None) == (again.run_id, again.next_at)
    assert [first.run_id] == queued(redis_client)
    with pytest.raises(ScheduleExists, match=f"^id 'pay-77' was enqueued already: run {first.run_id}; "):
        client.enqueue("app.pay", id="pay-77", if_exists="error")
    assert 86_000_000 < redis_client.pttl(f"{KEYS.unique_prefix()}pay-77") <= 86_400_000

    client.cancel_run(first.run_id or "")
    after = client.enqueue("app.pay", id="pay-77", if_exists="keep")
    assert ("created", [after.run_id]) == (after.outcome, queued(redis_client))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"unique_for": 60}, "unique_for=60: each of these calls is another run; give id= and if_exists="),
        ({"id": "a", "unique_for": 60}, "unique_for=60: each of these calls"),
        ({"if_exists": "keep", "unique_for": 60}, "unique_for=60: each of these calls"),
        ({"id": "a", "if_exists": "keep", "unique_for": "soon"}, "unique_for='soon': not a duration"),
        ({"id": "a", "if_exists": "keep", "unique_for": 0}, "unique_for=0: out of range"),
        ({"id": "a", "period": 60}, "period=60: no such option here; our option is unique_for="),
    ],
)
def test_a_bad_unique_for_is_refused(client: Client, redis_client: redis.Redis, options: Any, told: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        client.enqueue("app.pay", **options)

    assert str(caught.value).startswith(told)
    assert [] == redis_client.keys("*")


def test_run_now_uses_up_a_one_shot_and_keeps_a_rule(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="a", at=SOON)
    client.schedule("app.task", id="r", every=60)

    runs = [client.run_now("a"), client.run_now("r"), client.run_now("r")]

    assert f"a-{to_ms(SOON)}" == runs[0]
    assert (runs, 3) == (queued(redis_client), len(set(runs)))
    assert ["r"] == [schedule.id for schedule in client.list()]
    assert runs[2] == client.get("r").last_run_id
    with pytest.raises(ScheduleNotFound, match="'a'"):
        client.run_now("a")


def test_a_rule_is_previewed_without_redis() -> None:
    client = Client.from_url("redis://127.0.0.1:1/0")
    start = datetime(2026, 3, 7, tzinfo=ZoneInfo("America/New_York"))

    found = client.preview(cron="30 2 * * *", tz="America/New_York", start=start, n=3)

    assert ["03-07T02:30", "03-08T03:00", "03-09T02:30"] == [f"{at:%m-%dT%H:%M}" for at in found]


def test_schedules_are_previewed_in_their_zone(client: Client) -> None:
    client.schedule("app.task", id="a", at=SOON, tz="Asia/Seoul")
    client.schedule("app.task", id="r", every=60, count=3)

    [at] = client.preview("a")

    assert (SOON, timedelta(hours=9)) == (at, at.utcoffset())
    assert [] == list(client.preview("a", start=SOON))
    assert [] == list(client.preview("a", start=(SOON + 10 * HOUR).replace(tzinfo=None)))
    assert 3 == len(client.preview("r", n=10))


def test_a_preview_of_a_schedule_with_jitter_shows_due_times(client: Client) -> None:
    client.schedule("app.task", id="r", cron="0 * * * *", starts=SOON, jitter=3600)
    first = client.get("r").next_at
    assert first is not None

    found = client.preview("r", n=3, start=SOON)
    schedule, hours = client.get("r"), range(3)

    assert schedule.trigger is not None
    nominal_ms = schedule.nominal_ms or 0
    trigger = build(schedule.trigger, schedule.anchor_ms or 0)
    assert [due_of(trigger, "r", nominal_ms + n * 3_600_000) for n in hours] == [to_ms(at) for at in found]
    assert first == found[0]
    between = from_ms((nominal_ms + to_ms(first)) // 2)
    assert first == client.preview("r", n=1, start=between)[0], "its nominal time has come, it is not due yet"
    assert found[1] == client.preview("r", n=1, start=first)[0]


def test_a_preview_omits_an_occurrence_whose_nominal_time_was_before_the_put(
    redis_url: str, redis_client: redis.Redis
) -> None:
    now_ms = freeze(redis_client)  # none comes due meanwhile
    client = Client.from_url(redis_url, clock=ManualClock(wall_ms=now_ms))
    starts = from_ms(now_ms) - timedelta(hours=1000, minutes=3)
    ids = [f"r{n}" for n in range(20)]  # of most of them the occurrence of three minutes ago is not due yet
    for id in ids:
        client.schedule("app.task", id=id, every=3600, starts=starts, jitter=3600)

    assert {id: client.get(id).next_at for id in ids} == {id: client.preview(id, n=1)[0] for id in ids}


@pytest.mark.parametrize(
    ("options", "told"),
    [({}, ""), ({"id": "a", "cron": "* * * * *"}, ""), ({"every": 5, "n": 0}, "n="), ({"every": 5, "n": True}, "n="),
     ({"at": 5}, ""), ({"every": 5, "queue": "x"}, ""), ({"cron": "0 0 30 2 *"}, "cron="),
     ({"every": 5, "start": "now"}, "start="),
     ({"cron": "* * * * *", "jitter": 5}, "jitter=5: .*depends on the schedule's id; .*preview a schedule")],
)  # fmt: skip
def test_a_bad_preview_is_refused(client: Client, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSchedule, match=f"^{told}"):
        client.preview(**options)


def entries(redis_client: redis.Redis) -> list[Entry]:
    """Return the log."""
    found = redis_client.execute_command("XRANGE", KEYS.log(), "-", "+")  # type: ignore[no-untyped-call]  # redis-py's
    return [Entry.of(id, [each for pair in texts.items() for each in pair]) for id, texts in found]


def asked(redis_client: redis.Redis) -> list[tuple[str, str]]:
    """Return kind and caller of each entry."""
    return [(entry.kind, entry.by.decode()) for entry in entries(redis_client)]


@pytest.mark.parametrize(
    ("env", "by"),
    [({}, f"{USER}@{HOST}"), ({"HOME": "/"}, f"{USER}@{HOST}"), ({"SUDO_USER": "ann"}, f"ann@{HOST} (sudo)"),
     ({"SUDO_USER": "a\nn\x1bn"}, f"ann@{HOST} (sudo)")],
)  # fmt: skip
def test_the_default_name_is_a_line_of_user_and_host_or_of_who_called_sudo(env: dict[str, str], by: str) -> None:
    assert by == caller(env=env) == caller(None, env)


def test_the_environment_and_the_argument_override_the_default(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZSCHED_BY", "deploy of shop")

    assert "deploy of shop" == Client.from_url(redis_url).by
    assert "ann" == Client.from_url(redis_url, by="ann").by


@pytest.mark.parametrize("by", NOT_LINES)
def test_a_name_that_is_not_a_short_line_is_refused(client: Client, redis_url: str, by: Any) -> None:
    for call in (lambda: Client.from_url(redis_url, by=by), lambda: client.acting_as(by)):
        with pytest.raises(InvalidSchedule) as refused:
            call()
        assert ("by", by) == (refused.value.field, refused.value.value)
        assert "200 printable characters" in refused.value.remedy


@pytest.mark.parametrize(("change", "kind"), CHANGES)
def test_a_change_is_recorded_under_the_name_of_the_view(
    client: Client, redis_client: redis.Redis, change: Callable[[Client], object], kind: str
) -> None:
    client.schedule("app.task", id="once", at=AT)
    for id in ("rule", "paused"):
        client.schedule("app.task", id=id, every=3600)
    client.pause("paused")
    before = len(entries(redis_client))

    change(client.acting_as("ann"))

    assert [(kind, "ann")] == asked(redis_client)[before:]
    assert {client.by} == {by for _, by in asked(redis_client)[:before]}


def test_a_retry_and_a_cancelled_run_are_recorded_under_a_views_name(client: Client, redis_client: redis.Redis) -> None:
    run_id = client.enqueue("app.task", id="a").run_id or ""
    assert "cancelled" == client.cancel_run(run_id)  # this client's own operations on runs are made

    ann = client.acting_as("ann")
    again = ann.retry(run_id)
    ann.cancel_run(again)

    assert [("enqueue", client.by), ("end", client.by), ("enqueue", "ann"), ("end", "ann")] == asked(redis_client)
    assert [] == queued(redis_client)


def test_a_view_shares_the_connection_the_scripts_and_the_serializer(client: Client, redis_client: redis.Redis) -> None:
    for id in "ab":
        client.schedule("app.task", id=id, at=AT)
    before = redis_client.info("commandstats")

    client.acting_as("bob").schedule("app.task", id="c", at=AT)

    after = redis_client.info("commandstats")
    assert before.keys() - {"cmdstat_info"} == after.keys() - {"cmdstat_info"}
    for name in ("cmdstat_script|load", "cmdstat_hget"):  # no script is loaded, and the serializer is not read again
        assert before.get(name, {}).get("calls") == after.get(name, {}).get("calls")
    assert ("put", "bob") == asked(redis_client)[-1]


def test_the_owner_does_not_name_who_changed_it(client: Client) -> None:
    client.schedule("app.task", id="r", every=3600, owner="svc-a")

    client.acting_as("ann").update("r", queue="email")

    story = client.why("r")
    assert [client.by, "ann"] == [change.by for change in story.changes]
    assert "svc-a" == client.get("r").owner
    assert story.lines[1][1].startswith("changed by ann: queue: default → email; now for ")


def test_a_schedule_tells_who_paused_it(client: Client) -> None:
    client.schedule("app.task", id="r", every=3600)
    client.acting_as("ann@host").pause("r", "until May")

    found = client.get("r")
    assert ("until May", "ann@host") == (found.note, found.paused_by)
    assert ("until May", "ann@host") == (found.to_dict()["note"], found.to_dict()["paused_by"])
    assert ' by ann@host: "until May"; it would be due ' in client.why("r").verdict.text
    client.resume("r")
    assert (None, None) == (client.get("r").note, client.get("r").paused_by)
