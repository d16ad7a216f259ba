"""client.backfill: with real daemons, archives and workers, and without; nothing runs twice unless it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.faults.processes import eventually
from tests.faults.threads import STEADY, DaemonThread, know
from tests.integration.archive.ground import Scene
from zsched import Client, InvalidSchedule, ScheduleNotFound
from zsched.archive import ran as archive_ran
from zsched.core.backfill import Backfill
from zsched.core.changes import What
from zsched.core.clock import from_ms, to_ms
from zsched.core.log import Position
from zsched.core.runs import RunStatus
from zsched.embedded.guard import Guard
from zsched.errors import ArchiveError, RedisUnavailable
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.inquiry import Inquiry
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.questions import Inbox

pytestmark = pytest.mark.redis
KEYS = Keys("default")
ROOT = Path(__file__).parents[2]
TASKS = "tests.integration.reruns"
BURST_S = 60
HOUR = timedelta(hours=1)
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - HOUR  # an hour that has passed for sure


@pytest.fixture
def client(redis_client: redis.Redis, link: Link) -> Client:
    """With a schedule r, of every full hour."""
    know(redis_client)
    client = Client(link)
    client.schedule(f"{TASKS}.done", id="r", cron="0 * * * *", args=(1,))
    return client


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for an answer that does not come."""
    monkeypatch.setattr("zsched.storage.questions.WAIT_S", 0.05)


@pytest.fixture
def work(redis_client: redis.Redis, redis_url: str, tmp_path: Path) -> Iterator[Callable[[], list[str]]]:
    """Lets a worker do what is queued; the ids in the receipts until then."""
    with Guard() as guard:

        def until_done() -> list[str]:
            command = [sys.executable, "-m", "rq.cli", "worker", "--burst", "--url", redis_url, "default"]
            env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
            with (tmp_path / "worker.log").open("ab") as log:
                worker = guard.spawn(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT)
            assert 0 == worker.wait(BURST_S)
            return [receipt.decode().split(" ")[0] for receipt in redis_client.lrange("receipts", 0, -1)]

        yield until_done


def run(hours_ago: int, suffix: str = "") -> str:
    """The run of r that many hours before NOW."""
    return f"r-{to_ms(NOW - hours_ago * HOUR)}{suffix}"


def queue(redis_client: redis.Redis) -> list[str]:
    return [run.decode() for run in redis_client.lrange("rq:queue:default", 0, -1)]


def backfill(client: Client, first: int, last: int, **options: Any) -> Backfill:
    """Of r, from *first* hours ago up to, and without, *last* hours ago."""
    return client.backfill("r", NOW - first * HOUR, NOW - last * HOUR, **options)


