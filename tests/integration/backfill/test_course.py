"""Backfills: the progress in parts, refused ones, and those beside other calls."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.daemons import leading_daemon
from tests.builders.scenes import Scene
from tests.integration.backfill.hours import HOUR, KEYS, backfill, now, run
from tests.integration.reruns.ends import TASKS, archived
from tests.ledger import queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client, InvalidSchedule, ScheduleNotFound
from zsched.core.clock import from_ms, to_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.options.allowed import Limits
from zsched.errors import Contended
from zsched.storage.connection import Link
from zsched.storage.log import Log

SOON = datetime.now(UTC) + timedelta(days=1)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {  # an end: in hours before now
    "a one-shot": ({"id": "once"}, r"^id='once': it is a one-shot.*; run it now"),
    "the end before the start": ({"end": 9}, r"^end=.*not later than the beginning, .*; swap them"),
    "the end at the start": ({"end": 5}, r"^end=.*not later than the beginning"),
    "what comes": ({"end": SOON}, r"^end=.*, and later occurrences are scheduled already; give a time up"),
    "no time": ({"start": "yesterday"}, r"^start='yesterday': not a datetime"),
    "a flag that is none": ({"again": "yes"}, r"^again='yes': not a boolean"),
    "a bad id": ({"id": "a b"}, r"^id='a b'"),
    "one in quarantine": ({"id": "broken"}, r"^id='broken': it is quarantined"),
    "one that another writer broke": ({"id": "foreign"}, r"^id='foreign': its rule or anchor cannot be read"),
}


def test_a_dry_run_of_a_backfill_writes_nothing(client: Client, redis_client: redis.Redis) -> None:
    before = {key: redis_client.dump(key) for key in redis_client.keys("*")}

    done = backfill(client, 5, 3, dry_run=True)

    assert before == {key: redis_client.dump(key) for key in redis_client.keys("*")}
    assert (True, [run(5), run(4)]) == (done.is_dry_run, done.run_ids)


def test_an_interrupted_backfill_is_continued_by_the_same_call(client: Client, redis_client: redis.Redis) -> None:
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backfill(client, 250, 0, on_progress=stop)
    assert 100 == len(queued(redis_client))

    done = backfill(client, 250, 0)

    assert (150, 100) == (len(done.runs), done.ran)
    assert [run(hours) for hours in range(250, 0, -1)] == queued(redis_client)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [(lambda: {"args": (2,)}, range(250, 0, -1)), (lambda: {"cron": f"{now().minute} 0 * * *"}, None)],
    ids=["its arguments", "its rule"],
)
def test_a_backfill_of_a_changed_schedule_continues_with_the_new_definition(
    client: Client, redis_client: redis.Redis, changes: Callable[[], dict[str, Any]], expected: range | None
) -> None:
    def change(done: int, total: int) -> None:
        if done == 100:
            client.update("r", **changes())

    done = backfill(client, 250, 0, on_progress=change)

    hours = expected or [n for n in range(250, 0, -1) if n > 150 or (now() - n * HOUR).hour == 0]
    assert [run(n) for n in hours] == done.run_ids == queued(redis_client)
    data = redis_client.hget(KEYS.template("r"), "data")
    assert [data] == list({redis_client.hget(KEYS.rq.job(run(n)), "data") for n in hours if n <= 150})


def test_a_backfill_of_a_limited_caller_ends_when_its_schedule_leaves_the_limits(
    client: Client, redis_client: redis.Redis
) -> None:
    def move(done: int, total: int) -> None:
        if done == 100:
            client.update("r", queue="pay")

    with pytest.raises(ScheduleNotFound):
        backfill(client.acting_as("shop", Limits(queues=("default",))), 250, 0, on_progress=move)

    assert [run(hours) for hours in range(250, 150, -1)] == queued(redis_client)
    assert 0 == redis_client.llen(KEYS.rq.queue("pay"))


def test_a_backfill_continues_however_often_its_schedule_changes(client: Client, redis_client: redis.Redis) -> None:
    done = backfill(client, 1000, 0, on_progress=lambda done, total: client.update("r", args=(done,)))

    assert [run(hours) for hours in range(1000, 0, -1)] == done.run_ids == queued(redis_client)


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
    assert [] == queued(redis_client)


def test_a_backfill_stops_when_its_schedule_is_cancelled(client: Client, redis_client: redis.Redis) -> None:
    with pytest.raises(ScheduleNotFound):
        backfill(client, 250, 0, on_progress=lambda done, total: done and client.cancel("r"))

    assert 100 == len(queued(redis_client))


@pytest.mark.parametrize("what", REFUSED)
def test_an_invalid_backfill_is_refused(client: Client, redis_client: redis.Redis, what: str) -> None:
    given, message = REFUSED[what]
    client.schedule("app.task", id="once", at=SOON)
    for id in ("broken", "foreign"):
        client.schedule("app.task", id=id, cron="0 * * * *")
    redis_client.zrem(f"{KEYS.prefix}due:normal", "broken")
    redis_client.hset(KEYS.quarantine(), "broken", "normal 5 5 why")
    redis_client.hdel(KEYS.schedule("foreign"), "anchor")
    arguments: dict[str, Any] = {"id": "r", "start": now() - 5 * HOUR, "end": now()} | given
    if isinstance(given.get("end"), int):
        arguments["end"] = now() - given["end"] * HOUR

    with pytest.raises(InvalidSchedule, match=message):
        client.backfill(**arguments)
    assert [] == queued(redis_client)


def test_a_backfill_reads_times_in_the_schedules_zone_and_reports_its_progress(client: Client) -> None:
    with pytest.raises(ScheduleNotFound, match="no schedule 'nothing'"):
        client.backfill("nothing", now() - HOUR, now())

    client.schedule("app.task", id="seoul", cron="0 9 * * *", tz="Asia/Seoul")

    done = client.backfill("seoul", datetime(2026, 3, 1, 9), datetime(2026, 3, 3, 9), dry_run=True)

    assert [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2)] == [from_ms(one.nominal_ms) for one in done.runs]

    told: list[tuple[int, int]] = []

    backfill(client, 250, 0, on_progress=lambda done, total: told.append((done, total)))

    assert [(0, 250), (100, 250), (200, 250), (250, 250)] == told


def test_a_backfill_of_ten_million_occurrences_is_refused_with_a_remedy(client: Client) -> None:
    client.schedule("app.task", id="r", cron="* * * * * *")
    start, message = (
        now() - timedelta(seconds=10_000_000),
        r"10,000,000 occurrences lie between.*more than 100,000.*end at ",
    )

    with pytest.raises(InvalidSchedule, match=message) as caught:
        client.backfill("r", start, now())

    assert (start + timedelta(seconds=100_000)).isoformat() in caught.value.remedy


def test_coalesced_occurrences_can_be_backfilled(redis_client: redis.Redis, redis_url: str, tmp_path: Path) -> None:
    scene = Scene(redis_client, redis_url, tmp_path)
    scene.client.schedule("app.task", id="r", every=60)
    [due] = scene.client.preview("r", n=1)
    start = due - timedelta(seconds=30)
    scene.pass_time(600_000)
    scene.tick()
    [fired] = scene.queued()
    end = from_ms(scene.now_ms)

    done = scene.client.backfill("r", start, end)

    scene.close()
    assert [
        f"r-{to_ms(due) + n * 60_000}" for n in range(10) if f"r-{to_ms(due) + n * 60_000}" != fired
    ] == done.run_ids
    assert (1, 0) == (done.ran, done.pending)
    assert [] == scene.client.backfill("r", start, end, dry_run=True).run_ids


@pytest.mark.usefixtures("daemon")
def test_a_rule_firing_during_its_backfill_runs_each_occurrence_once(client: Client, redis_client: redis.Redis) -> None:
    client.schedule(f"{TASKS}.done", id="quick", every=0.05, overlap="allow")
    start = from_ms(client.get("quick").anchor_ms or 0)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default") >= 5)

    done = [client.backfill("quick", start, from_ms(client._reader.now_ms())) for _ in range(5)]
    client.pause("quick")
    done.append(client.backfill("quick", start, from_ms(client._reader.now_ms())))

    pushed = [int(one.rpartition("-")[2]) for one in queued(redis_client)]
    assert len(pushed) == len(set(pushed))
    assert {50} == {after - before for before, after in pairwise(sorted(pushed))}
    assert done[-1].ran + len(done[-1].runs) == len(pushed)


@pytest.mark.usefixtures("daemon")
def test_a_backfill_keeps_the_schedule_and_its_history(client: Client) -> None:
    before = client.get("r")

    backfill(client, 26, 2)

    assert before == client.get("r")
    story = client.why("r")
    first, last = (f"{now() - hours * HOUR:%Y-%m-%d %H:%M:%S}+00:00" for hours in (26, 3))
    assert f"backfilled by {client.by}: 24 occurrences, {first} to {last}" == story.lines[-1][1]
    found = client.history("r", status="enqueued", limit=100)
    assert [run(hours) for hours in range(3, 27)] == [one.run_id for one in found]
    assert {(What.ENQUEUED, "backfill")} == {(one.what, one.why) for one in found}


def test_a_lost_open_backfill_run_is_restored(client: Client, redis_url: str, link: Link) -> None:
    with redis.Redis.from_url(redis_url) as redis_client, leading_daemon(redis_url):
        backfill(client, 5, 3)
        redis_client.hset(KEYS.rq.job(run(5)), "status", "finished")
        backfill(client, 5, 4, again=True)
        redis_client.delete(KEYS.rq.job(run(5)))
        lost = set(queued(redis_client)) - {run(5)}
        redis_client.lrem(f"{RQ}:queue:default", 0, run(5))
        eventually(lambda: any(e.kind == "end" for e in Log(link, KEYS).entries()))
        archived(link)

        redis_client.flushall()

        eventually(lambda: set(queued(redis_client)) == lost)
        assert {b"1"} == {redis_client.hget(KEYS.rq.job(one), "zs_uncertain") for one in lost}
        eventually(lambda: [schedule.id for schedule in client.list()] == ["r"])
        done = backfill(client, 6, 2)

    assert ([run(6), run(3)], 2) == (done.run_ids, done.ran)
