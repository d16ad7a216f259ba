"""Known failures: put, expired, taken back, and returned after a loss of Redis."""

from datetime import timedelta

import redis

from tests.builders.daemons import DaemonThread
from tests.clocks import KEYS, pass_time
from tests.waiting import eventually
from zsched import Client
from zsched.core.log.kinds import parse
from zsched.storage.archivers import ArchiveState


def test_an_expired_one_is_not_listed_and_the_next_one_deletes_it(client: Client, redis_client: redis.Redis) -> None:
    client.put_calendar("kr", dates=["12-25"])
    planned = redis_client.hget(KEYS.meta(), "calendars")
    old = client.ack(func="old", for_="1h")
    pass_time(redis_client, timedelta(hours=1))
    listed = client.known_failures()
    new = client.ack(func="new")

    held = {name: text.partition(b" ")[2] for name, text in redis_client.hgetall(KEYS.named_texts()).items()}
    assert ([], [new]) == (listed, client.known_failures())
    assert b"-" == held[f"known_failure:{old.name}".encode()]
    assert ["kr"] == list(client.calendars())
    assert planned == redis_client.hget(KEYS.meta(), "calendars")  # else the leader would plan anew


def test_a_known_failure_that_another_program_broke_is_left_out(client: Client, redis_client: redis.Redis) -> None:
    one = client.ack(func="app.*")
    redis_client.hset(
        KEYS.named_texts(), mapping={"known_failure:bad": "5 {", "known_failure:odd": "?", "other": "5 x"}
    )

    assert [one] == client.known_failures()


def test_known_failures_return_after_a_loss_unless_they_were_taken_back(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    kept, before = client.ack(func="kept", note="by the archive"), client.ack(func="before")
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        eventually(lambda: [ArchiveState.FOLLOWING] == [one.state for one in client._overview().archives])
        client.ack(func="gone")
        logged = client.ack(error="from the log *", for_="8d")
        for one in (before, *client.known_failures()):
            if one.func in ("gone", "before"):
                client.remove_ack(one.name)
        client.schedule("app.f", id="other", after=3600, durable=True)
        redis_client.flushall()
        eventually(lambda: [kept, logged] == client.known_failures())


def test_the_log_says_who_put_and_deleted_a_known_failure(client: Client) -> None:
    one = client.ack(func="app.*")
    client.remove_ack(one.name)

    entries, _ = client.log()
    assert [f"put known failure {one.name} by {client.by}", f"deleted known failure {one.name} by {client.by}"] == [
        parse(entry).sentence() for entry in entries
    ]