def archived(link: Link) -> Position:
    """The log's last position, as soon as an archive has it."""
    last = Log(link, KEYS).last()
    assert last is not None
    eventually(lambda: Archivers(link, KEYS).archived(last.position.id, last.position.t_us // 1000) == "archived")
    return last.position


def forget(redis_client: redis.Redis, link: Link) -> None:
    """RQ forgets all jobs, and Redis the log but for its last entry."""
    last = archived(link)
    redis_client.delete("rq:queue:default", *redis_client.keys("rq:job:*"))
    redis_client.xtrim(KEYS.log(), minid=last.id, approximate=False)


# -- what ran is left out -----------------------------------------------------------------------------


@pytest.mark.usefixtures("daemon")
def test_workers_run_what_did_not_run_in_order_and_once(client: Client, work: Callable[[], list[str]]) -> None:
    first = backfill(client, 5, 2)
    work()
    eventually(lambda: [one.status for one in client.runs("r")] == [RunStatus.SUCCEEDED] * 3)
    second = backfill(client, 6, 1)

    assert [run(5), run(4), run(3)] == first.run_ids
    assert ([run(6), run(2)], 3) == (second.run_ids, second.ran)
    assert [run(5), run(4), run(3), run(6), run(2)] == work()
    assert second.source.archive is not None


@pytest.mark.usefixtures("daemon")
def test_what_only_an_archive_remembers_is_left_out(client: Client, redis_client: redis.Redis, link: Link) -> None:
    backfill(client, 5, 3)
    forget(redis_client, link)

    done = backfill(client, 6, 2)

    assert ([run(6), run(3)], 2) == (done.run_ids, done.ran)
    assert [run(6), run(3)] == queue(redis_client)


@pytest.mark.usefixtures("daemon")
def test_an_archive_tells_part_by_part(
    client: Client, redis_client: redis.Redis, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hours in range(10, 4, -1):
        backfill(client, hours, hours - 1)
    forget(redis_client, link)
    monkeypatch.setattr(archive_ran, "_LOOKED_FOR_MS", 0.0)  # an entry each

    done = backfill(client, 12, 3)

    assert ([run(12), run(11), run(4)], 6) == (done.run_ids, done.ran)


@pytest.mark.usefixtures("daemon")
def test_again_is_an_extra_run_of_what_ran_and_is_over(client: Client, redis_client: redis.Redis) -> None:
    backfill(client, 5, 3)
    redis_client.hset(KEYS.job(run(5)), "status", "finished")

    foreseen = backfill(client, 6, 3, again=True, dry_run=True)
    done = backfill(client, 6, 3, again=True)

    assert [run(6), None] == [one.run_id for one in foreseen.runs]
    plain, extra = done.run_ids
    assert (run(6), f"{run(5)}-r") == (plain, extra.rstrip("0123456789"))
    assert 1 == done.ran  # that one is queued still
    assert [run(5), run(4), plain, extra] == queue(redis_client)


@pytest.mark.usefixtures("impatient")
def test_without_an_archive_the_log_tells_and_what_rq_holds(client: Client, redis_client: redis.Redis) -> None:
    backfill(client, 5, 4)
    redis_client.hset(KEYS.job(run(3)), mapping={"status": "finished"})  # by a Redis before this one
    redis_client.delete(KEYS.job(run(5)))

    done = backfill(client, 6, 2)

    assert ([run(6), run(4)], 2) == (done.run_ids, done.ran)
    assert (None, True) == (done.source.archive, done.source.is_untrimmed)


@pytest.mark.usefixtures("impatient")
def test_what_is_not_known_is_not_run(client: Client, redis_client: redis.Redis, link: Link) -> None:
    client.run_now("r")
    last = Log(link, KEYS).last()
    assert last is not None
    redis_client.xtrim(KEYS.log(), minid=last.position.id, approximate=False)
    before = queue(redis_client)

    with pytest.raises(
        ArchiveError, match=r"what ran before .* is not known \(no archive answered within .*again=True"
    ):
        backfill(client, 5, 3)
    with pytest.raises(ArchiveError):
        backfill(client, 5, 3, dry_run=True)
    assert before == queue(redis_client)

    assert [run(5), run(4)] == backfill(client, 5, 3, again=True).run_ids


def test_an_archive_that_begins_later_does_not_know_either(
    client: Client, redis_client: redis.Redis, redis_url: str, link: Link
) -> None:
    client.run_now("r")
    last = Log(link, KEYS).last()
    assert last is not None
    redis_client.xtrim(KEYS.log(), minid=last.position.id, approximate=False)
    with DaemonThread(redis_url, **STEADY):
        eventually(lambda: Archivers(link, KEYS).alive())

        with pytest.raises(ArchiveError, match="the archive goes back no further"):
            backfill(client, 5, 3)


class Answering(threading.Thread):
    """Answers every question with *told*, from the log entry *as_of*, inside the block."""

    def __init__(self, link: Link, as_of: str, **told: Any) -> None:
        super().__init__(daemon=True)
        source = {"archive": "host:/a.db", "complete_since": "start", "as_of": as_of}
        self._link, self._answer, self._stopping = link, {"source": source, "by": "a"} | told, threading.Event()

    def __enter__(self) -> Answering:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        with self._link.wire() as wire:
            inbox = Inbox(wire, KEYS)
            while not self._stopping.is_set():
                question = inbox.take(0.1)
                if question is not None:
                    inbox.answer(question, self._answer)


def test_what_an_archive_does_not_have_yet_is_read_from_the_log(client: Client, link: Link) -> None:
    before = Log(link, KEYS).last()
    assert before is not None
    client._store.backfill("r", client.get("r").version or "", [(to_ms(NOW - 5 * HOUR), False)], "op")

    with Answering(link, before.position.id, ran=[[to_ms(NOW - 4 * HOUR), 0, 1]], read_to=None):
        ran, source = Inquiry(link, KEYS).ran("r", to_ms(NOW - 9 * HOUR), to_ms(NOW))

    assert {to_ms(NOW - 5 * HOUR), to_ms(NOW - 4 * HOUR)} == ran
    assert "host:/a.db" == source.archive


def test_an_archive_that_does_not_get_on_is_an_error_and_not_a_loop(client: Client, link: Link) -> None:
    with Answering(link, "0-1", ran=[], read_to=5), pytest.raises(ArchiveError, match="does not get on"):
        backfill(client, 5, 3)


# -- beside the schedule itself -----------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
def test_what_was_coalesced_can_be_run_after_all(redis_client: redis.Redis, redis_url: str, tmp_path: Path) -> None:
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
def test_a_rule_that_fires_meanwhile_and_its_backfill_share_the_occurrences(
    client: Client, redis_client: redis.Redis
) -> None:
    client.schedule(f"{TASKS}.done", id="quick", every=0.05, overlap="allow")
    start = from_ms(client.get("quick").anchor_ms or 0)
    eventually(lambda: redis_client.llen("rq:queue:default") >= 5)

    done = [client.backfill("quick", start, from_ms(client._reader.now_ms())) for _ in range(5)]
    client.pause("quick")
    done.append(client.backfill("quick", start, from_ms(client._reader.now_ms())))

    pushed = [int(one.rpartition("-")[2]) for one in queue(redis_client)]
    assert len(pushed) == len(set(pushed))
    assert {50} == {after - before for before, after in pairwise(sorted(pushed))}
    assert done[-1].ran + len(done[-1].runs) == len(pushed)


@pytest.mark.usefixtures("daemon")
def test_the_schedule_and_its_story_stay_whole(client: Client) -> None:
    before = client.get("r")

    backfill(client, 26, 2)

    assert before == client.get("r")
    story = client.why("r")
    first, last = (f"{NOW - hours * HOUR:%Y-%m-%d %H:%M:%S}+00:00" for hours in (26, 3))
    assert f"backfilled 24 occurrences, {first} to {last}" == story.lines[-1][1]
    found, _ = client.history("r", status="enqueued", limit=100)
    assert [run(hours) for hours in range(3, 27)] == [one.run_id for one in found]
    assert {(What.ENQUEUED, "backfill")} == {(one.what, one.why) for one in found}


def test_an_open_run_that_redis_lost_comes_back(client: Client, redis_url: str, link: Link) -> None:
    with redis.Redis.from_url(redis_url) as redis_client, DaemonThread(redis_url):
        eventually(lambda: Archivers(link, KEYS).alive())
        backfill(client, 5, 3)
        redis_client.hset(KEYS.job(run(5)), "status", "finished")
        backfill(client, 5, 4, again=True)
        redis_client.delete(KEYS.job(run(5)))
        lost = set(queue(redis_client)) - {run(5)}
        redis_client.lrem("rq:queue:default", 0, run(5))
        eventually(lambda: any(e.kind == "end" for e in Log(link, KEYS).entries()))
        archived(link)

        redis_client.flushall()

        eventually(lambda: set(queue(redis_client)) == lost)
        assert {b"1"} == {redis_client.hget(KEYS.job(one), "zs_uncertain") for one in lost}
        eventually(lambda: [schedule.id for schedule in client.list()] == ["r"])
        done = backfill(client, 6, 2)

    assert ([run(6), run(3)], 2) == (done.run_ids, done.ran)


# -- how it goes --------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing(client: Client, redis_client: redis.Redis) -> None:
    before = {key: redis_client.dump(key) for key in redis_client.keys("*")}

    done = backfill(client, 5, 3, dry_run=True)

    assert before == {key: redis_client.dump(key) for key in redis_client.keys("*")}
    assert (True, [run(5), run(4)]) == (done.is_dry_run, done.run_ids)


@pytest.mark.usefixtures("impatient")
def test_it_says_how_far_it_came(client: Client) -> None:
    told: list[tuple[int, int]] = []

    backfill(client, 250, 0, on_progress=lambda done, total: told.append((done, total)))

    assert [(0, 250), (100, 250), (200, 250), (250, 250)] == told


@pytest.mark.usefixtures("impatient")
def test_one_that_broke_off_is_gone_on_with_by_the_same_call(client: Client, redis_client: redis.Redis) -> None:
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backfill(client, 250, 0, on_progress=stop)
    assert 100 == len(queue(redis_client))

    done = backfill(client, 250, 0)

    assert (150, 100) == (len(done.runs), done.ran)
    assert [run(hours) for hours in range(250, 0, -1)] == queue(redis_client)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"args": (2,)}, range(250, 0, -1)), ({"cron": "0 0 * * *"}, None)],
    ids=["its arguments", "its rule"],
)
def test_when_it_is_changed_meanwhile_the_rest_is_as_it_is_then(
    client: Client, redis_client: redis.Redis, changes: dict[str, Any], expected: range | None
) -> None:
    def change(done: int, total: int) -> None:
        if done == 100:
            client.update("r", **changes)

    done = backfill(client, 250, 0, on_progress=change)

    hours = expected or [n for n in range(250, 0, -1) if n > 150 or (NOW - n * HOUR).hour == 0]
    assert [run(n) for n in hours] == done.run_ids == queue(redis_client)
    data = redis_client.hget(KEYS.template("r"), "data")
    assert [data] == list({redis_client.hget(KEYS.job(run(n)), "data") for n in hours if n <= 150})


