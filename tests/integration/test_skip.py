"""Occurrences that are skipped by hand, with a real daemon: what fires, what is recorded, and what survives a loss."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.clocks import minutes_ago, now_ms
from tests.ledger import queued
from tests.waiting import eventually
from zsched import Client, InvalidSchedule, VersionConflict
from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.storage.archivers import Archivers

FUNC = "app.tasks.run"
MINUTE_MS = 60_000
AGO = 30


def told(client: Client, id: str = "tick") -> str:
    return "\n".join(text for _, text in client.why(id).lines)


def what_happened(client: Client, *whats: What) -> dict[What, list[int | None]]:
    """Return the nominal times of the changes of *whats*, in order."""
    found = list(client.history("tick", limit=200))
    return {what: sorted(one.first_ms or one.nominal_ms for one in found if one.what is what) for what in whats}  # type: ignore[type-var]


@contextmanager
def archiving(client: Client, redis_url: str) -> Iterator[None]:
    """Run a daemon whose archive follows."""
    with DaemonThread(redis_url):
        eventually(lambda: Archivers(client._link, client._keys).alive() > 0)
        yield


def lose(client: Client, redis_client: redis.Redis) -> None:
    """Lose all of Redis, as soon as the archive has it, and wait until it is back."""
    client.schedule(FUNC, id="other", after=3600, durable=True)
    redis_client.flushall()
    eventually(lambda: {"other", "tick"} == {one.id for one in client.list()})


def test_a_skipped_occurrence_moves_the_next_time_and_a_take_back_moves_it_back(client: Client) -> None:
    client.schedule(FUNC, id="tick", cron="0 9 * * *", tz="Asia/Seoul")
    first, second, third = client.preview("tick", n=3)

    skipped = client.skip("tick", note="holiday")

    assert ((first,), second) == (skipped.skipped, skipped.next_at)
    assert [second, third] == list(client.preview("tick", n=2))
    assert f'will skip {first:%Y-%m-%d} 09:00:00+09:00, asked by {client.by}: "holiday"' in told(client)
    back = client.unskip("tick", first)
    assert ((), first) == (back.skipped, back.next_at)


def test_a_later_occurrence_is_skipped_by_its_local_time_and_only_once(client: Client) -> None:
    client.schedule(FUNC, id="tick", cron="0 9 * * *", tz="Asia/Seoul")
    first, second, third = client.preview("tick", n=3)

    version = client.skip("tick", second.replace(tzinfo=None)).version

    assert version == client.skip("tick", second).version
    assert [first, third] == list(client.preview("tick", n=2))
    assert (second,) == client.get("tick").skipped


def test_a_fired_skip_is_recorded_once_with_who_and_why(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with minutes_ago(redis_client, AGO):
        client.schedule(FUNC, id="tick", cron="* * * * *", catch_up="all", overlap="allow")
        first_ms = client.get("tick").nominal_ms or 0
        times = range(first_ms, first_ms + (AGO + 1) * MINUTE_MS, MINUTE_MS)
        client.skip("tick", next=2, note="deploy")
        client.skip("tick", from_ms(times[5]), note="visitors")
    skipped = [times[0], times[1], times[5]]

    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        eventually(lambda: (client.get("tick").next_ms or 0) > now_ms(redis_client))

    eventually(lambda: skipped == what_happened(client, What.SKIPPED)[What.SKIPPED])  # an archive may be behind
    found = what_happened(client, What.SKIPPED, What.FIRED)
    assert skipped == found[What.SKIPPED]
    assert [ms for ms in times if ms not in skipped and ms < (client.get("tick").nominal_ms or 0)] == found[What.FIRED]
    assert len(found[What.FIRED]) == len(queued(redis_client))
    assert f'skipped by hand: asked by {client.by}: "visitors"' in told(client)
    assert b"skip=" not in redis_client.hget("zsched:{default}:schedule:tick", "progress")


def test_excluded_occurrences_that_a_skip_passes_are_recorded(client: Client, redis_client: redis.Redis) -> None:
    minute = (now_ms(redis_client) // MINUTE_MS + 30) % 60  # none is due now
    client.schedule(FUNC, id="tick", cron=f"{minute} * * * *", exclude=["22:00-07:00"])

    client.skip("tick", next=15)

    [night] = [one for one in client.history("tick") if one.what is What.EXCLUDED]
    assert (9, "22:00-07:00") == (night.count, night.why)
    assert f"22:{minute:02}:00" in told(client)


def test_skips_return_after_a_loss(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    client.schedule(FUNC, id="tick", cron="0 9 * * *")
    first, second, third = client.preview("tick", n=3)

    with archiving(client, redis_url):
        client.skip("tick")
        client.skip("tick", third)
        client.pause("tick")
        client.resume("tick")
        lose(client, redis_client)

    assert ((first, third), second) == (client.get("tick").skipped, client.get("tick").next_at)


def test_a_new_archive_reads_the_skips_from_redis(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    client.schedule(FUNC, id="tick", cron="0 9 * * *")
    first, second = client.preview("tick", n=2)
    client.skip("tick")

    with archiving(client, redis_url):
        lose(client, redis_client)

    assert ((first,), second) == (client.get("tick").skipped, client.get("tick").next_at)


def test_a_put_keeps_skips_of_the_rule(client: Client) -> None:
    client.schedule(FUNC, id="tick", cron="0 9 * * *")
    first, second = client.preview("tick", n=2)
    client.skip("tick")

    client.schedule(FUNC, id="tick", cron="0 9 * * *", queue="mail")
    assert ((first,), second) == (client.get("tick").skipped, client.get("tick").next_at)

    client.schedule(FUNC, id="tick", cron="0 10 * * *")
    assert () == client.get("tick").skipped


@pytest.mark.parametrize(
    ("at", "problem"),
    [(timedelta(minutes=7), "no occurrence of its rule is then"), (timedelta(days=-40), "its time has come already")],
)
def test_a_time_without_an_occurrence_to_come_is_refused(client: Client, at: timedelta, problem: str) -> None:
    client.schedule(FUNC, id="tick", cron="0 * * * *", starts=from_ms(0))
    [first] = client.preview("tick", n=1)

    with pytest.raises(InvalidSchedule, match=problem):
        client.skip("tick", first + at)
    assert () == client.get("tick").skipped


def test_a_one_shot_cannot_be_skipped(client: Client) -> None:
    client.schedule(FUNC, id="once", after=3600)

    with pytest.raises(InvalidSchedule, match="zsched cancel once"):
        client.skip("once")


def test_a_skip_demands_the_version_that_was_read(client: Client) -> None:
    client.schedule(FUNC, id="tick", cron="0 9 * * *")
    version = client.get("tick").version
    client.skip("tick")

    with pytest.raises(VersionConflict):
        client.skip("tick", if_version=version)


def test_more_than_a_hundred_skips_are_refused(client: Client) -> None:
    client.schedule(FUNC, id="tick", cron="0 9 * * *")
    client.skip("tick", next=100)

    with pytest.raises(InvalidSchedule, match="more than 100 of its times"):
        client.skip("tick")
    assert 100 == len(client.get("tick").skipped)


def test_a_schedule_whose_last_occurrence_is_skipped_ends_with_a_record(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with minutes_ago(redis_client, AGO):
        client.schedule(FUNC, id="tick", cron="* * * * *", count=2)
        client.skip("tick", next=2)

    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        eventually(lambda: client.get("tick").state.value == "ended")

    eventually(lambda: 2 == len(what_happened(client, What.SKIPPED)[What.SKIPPED]))  # an archive may be behind
    assert [] == what_happened(client, What.FIRED)[What.FIRED]


def test_a_skip_of_a_paused_schedule_counts_when_it_is_resumed(client: Client) -> None:
    client.schedule(FUNC, id="tick", cron="0 9 * * *")
    first, second = client.preview("tick", n=2)
    client.pause("tick")

    client.skip("tick")
    resumed = client.resume("tick")

    assert resumed is not None
    assert ((first,), second) == (resumed.skipped, resumed.next_at)


def test_the_timeline_leaves_out_skips_of_one_schedule_and_counts_its_twins(client: Client) -> None:
    for id in ("tick", "tock"):
        client.schedule(FUNC, id=id, cron="0 9 * * *")
    _, second, third, fourth = client.preview("tick", n=4)
    client.skip("tick", third)

    day = timedelta(days=1)
    shown = client.timeline(second - day / 2, fourth - day / 2, day).to_dict()

    assert [2, 1] == [sum(n for word, n in one.items() if word == "expected") for one in shown["buckets"]]
