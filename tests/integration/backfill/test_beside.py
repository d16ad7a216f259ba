"""A backfill beside the schedule itself: its runs, its story, and its restore after a loss."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from tests.faults.processes import eventually
from tests.faults.threads import DaemonThread
from tests.integration.archive.ground import Scene
from tests.integration.backfill.ground import HOUR, KEYS, NOW, backfill, run
from tests.integration.reruns.ground import TASKS, archived, queue
from tests.prefix import RQ
from zsched import Client
from zsched.core.changes import What
from zsched.core.clock import from_ms, to_ms
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.log import Log


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

    pushed = [int(one.rpartition("-")[2]) for one in queue(redis_client)]
    assert len(pushed) == len(set(pushed))
    assert {50} == {after - before for before, after in pairwise(sorted(pushed))}
    assert done[-1].ran + len(done[-1].runs) == len(pushed)


@pytest.mark.usefixtures("daemon")
def test_a_backfill_keeps_the_schedule_and_its_history(client: Client) -> None:
    before = client.get("r")

    backfill(client, 26, 2)

    assert before == client.get("r")
    story = client.why("r")
    first, last = (f"{NOW - hours * HOUR:%Y-%m-%d %H:%M:%S}+00:00" for hours in (26, 3))
    assert f"backfilled by {client.by}: 24 occurrences, {first} to {last}" == story.lines[-1][1]
    found = client.history("r", status="enqueued", limit=100)
    assert [run(hours) for hours in range(3, 27)] == [one.run_id for one in found]
    assert {(What.ENQUEUED, "backfill")} == {(one.what, one.why) for one in found}


def test_a_lost_open_backfill_run_is_restored(client: Client, redis_url: str, link: Link) -> None:
    with redis.Redis.from_url(redis_url) as redis_client, DaemonThread(redis_url):
        eventually(lambda: Archivers(link, KEYS).alive())
        backfill(client, 5, 3)
        redis_client.hset(KEYS.rq.job(run(5)), "status", "finished")
        backfill(client, 5, 4, again=True)
        redis_client.delete(KEYS.rq.job(run(5)))
        lost = set(queue(redis_client)) - {run(5)}
        redis_client.lrem(f"{RQ}:queue:default", 0, run(5))
        eventually(lambda: any(e.kind == "end" for e in Log(link, KEYS).entries()))
        archived(link)

        redis_client.flushall()

        eventually(lambda: set(queue(redis_client)) == lost)
        assert {b"1"} == {redis_client.hget(KEYS.rq.job(one), "zs_uncertain") for one in lost}
        eventually(lambda: [schedule.id for schedule in client.list()] == ["r"])
        done = backfill(client, 6, 2)

    assert ([run(6), run(3)], 2) == (done.run_ids, done.ran)