@pytest.mark.usefixtures("impatient")
def test_however_often_it_is_changed_it_goes_on(client: Client, redis_client: redis.Redis) -> None:
    done = backfill(client, 1000, 0, on_progress=lambda done, total: client.update("r", args=(done,)))

    assert [run(hours) for hours in range(1000, 0, -1)] == done.run_ids == queue(redis_client)


@pytest.mark.usefixtures("impatient")
def test_when_it_is_another_at_every_attempt_it_gives_up(
    client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    push, numbers = client._store.backfill, iter(range(100))

    def changed(*given: Any) -> Any:
        client.update("r", args=(next(numbers),))
        return push(*given)

    monkeypatch.setattr(client._store, "backfill", changed)

    with pytest.raises(
        RedisUnavailable, match=r"changed by others at every attempt.*repeating the call with this id is"
    ):
        backfill(client, 3, 0)
    assert [] == queue(redis_client)


@pytest.mark.usefixtures("impatient")
def test_when_it_is_cancelled_meanwhile_the_rest_does_not_run(client: Client, redis_client: redis.Redis) -> None:
    with pytest.raises(ScheduleNotFound):
        backfill(client, 250, 0, on_progress=lambda done, total: done and client.cancel("r"))

    assert 100 == len(queue(redis_client))


@pytest.mark.usefixtures("impatient")
def test_naive_times_are_local_in_the_schedules_zone(client: Client) -> None:
    client.schedule("app.task", id="seoul", cron="0 9 * * *", tz="Asia/Seoul")

    done = client.backfill("seoul", datetime(2026, 3, 1, 9), datetime(2026, 3, 3, 9), dry_run=True)

    assert [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2)] == [from_ms(one.nominal_ms) for one in done.runs]


