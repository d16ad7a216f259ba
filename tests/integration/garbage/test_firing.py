"""A daemon among schedules with a field of garbage: it fires the healthy ones, and leaves no due one in its lane."""

from collections import Counter
from datetime import timedelta

import redis

from tests.builders.daemons import DaemonThread
from tests.builders.leaders import know
from tests.clocks import set_back
from tests.integration.garbage.spoiling import JOBS, KEYS, QUEUE, Garbage
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import SystemClock, from_ms
from zsched.core.runs.run_id import schedule_of

HOUR_MS = 3_600_000
TROUBLE = ("redis_refused", "log_entry_unknown", "died", "thread_failed")


def test_a_daemon_fires_the_healthy_schedules_among_spoilt_ones(redis_client: redis.Redis, redis_url: str) -> None:
    know(redis_client)
    now_ms = SystemClock().now_ms()
    at = from_ms(now_ms) - timedelta(minutes=30)
    with set_back(redis_client, HOUR_MS):
        ground = Garbage(redis_client, Client.from_url(redis_url), JOBS, at, every_s=600)
        ground.put()

    with DaemonThread(redis_url) as daemon:
        eventually(lambda: not redis_client.zcount(KEYS.due_normal(), 0, now_ms))

        assert daemon.is_running
    pushed = redis_client.lrange(f"{RQ}:queue:{QUEUE}", 0, -1)
    runs = Counter(schedule_of(run.decode()) for run in pushed)
    assert [] == [id for id in ground.canaries if not runs[id]]
    assert [] == [id for id, one in ground.canaries.items() if one["kind"] == "once" and runs[id] != 1]
    assert len(pushed) == len({*pushed})
    assert [] == [event for event in daemon.events if event["event"] in TROUBLE]
