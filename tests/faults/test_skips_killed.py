"""The leader is killed while it fires and records: skipped occurrences stay skipped, and each is recorded once."""

import signal

import redis

from tests.builders.daemons import Start
from tests.clocks import minutes_ago, now_ms
from tests.faults.leases import lapse, leader_and_standby
from tests.ledger import doubles, queued
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.options.choices import ScheduleState

AGO_MS = 40 * 60_000
IDS = [f"tick-{number}" for number in range(20)]


def test_skips_hold_and_are_recorded_once_if_the_leader_is_killed_meanwhile(
    redis_client: redis.Redis, redis_url: str, start_daemon: Start
) -> None:
    client, skipped = Client.from_url(redis_url), dict[str, list[int]]()
    with minutes_ago(redis_client, AGO_MS // 60_000):
        for number, id in enumerate(IDS):
            client.schedule("app.run", id=id, cron="* * * * *", catch_up="all", overlap="allow")
            first_ms = client.get(id).nominal_ms or 0
            skipped[id] = [first_ms + place * 60_000 for place in range(30) if place % (number + 2) == 0]
            for at_ms in skipped[id]:
                client.skip(id, from_ms(at_ms))
        client.schedule("app.run", id="paused", cron="* * * * *", catch_up="all", overlap="allow")
        client.pause("paused", until=from_ms(now_ms(redis_client) - AGO_MS // 2))

    first, _ = leader_and_standby(start_daemon, redis_url, redis_client)
    eventually(lambda: len(queued(redis_client)) > 50)
    first.send_to_all(signal.SIGKILL)
    lapse(redis_client)
    eventually(lambda: all((client.get(id).next_ms or 0) > now_ms(redis_client) for id in IDS))
    eventually(lambda: client.get("paused").state is ScheduleState.ACTIVE)

    runs = len(queued(redis_client))
    eventually(
        lambda: runs <= sum(one.what is What.FIRED for id in [*IDS, "paused"] for one in client.history(id, limit=200))
    )
    for id in IDS:
        past = list(client.history(id, limit=200))
        by_hand = sorted(one.first_ms or 0 for one in past if one.what is What.SKIPPED)
        fired = sorted(one.nominal_ms or 0 for one in past if one.what is What.FIRED)
        assert skipped[id] == by_hand
        assert not set(fired) & set(by_hand)
        every = sorted([*fired, *by_hand])
        assert [*range(every[0], every[-1] + 1, 60_000)] == every
    assert [] == doubles(queued(redis_client))
