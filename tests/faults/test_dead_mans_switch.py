"""The dead-man's switch is silent as soon as nobody fires: a paused leader, an archive that is dead, a held clock."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.builders.daemons import DaemonProcess, Start
from tests.builders.leaders import know
from tests.builders.receivers import Receiver
from tests.clocks import now_ms
from tests.faults.archives import KEYS
from tests.faults.identities import BRIEF
from tests.waiting import eventually
from zsched.config.settings import LONGEST_LEASE_MS
from zsched.embedded import EmbeddedRedis

pytestmark = pytest.mark.once


@pytest.fixture
def start(
    start_daemon: Start, server: EmbeddedRedis, receiver: Receiver, tmp_path: Path
) -> Callable[[str], DaemonProcess]:
    """A function that starts a daemon whose switch pings the path of its name."""

    def started(name: str) -> DaemonProcess:
        config = tmp_path / f"{name}.toml"
        config.write_text(f'[notify.alive]\nkind = "ping"\nurl = "{receiver.url}/{name}"\nevery_s = 0.2\n')
        return start_daemon(server.url, CONFIG=str(config), **BRIEF)

    return started


def pings(receiver: Receiver, name: str) -> int:
    return len([one for one in receiver.taken if one.path == f"/{name}"])


def reports(watch: redis.Redis, *, leads: bool) -> list[int]:
    """Return the times of the archives' last reports whose daemon leads, or does not."""
    found = (text.decode().split(" ", 4) for text in watch.hvals(KEYS.archivers()))
    return [int(told_ms) for _, _, told_ms, _, about in found if json.loads(about)["leads"] is leads]


def later(watch: redis.Redis, *, leads: bool) -> None:
    """Wait for the next two reports."""
    for _ in range(2):
        before = max(reports(watch, leads=leads), default=0)
        eventually(lambda before=before: max(reports(watch, leads=leads), default=0) > before)  # type: ignore[misc]


def test_a_paused_leader_does_not_ping_although_its_archivist_lives(
    start: Callable[[str], DaemonProcess], receiver: Receiver, watch: redis.Redis
) -> None:
    know(watch)
    leader = start("one")
    eventually(lambda: pings(receiver, "one") > 2)

    leader.send(signal.SIGSTOP)
    try:
        later(watch, leads=False)
        seen = pings(receiver, "one")
        later(watch, leads=False)
        assert seen == pings(receiver, "one")
    finally:
        leader.send(signal.SIGCONT)
    eventually(lambda: pings(receiver, "one") > seen)


def test_a_standby_pings_only_after_it_has_taken_over(
    start: Callable[[str], DaemonProcess], receiver: Receiver, watch: redis.Redis
) -> None:
    know(watch)
    leader = start("one")
    eventually(lambda: pings(receiver, "one") > 2)
    standby = start("two")
    later(watch, leads=False)
    assert not pings(receiver, "two")

    leader.send_to_all(signal.SIGKILL)
    standby.wait_for("term_began")
    last = pings(receiver, "one")

    eventually(lambda: pings(receiver, "two") > 2)
    assert last == pings(receiver, "one")


def test_a_leader_does_not_ping_while_redis_holds_fire(
    start: Callable[[str], DaemonProcess], receiver: Receiver, watch: redis.Redis
) -> None:
    know(watch)
    start("one")
    eventually(lambda: pings(receiver, "one") > 2)

    watch.hset(KEYS.meta(), "hold", now_ms(watch) + LONGEST_LEASE_MS - 5_000)
    later(watch, leads=True)
    seen = pings(receiver, "one")
    later(watch, leads=True)
    assert seen == pings(receiver, "one")
    watch.hset(KEYS.meta(), "hold", 0)

    eventually(lambda: pings(receiver, "one") > seen)
