"""Tasks against a real Redis: the schedules that a client writes for them, one by one and many at once."""

from datetime import timedelta
from typing import Any

import pytest
import redis

from tests.integration.reminders import digest, plain, send_reminder, untyped
from tests.ledger import queued
from tests.unit.tasks.defining import define
from zsched import Client, InvalidSchedule, NotArchived, NotImportable
from zsched.client.putting import RowReader
from zsched.core.model import Definition
from zsched.core.options.choices import Priority
from zsched.storage.keys import Keys
from zsched.storage.puts import PutScripts
from zsched.storage.rqjob import Encoder

MODULE = "tests.integration.reminders"
HOUR = timedelta(hours=1)


def call(redis_client: redis.Redis, run_id: str) -> tuple[Any, ...]:
    """Return function path, args and kwargs of a run."""
    return Encoder().open(redis_client.hget(Keys("default").rq.job(run_id), "data") or b"")


def test_a_task_is_scheduled_with_the_options_of_its_decorator(client: Client, redis_client: redis.Redis) -> None:
    told = send_reminder.schedule(client, after=HOUR, event_id="e1", channel="sms")

    assert ("reminder-e1", "created") == (told.id, told.outcome)
    found = client.get("reminder-e1")
    assert (f"{MODULE}.send_reminder", "email", Priority.HIGH) == (found.func, found.queue, found.priority)
    assert ("reminders",) == found.tags
    expected = (f"{MODULE}.send_reminder", (), {"event_id": "e1", "channel": "sms"})
    assert expected == call(redis_client, told.run_id or "")


def test_a_changed_event_moves_its_reminder(client: Client) -> None:
    send_reminder.schedule(client, after=HOUR, event_id="e1", channel="sms")
    before = client.get("reminder-e1").next_at

    told = send_reminder.schedule(client, after=2 * HOUR, event_id="e1", channel="push")

    assert ("reminder-e1", "updated") == (told.id, told.outcome)
    assert before is not None
    assert told.next_at is not None
    assert told.next_at >= before + HOUR
    assert ["reminder-e1"] == [one.id for one in client.list()]
    assert "cancelled" == client.cancel(send_reminder.id_of(event_id="e1"))


def test_a_task_that_recurs_needs_no_trigger(client: Client) -> None:
    digest.schedule(client)

    found = client.get("digest")
    assert ("cron", "Asia/Seoul", 3) == (found.kind, found.tz, found.pause_after_failures)
    assert found.trigger is not None
    assert 9 == found.trigger.count


def test_enqueuing_a_task_does_not_replace_its_recurring_schedule(client: Client, redis_client: redis.Redis) -> None:
    digest.schedule(client)

    told = digest.enqueue(client)

    assert "digest" != told.id
    assert "cron" == client.get("digest").kind
    assert [told.run_id] == queued(redis_client)


def test_enqueuing_a_task_replaces_its_waiting_one_shot(client: Client, redis_client: redis.Redis) -> None:
    send_reminder.schedule(client, after=HOUR, event_id="e1", channel="sms")

    told = send_reminder.enqueue(client, event_id="e1", channel="push")

    assert "updated" == told.outcome
    assert [] == list(client.list())
    assert [told.run_id] == queued(redis_client, "email")


def test_enqueuing_a_task_twice_with_keep_runs_it_once(client: Client, redis_client: redis.Redis) -> None:
    payload: Any = {"event_id": "e1", "channel": "push", "if_exists": "keep"}
    first = send_reminder.enqueue(client, **payload, unique_for="10m")

    again = send_reminder.enqueue(client, **payload)

    assert ("reminder-e1", "kept", first.run_id) == (again.id, again.outcome, again.run_id)
    assert [first.run_id] == queued(redis_client, "email")
    assert redis_client.pttl(f"{Keys('default').unique_prefix()}reminder-e1") <= 600_000


@pytest.mark.parametrize("verb", ["schedule", "enqueue"])
def test_a_client_checks_the_arguments_of_a_task(client: Client, redis_client: redis.Redis, verb: str) -> None:
    when = {"after": HOUR} if verb == "schedule" else {}
    with pytest.raises(InvalidSchedule, match=r"channel='fax': task .*send_reminder: give one of"):
        getattr(client, verb)(send_reminder, args=("e1", "fax"), **when)
    assert [b"zsched:{default}:meta"] == redis_client.keys("*")  # of the fixture

    assert "reminder-e1" == getattr(client, verb)(send_reminder, args=("e1", "push"), **when).id


