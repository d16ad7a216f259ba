"""The progress of a backfill in parts, while its schedule changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from tests.integration.backfill.ground import HOUR, KEYS, NOW, backfill, run
from tests.integration.reruns.ground import queue
from zsched import Client, ScheduleNotFound
from zsched.core.clock import from_ms
from zsched.errors import Contended


def test_a_dry_run_of_a_backfill_writes_nothing(client: Client, redis_client: redis.Redis) -> None:
    before = {key: redis_client.dump(key) for key in redis_client.keys("*")}

    done = backfill(client, 5, 3, dry_run=True)

    assert before == {key: redis_client.dump(key) for key in redis_client.keys("*")}
    assert (True, [run(5), run(4)]) == (done.is_dry_run, done.run_ids)


def test_a_backfill_reports_its_progress(client: Client) -> None:
    told: list[tuple[int, int]] = []

    backfill(client, 250, 0, on_progress=lambda done, total: told.append((done, total)))

    assert [(0, 250), (100, 250), (200, 250), (250, 250)] == told


def test_an_interrupted_backfill_is_continued_by_the_same_call(client: Client, redis_client: redis.Redis) -> None:
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backfill(client, 250, 0, on_progress=stop)
    assert 100 == len(queue(redis_client))

    done = backfill(client, 250, 0)

    assert (150, 100) == (len(done.runs), done.ran)
    assert [run(hours) for hours in range(250, 0, -1)] == queue(redis_client)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"args": (2,)}, range(250, 0, -1)), ({"cron": f"{NOW.minute} 0 * * *"}, None)],
    ids=["its arguments", "its rule"],
)
def test_a_backfill_of_a_changed_schedule_continues_with_the_new_definition(
    client: Client, redis_client: redis.Redis, changes: dict[str, Any], expected: range | None
) -> None:
    def change(done: int, total: int) -> None:
        if done == 100:
            client.update("r", **changes)

    done = backfill(client, 250, 0, on_progress=change)

    hours = expected or [n for n in range(250, 0, -1) if n > 150 or (NOW - n * HOUR).hour == 0]
    assert [run(n) for n in hours] == done.run_ids == queue(redis_client)
    data = redis_client.hget(KEYS.template("r"), "data")
    assert [data] == list({redis_client.hget(KEYS.rq.job(run(n)), "data") for n in hours if n <= 150})


def test_a_backfill_continues_however_often_its_schedule_changes(client: Client, redis_client: redis.Redis) -> None:
    done = backfill(client, 1000, 0, on_progress=lambda done, total: client.update("r", args=(done,)))

    assert [run(hours) for hours in range(1000, 0, -1)] == done.run_ids == queue(redis_client)


def test_a_backfill_whose_schedule_changes_at_every_attempt_is_contended(
    client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    push, numbers = client._store.backfill, iter(range(100))

    def changed(*given: Any) -> Any:
        client.update("r", args=(next(numbers),))
        return push(*given)

    monkeypatch.setattr(client._store, "backfill", changed)

    with pytest.raises(Contended, match=r"'r' was changed by another writer at every attempt.*repeat the call"):
        backfill(client, 3, 0)
    assert [] == queue(redis_client)


def test_a_backfill_stops_when_its_schedule_is_cancelled(client: Client, redis_client: redis.Redis) -> None:
    with pytest.raises(ScheduleNotFound):
        backfill(client, 250, 0, on_progress=lambda done, total: done and client.cancel("r"))

    assert 100 == len(queue(redis_client))


def test_naive_times_of_a_backfill_are_in_the_schedules_zone(client: Client) -> None:
    client.schedule("app.task", id="seoul", cron="0 9 * * *", tz="Asia/Seoul")

    done = client.backfill("seoul", datetime(2026, 3, 1, 9), datetime(2026, 3, 3, 9), dry_run=True)

    assert [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2)] == [from_ms(one.nominal_ms) for one in done.runs]
