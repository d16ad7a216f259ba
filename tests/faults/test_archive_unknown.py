"""
An entry that this version cannot read, as a newer version would write it: the archive keeps it, reports it, and follows
on.
"""

from __future__ import annotations

from pathlib import Path

import redis

from tests.faults.archives import KEYS, assert_state_is_redis_own, await_caught_up, history, log_in, stop
from tests.faults.clocks import now_us
from tests.faults.ledger import queued
from tests.faults.processes import Start, eventually
from tests.faults.threads import know
from zsched import Client


def write_entry_of_the_future(watch: redis.Redis) -> str:
    """Write the next entry of the log, of an unknown kind; return its id."""

    def write(pipe: redis.client.Pipeline) -> None:
        epoch, seq = (int(text) for text in pipe.hmget(KEYS.meta(), "epoch", "seq"))
        pipe.multi()
        fields = {"kind": "teleport", "t": now_us(watch), "to": b"\xff\x00 anywhere"}
        pipe.xadd(KEYS.log(), fields, id=f"{epoch}-{seq + 1}")
        pipe.hset(KEYS.meta(), "seq", seq + 1)

    id: bytes = watch.transaction(write, KEYS.meta())[0]
    return id.decode()


def test_an_entry_of_an_unknown_kind_is_kept_and_logged_once_and_following_continues(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    know(redis_client)
    path, client = tmp_path / "archive.db", Client.from_url(redis_url)
    daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path))
    daemon.wait_for("term_began")

    id = write_entry_of_the_future(redis_client)

    told = daemon.wait_for("log_entry_unknown")
    client.schedule("app.task", id="after", after=0)
    eventually(lambda: queued(redis_client))
    await_caught_up(redis_url, path)
    stop(daemon)
    again = start_daemon(redis_url, ARCHIVE_PATH=str(path))
    again.wait_for("term_began")
    [report] = await_caught_up(redis_url, path)
    stop(again)
    assert f"log entry {id} is of the unknown kind 'teleport'" == told["reason"]
    assert str(path) == told["archive"]
    assert 1 == len(daemon.of("log_entry_unknown"))
    assert [] == again.of("log_entry_unknown")
    assert 1 == report.about["unknown_entries"]
    [kept] = [entry for entry in history(path) if entry.kind == "teleport"]
    assert (id, [b"to", b"\xff\x00 anywhere"]) == (kept.position.id, kept.body)
    assert log_in(redis_url) == history(path)
    assert_state_is_redis_own(redis_url, path)