@pytest.mark.parametrize("verb", ["schedule", "enqueue", "row"])
def test_a_task_refuses_arguments_without_names_and_names_its_parameters(client: Client, verb: str) -> None:
    call: Any = getattr(send_reminder, verb)
    before = () if verb == "row" else (client,)

    with pytest.raises(
        InvalidSchedule, match=r"^args=\('e1', 'push'\): task .* by name; give event_id=…, channel=…, minutes=…$"
    ):
        call(*before, "e1", "push")
    assert [] == list(client.list())


def test_an_undecorated_function_can_be_scheduled(client: Client) -> None:
    client.schedule(untyped, args=("not a number",), after=HOUR, id="a")
    client.schedule(f"{MODULE}.send_reminder", args=("by path",), after=HOUR, id="b")

    assert ["a", "b"] == [one.id for one in client.list()]


def test_a_task_that_workers_cannot_import_is_refused(client: Client) -> None:
    with pytest.raises(NotImportable, match=r"app\.tasks\.send is another object now"):
        define("def send(): ...").schedule(client, after=5)


def test_rows_of_tasks_are_checked_individually(client: Client, redis_client: redis.Redis) -> None:
    def rows() -> Any:
        for number in range(1000):
            channel: Any = "fax" if number in (7, 700) else "push"
            yield send_reminder.row(after=HOUR, event_id=f"e{number}", channel=channel)
        yield plain.row(after=HOUR, id="plain")
        yield digest.row()
        yield send_reminder.row(after=HOUR, event_id="e 9", channel="push")
        yield {"func": send_reminder, "args": ("e1001", "sms"), "at": client.get("reminder-e1").next_at}

    many = client.schedule_many(rows(), errors="return")

    assert [7, 700, 1002] == [index for index, _ in many.errors]
    assert ["channel", "channel", "event_id"] == [error.field for _, error in many.errors]  # type: ignore[attr-defined]
    assert 1001 == many.created
    assert ["reminder-e0", "reminder-e1"] == many.ids[:2]
    assert ["plain", "digest", None, "reminder-e1001"] == many.ids[-4:]
    found = client.get("reminder-e999")
    assert ("email", Priority.HIGH, ("reminders",)) == (found.queue, found.priority, found.tags)
    assert {"event_id": "e999", "channel": "push"} == call(redis_client, f"reminder-e999-{found.next_ms}")[2]
    assert ("cron", 3) == (client.get("digest").kind, client.get("digest").pause_after_failures)


def test_rows_of_one_task_share_their_shape_and_rows_of_one_rule_their_rule(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    defined: list[Definition] = []
    reader, made = RowReader(client._puts, client._putting.urgencies), PutScripts.from_definition
    monkeypatch.setattr(PutScripts, "from_definition", lambda self, each: defined.append(each) or made(self, each))

    once = [reader.read(plain.row(after=HOUR, value=number)) for number in range(3)]
    assert 1 == len(defined)
    recurring = [reader.read(plain.row(every=60 + number // 2, value=number)) for number in range(4)]

    assert 1 == len({id(put.shape) for put in once})
    assert 3 == len(defined)
    rules = [put.rule for put in recurring]
    assert (rules[0], rules[2]) == (rules[1], rules[3])
    assert rules[0] is not rules[2]


def test_a_recurring_row_like_the_previous_one_has_its_payload_checked(client: Client) -> None:
    rows: list[Any] = [{"func": send_reminder, "args": ("e1", word), "every": 60} for word in ("sms", "fax", "push")]

    many = client.schedule_many(rows, errors="return")

    assert [(1, "channel")] == [(index, error.field) for index, error in many.errors]  # type: ignore[attr-defined]
    assert (["reminder-e1", None, "reminder-e1"], 1, 1) == (many.ids, many.created, many.updated)


def test_a_durable_task_is_durable_in_schedule_many(
    client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plain.options, "durable", True)

    with pytest.raises(NotArchived, match="no row with durable=True was written"):
        client.schedule_many([plain.row(after=HOUR)])
    assert [] == redis_client.keys("*due*")


@pytest.mark.parametrize("changes", [{"kwargs": {"event_id": "e1", "channel": 7}}, {"args": ("e1",)}])
def test_an_update_checks_new_arguments_of_a_task_that_this_process_has_imported(
    client: Client, changes: dict[str, Any]
) -> None:
    send_reminder.schedule(client, after=HOUR, event_id="e1", channel="sms")
    before = client.get("reminder-e1")

    with pytest.raises(InvalidSchedule):
        client.update("reminder-e1", **changes)

    assert before == client.get("reminder-e1")
    assert "updated" == client.update("reminder-e1", kwargs={"event_id": "e1", "channel": "push"}).outcome
    assert "updated" == client.update("reminder-e1", queue="sms").outcome
