"""Time by hand, on real daemons: schedules that become due, a lease that lapses, a hold that ends."""

import signal
from pathlib import Path
from typing import Any

import pytest
import redis
from rq.job import Job

from tests.builders.daemons import Start
from tests.builders.leaders import know
from tests.clocks import now_ms
from tests.faults.archives import KEYS, assert_state_is_redis_own, await_caught_up, is_leader, stop
from tests.faults.leases import end_hold, lapse
from tests.faults.overdue import become_due
from tests.ledger import assert_dense, fired, queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.core.options.choices import Priority
from zsched.embedded import EmbeddedRedis

KINDS: dict[str, dict[str, Any]] = {"one-shots": {"after": 3600}, "rules": {"every": 3600}}


def lanes(watch: redis.Redis) -> dict[str, float]:
    """Return the due times of all schedules."""
    return {id.decode(): ms for lane in Priority for id, ms in watch.zrange(KEYS.due(lane), 0, -1, withscores=True)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_leading", [True, False], ids=["under a leader", "before it"])
def test_schedules_become_due_at_one_time_in_job_log_and_archive(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, tmp_path: Path, kind: str, is_leading: bool
) -> None:
    know(watch)
    client, path = Client.from_url(server.url), tmp_path / "archive.db"
    ids = [f"{lane.value}{n}" for lane in Priority for n in range(2)]
    for n, id in enumerate(ids):
        options = {"priority": id[:-1], "queue": f"mail{n % 3}", "retry": n + 1} | KINDS[kind]
        client.schedule("app.run", id=id, args=(n,), **options)
    client.schedule("app.run", id="other", after=3600)
    later, before_ms = lanes(watch), now_ms(watch)
    runs = [] if is_leading else become_due(watch, *ids)
    daemon = start_daemon(server.url, ARCHIVE_PATH=str(path))
    daemon.wait_for("term_began")

    runs = runs or become_due(watch, *ids)

    eventually(lambda: len(fired(watch)) == len(ids))
    await_caught_up(server.url, path)
    stop(daemon)
    due_ms = int(runs[0].rpartition("-")[2])
    assert before_ms <= due_ms <= now_ms(watch)
    assert [f"{id}-{due_ms}" for id in ids] == runs
    assert sorted(runs) == sorted(run for number in range(3) for run in queued(watch, f"mail{number}"))
    for n, run in enumerate(runs):
        job = Job.fetch(run, connection=watch)
        assert ((n,), f"mail{n % 3}", n + 1, "queued") == (job.args, job.origin, job.retries_left, job.get_status())
    assert sorted(runs) == sorted(run for run, _ in fired(watch))
    assert all(due_ms * 1000 <= t for _, t in fired(watch))
    assert {id: ms for id, ms in later.items() if kind == "rules" or id == "other"} == lanes(watch)
    assert_dense(watch)
    assert_state_is_redis_own(server.url, path)


def test_a_lapsed_lease_is_taken_by_the_standby(start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis) -> None:
    know(watch)
    leader = start_daemon(server.url)
    leader.wait_for("term_began")
    standby = start_daemon(server.url)
    leader.send_to_all(signal.SIGSTOP)
    Client.from_url(server.url).schedule("app.run", id="a", after=0)

    epoch = lapse(watch)

    assert epoch == standby.wait_for("term_began")["epoch"]
    assert is_leader(standby, watch)
    [run] = eventually(lambda: queued(watch))
    leader.send_to_all(signal.SIGCONT)
    leader.wait_for("term_lost")
    assert [run] == queued(watch)
    stop(leader, standby)


def test_a_hold_ends_by_hand(start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis) -> None:
    know(watch)
    watch.hset(KEYS.meta(), "server", "another Redis")
    Client.from_url(server.url).schedule("app.run", id="a", after=0)
    daemon = start_daemon(server.url)
    daemon.wait_for("fire_held")
    assert 0 == watch.exists(f"{RQ}:queue:default")

    end_hold(watch, daemon)

    eventually(lambda: queued(watch))
    daemon.stop()
