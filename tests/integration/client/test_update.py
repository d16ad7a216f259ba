"""client.update: the time or the payload alone, under races too, and payloads that this client may not open."""

import os
import pickle
import threading
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import redis

import zsched
from tests.builders.bombs import Bomb
from tests.clocks import freeze, pass_time
from tests.integration.client.calls import HOUR, KEYS, SOON, payload
from tests.prefix import RQ
from tests.waiting import WITHIN_S
from zsched import Client, Contended, InvalidSchedule, RedisUnavailable, ScheduleInPast, ScheduleNotFound
from zsched.core.clock import from_ms, to_ms
from zsched.core.options.choices import Priority, ScheduleState
from zsched.storage.reader import Reader


def test_update_changes_only_the_time_of_a_one_shot(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="a", at=SOON, args=(1,), timeout=60, meta={"m": 1}, retry=2, description="Say hello")
    before = redis_client.hgetall(f"{RQ}:job:a-{to_ms(SOON)}")

    made = client.update("a", at=SOON + HOUR)

    assert ("updated", SOON + HOUR, f"a-{to_ms(SOON + HOUR)}") == (made.outcome, made.next_at, made.run_id)
    after = redis_client.hgetall(f"{RQ}:job:{made.run_id}")
    assert before | {b"created_at": after[b"created_at"]} == after
    assert 0 == redis_client.exists(f"{RQ}:job:a-{to_ms(SOON)}")


def test_update_changes_the_payload_of_a_one_shot_also_if_overdue(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="a", at=SOON, args=(1,), kwargs={"k": 1})

    made = client.update("a", kwargs={"k": 2})

    assert ("updated", SOON) == (made.outcome, made.next_at)
    assert ("app.task", None, (1,), {"k": 2}) == payload(redis_client, f"{RQ}:job:{made.run_id}")

    client.schedule("app.task", id="a", at=SOON)
    pass_time(redis_client, timedelta(days=2))

    assert ("updated", SOON) == (client.update("a", args=(2,)).outcome, client.get("a").next_at)


def test_an_update_to_the_past_fails_and_a_delay_counts_from_now(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="a", at=SOON)

    with pytest.raises(ScheduleInPast):
        client.update("a", at=datetime.now(UTC) - HOUR)
    assert SOON == client.get("a").next_at

    client.schedule("app.task", id="a", at=SOON)
    now_ms = freeze(redis_client)

    made = client.update("a", after=60)

    assert from_ms(now_ms + 60_000) == made.next_at


def test_update_keeps_a_paused_schedule_paused(client: Client) -> None:
    client.schedule("app.task", id="a", at=SOON)
    client.pause("a", "why")

    client.update("a", at=SOON + HOUR, priority="high")

    one = client.get("a")
    assert (ScheduleState.PAUSED, SOON + HOUR, "why", Priority.HIGH) == (one.state, one.next_at, one.note, one.priority)

    client.schedule("app.task", id="r", every=60)
    client.pause("r")

    assert "updated" == client.update("r", every=90, queue="sms").outcome
    assert (ScheduleState.PAUSED, "sms") == (client.get("r").state, client.get("r").queue)


def test_update_of_the_payload_keeps_anchor_and_time_of_a_rule(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="r", every=60, args=(1,), tags=["t"], timeout=7)
    before = client.get("r")

    assert "updated" == client.update("r", args=(2,)).outcome

    after = client.get("r")
    assert (before.next_ms, before.anchor_ms, before.tags) == (after.next_ms, after.anchor_ms, after.tags)
    assert (7, True) == (after.timeout_s, after.version != before.version)
    assert ("app.task", None, (2,), {}) == payload(redis_client, KEYS.template("r"))


def test_update_changes_only_the_rule_of_a_recurring_schedule(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="r", cron="0 9 * * *", tz="Asia/Seoul", args=(1,))

    client.update("r", cron="30 9 * * *")

    told = client.get("r")
    assert ("30 9 * * *", "Asia/Seoul") == (told.trigger.expr, told.trigger.tz)  # type: ignore[union-attr]
    assert ("app.task", None, (1,), {}) == payload(redis_client, KEYS.template("r"))