# -- what is refused ----------------------------------------------------------------------------------

SOON = datetime.now(UTC) + timedelta(days=1)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a one-shot": ({"id": "once"}, r"^id='once': it is a one-shot.*; run it now"),
    "the end before the start": ({"end": NOW - 9 * HOUR}, r"^end=.*not later than start=.*; swap them"),
    "the end at the start": ({"end": NOW - 5 * HOUR}, r"^end=.*not later than start"),
    "what comes": ({"end": SOON}, r"^end=.*on the Redis server, and what comes is scheduled already; give a time up"),
    "no time": ({"start": "yesterday"}, r"^start='yesterday': not a datetime"),
    "a flag that is none": ({"again": "yes"}, r"^again='yes': not a yes or no"),
    "a bad id": ({"id": "a b"}, r"^id='a b'"),
    "one in quarantine": ({"id": "broken"}, r"^id='broken': it is quarantined"),
    "one that a foreign hand broke": ({"id": "foreign"}, r"^id='foreign': its rule or anchor cannot be read"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused(client: Client, redis_client: redis.Redis, what: str) -> None:
    given, message = REFUSED[what]
    client.schedule("app.task", id="once", at=SOON)
    for id in ("broken", "foreign"):
        client.schedule("app.task", id=id, cron="0 * * * *")
    redis_client.zrem(f"{KEYS.prefix}due:normal", "broken")
    redis_client.hset(KEYS.quarantine(), "broken", "normal 5 5 why")
    redis_client.hdel(KEYS.schedule("foreign"), "anchor")
    arguments: dict[str, Any] = {"id": "r", "start": NOW - 5 * HOUR, "end": NOW} | given

    with pytest.raises(InvalidSchedule, match=message):
        client.backfill(**arguments)
    assert [] == queue(redis_client)


def test_nothing_is_not_found(client: Client) -> None:
    with pytest.raises(ScheduleNotFound, match="no schedule 'nothing'"):
        client.backfill("nothing", NOW - HOUR, NOW)


def test_ten_million_are_refused_with_their_number_and_where_to_end(client: Client) -> None:
    client.schedule("app.task", id="r", cron="* * * * * *")
    start, message = (
        NOW - timedelta(seconds=10_000_000),
        r"10,000,000 occurrences lie between.*more than 100,000.*end at ",
    )

    with pytest.raises(InvalidSchedule, match=message) as caught:
        client.backfill("r", start, NOW)

    assert (start + timedelta(seconds=100_000)).isoformat() in caught.value.remedy
