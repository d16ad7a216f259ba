"""
Two versions of zsched on one namespace, as while a fleet is restarted one by one.

The other version is this one with its scripts changed: their SHA1s differ, so each brings its own; and where the
format of what is kept differs, too, the older one stands back as soon as the newer one has led.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

import zsched
from tests.faults.ledger import assert_dense, connect, doubles, queued
from tests.faults.processes import DaemonProcess, eventually
from tests.faults.test_failover import schedule_stream
from zsched import Client, NewerFormat
from zsched.embedded import EmbeddedRedis

pytestmark = pytest.mark.redis

Start = Callable[..., DaemonProcess]


@pytest.fixture
def server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tcp=True) as server:
        yield server


@pytest.fixture
def watch(server: EmbeddedRedis) -> Iterator[redis.Redis]:
    with connect(server.url) as client:
        yield client


def another_version(folder: Path, format: int) -> Path:
    """A copy of zsched in *folder* whose scripts have other texts and keep *format*."""
    shutil.copytree(Path(zsched.__file__).parent, folder / "zsched")
    meta = folder / "zsched" / "lua" / "lib" / "meta.lua"
    text = meta.read_text()
    assert "local FORMAT = 1" in text
    meta.write_text(text.replace("local FORMAT = 1", f"-- another version\nlocal FORMAT = {format}"))
    return folder


def end(daemon: DaemonProcess) -> None:
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0


def test_leaders_of_two_versions_take_turns_and_fire_each_run_once(
    server: EmbeddedRedis, watch: redis.Redis, start_daemon: Start, tmp_path: Path
) -> None:
    other = another_version(tmp_path, 1)
    leader = start_daemon(server.url)
    leader.wait_for("hold_ended")
    runs = schedule_stream(server.url, watch, 2000)

    for share, code in ((4, other), (2, None)):  # forth, and back: an upgrade that is taken back
        follower = start_daemon(server.url, code=code)
        follower.wait_for("daemon_started")
        eventually(lambda share=share: watch.llen("rq:queue:default") >= len(runs) // share)
        end(leader)
        follower.wait_for("term_began")
        leader = follower

    eventually(lambda: watch.llen("rq:queue:default") >= len(runs))
    end(leader)
    assert [] == doubles(queued(watch))
    assert set(runs) == set(queued(watch))
    assert_dense(watch)


def test_once_a_newer_format_has_led_older_daemons_and_clients_stand_back(
    server: EmbeddedRedis, watch: redis.Redis, start_daemon: Start, tmp_path: Path
) -> None:
    old = start_daemon(server.url)
    old.wait_for("hold_ended")
    client = Client.from_url(server.url)
    client.schedule("app.tasks.t", id="kept", after=3600)
    new = start_daemon(server.url, code=another_version(tmp_path, 2))
    new.wait_for("daemon_started")

    end(old)
    new.wait_for("term_began")
    older = start_daemon(server.url)
    refusal = older.wait_for("redis_refused")

    assert "in format 2, and this one knows 1: upgrade zsched here" in refusal["reason"]
    with pytest.raises(NewerFormat):
        client.schedule("app.tasks.t", id="kept", after=60)
    assert watch.zcard("zsched:{default}:due:normal") == 1
    end(older)
    end(new)