def test_an_update_that_changes_nothing_is_unchanged(client: Client) -> None:
    client.schedule("app.task", id="a", at=SOON, args=(1,), tags=["t"], retry=2, on_success="app.done", description="d")
    client.schedule("app.task", id="r", every=60, tags=["t"], result_ttl=5, on_failure="app.failed", at_front=True)

    assert ["unchanged"] * 4 == [
        client.update("a").outcome, client.update("a", at=SOON).outcome,
        client.update("r").outcome, client.update("r", every=60).outcome,
    ]  # fmt: skip


def test_an_update_keeps_the_wish_to_remove_a_run_at_its_end(client: Client) -> None:
    wishes = {"result_ttl": 0, "failure_ttl": "30s"}
    client.schedule("app.task", id="a", at=SOON, **wishes)
    client.schedule("app.task", id="r", every=60, **wishes)

    for id in ("a", "r"):
        assert "updated" == client.update(id, tags=["t"]).outcome
        assert (0, 30) == (client.get(id).result_ttl_s, client.get(id).failure_ttl_s)
        assert "updated" == client.update(id, result_ttl="1h", failure_ttl=None).outcome
        assert (3600, None) == (client.get(id).result_ttl_s, client.get(id).failure_ttl_s)


def test_an_invalid_update_is_refused_with_its_field(client: Client) -> None:
    client.schedule("app.task", id="a", at=SOON)
    client.schedule("app.task", id="r", every=60)

    for id, change, field in (
        ("a", {"every": 5}, "every"), ("r", {"at": SOON}, "at"), ("a", {"if_exists": "keep"}, "if_exists"),
        ("a", {"timeout": "soon"}, "timeout"), ("r", {"eta": 5}, "eta"), ("r", {"args": lambda: None}, "args"),
    ):  # fmt: skip
        with pytest.raises(InvalidSchedule, match=f"^{field}="):
            client.update(id, **change)
    with pytest.raises(ScheduleNotFound, match="'unknown'"):
        client.update("unknown", args=(1,))


def test_concurrent_updates_are_all_applied(redis_url: str, client: Client) -> None:
    client.schedule("app.task", id="a", at=SOON)
    changes: list[dict[str, Any]] = [{"timeout": 7}, {"tags": ["t"]}, {"owner": "me"}]
    barrier = threading.Barrier(len(changes))
    failed: list[BaseException] = []

    def update(change: dict[str, Any]) -> None:
        try:
            barrier.wait(WITHIN_S)
            Client.from_url(redis_url).update("a", **change)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=update, args=(change,)) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)

    told = client.get("a")
    assert ([], 7, ("t",), "me") == (failed, told.timeout_s, told.tags, told.owner)


@pytest.mark.parametrize("change", [{"queue": "sms"}, {"every": 60}, {"after": 60}])
def test_an_update_of_a_schedule_with_an_unreadable_rule_is_refused_with_the_remedy(
    client: Client, redis_client: redis.Redis, change: dict[str, Any]
) -> None:
    client.schedule("app.task", id="r", every=3600)
    redis_client.hset(KEYS.schedule("r"), "trigger", "nonsense")

    with pytest.raises(InvalidSchedule, match=r"its rule cannot be read, .*; schedule it again by its id"):
        client.update("r", **change)

    assert "updated" == client.schedule("app.task", id="r", every=60).outcome


@pytest.mark.parametrize("trigger", [{"after": 3600}, {"every": 3600}])
def test_an_update_overtaken_at_every_attempt_raises_contended(
    redis_url: str, client: Client, monkeypatch: pytest.MonkeyPatch, trigger: dict[str, Any]
) -> None:
    other, find, numbers = zsched.Client.from_url(redis_url), Reader.get, iter(range(100))
    client.schedule("app.task", id="a", **trigger)

    def find_and_forestall(self: Reader, id: str) -> Any:
        found = find(self, id)
        if self is client._reader:
            other.update(id, args=(next(numbers),))
        return found

    monkeypatch.setattr(Reader, "get", find_and_forestall)

    with pytest.raises(Contended, match="schedule 'a' was changed by another writer at every attempt") as caught:
        client.update("a", queue="sms")
    assert not isinstance(caught.value, RedisUnavailable)
    assert "default" == other.get("a").queue


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The file that a hostile pickle makes in the process that opens it."""
    return tmp_path / "made"


@pytest.fixture
def key(client: Client, redis_client: redis.Redis, made: Path) -> str:
    """The job of a one-shot with a payload and meta that a user with rights to rq:job:* replaced."""
    key = f"{RQ}:job:{client.schedule('app.task', id='reminder-42', at=SOON, args=(1,)).run_id}"
    evil = Bomb(os.system, f"touch {made}")
    redis_client.hset(key, mapping={"data": pickle.dumps(("app.task", None, (evil,), {})), "meta": pickle.dumps(evil)})
    return key


@pytest.mark.parametrize(
    ("change", "field"), [({"kwargs": {"a": 1}}, "args"), ({"args": (2,)}, "kwargs"), ({"func": "app.other"}, "args")]
)
def test_an_update_of_part_of_a_foreign_payload_is_refused_without_opening_it(
    client: Client, redis_client: redis.Redis, key: str, made: Path, change: dict[str, Any], field: str
) -> None:
    before = redis_client.hgetall(key)

    with pytest.raises(InvalidSchedule) as refused:
        client.update("reminder-42", **change)

    assert not made.exists()
    assert before == redis_client.hgetall(key)
    assert refused.value.field.startswith(field)
    assert "schedule 'reminder-42'" in str(refused.value)
    assert "posix.system" in str(refused.value)
    assert refused.value.remedy == (
        "give args and kwargs both, or Client(runs_pickles=True) if you trust every writer of RQ's jobs"
    )


def test_an_update_with_args_and_kwargs_replaces_a_payload_without_opening_it(
    client: Client, redis_client: redis.Redis, key: str, made: Path
) -> None:
    made_by_update = client.update("reminder-42", args=(2,), kwargs={"a": 1})

    assert not made.exists()
    assert ("app.task", None, (2,), {"a": 1}) == payload(redis_client, f"{RQ}:job:{made_by_update.run_id}")


def test_an_update_of_the_time_keeps_payload_and_meta_without_opening_them(
    client: Client, redis_client: redis.Redis, key: str, made: Path
) -> None:
    before = redis_client.hmget(key, "data", "meta")

    moved = client.update("reminder-42", at=SOON + HOUR)

    assert not made.exists()
    assert before == redis_client.hmget(f"{RQ}:job:{moved.run_id}", "data", "meta")


def test_an_update_keeps_plain_args_it_leaves_out(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="a", at=SOON, args=(SOON, {1, 2}))

    made = client.update("a", kwargs={"k": 2})

    assert ("app.task", None, (SOON, {1, 2}), {"k": 2}) == payload(redis_client, f"{RQ}:job:{made.run_id}")


def test_a_client_that_trusts_all_writers_opens_objects_of_any_class(redis_url: str, redis_client: redis.Redis) -> None:
    client = Client.from_url(redis_url, runs_pickles=True)
    client.schedule("app.task", id="r", every=60, args=(Fraction(1, 3),))

    with pytest.raises(InvalidSchedule, match=r"args: the stored ones of schedule 'r' .*fractions\.Fraction"):
        Client.from_url(redis_url).update("r", kwargs={"k": 2})
    client.update("r", kwargs={"k": 2})

    assert ("app.task", None, (Fraction(1, 3),), {"k": 2}) == payload(redis_client, KEYS.template("r"))
