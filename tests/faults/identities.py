"""Daemons that find their archive by themselves, and the contents of their Redis."""

from pathlib import Path

import redis

from tests.builders.daemons import DaemonProcess, Start
from tests.builders.redises import connect
from tests.faults.archives import KEYS, await_caught_up, fact
from tests.ledger import queued
from tests.waiting import eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis

# So long does a leader ask archives for the name of a data set that has none.
BRIEF = {"DAEMON_LEASE_MS": "5000"}
PATIENT = {"DAEMON_LEASE_MS": "10000"}  # an archive answers in this time, also on a busy machine


def begin(start_daemon: Start, url: str, **settings: str) -> DaemonProcess:
    """
    Start a daemon that finds its archive by itself. Return when it fires and the archive knows the data set's name.
    """
    daemon = start_daemon(url, **{"ARCHIVE_PATH": "", **settings})
    path = path_of(daemon)
    eventually(lambda: fact(path, "gens"))
    await_caught_up(url, path)
    return daemon


def path_of(daemon: DaemonProcess) -> Path:
    return Path(daemon.wait_for("archive_opened")["archive"])


def fill(url: str, watch: redis.Redis) -> None:
    """Make a run in its queue, a one-shot and a recurring schedule, as after a user's first tries."""
    Client.from_url(url).schedule("app.mail", id="mail-ada", after=0)
    fill_held(url)
    eventually(lambda: queued(watch))


def ids(url: str) -> set[str]:
    return {schedule.id for schedule in Client.from_url(url).list()}


def gen(watch: redis.Redis) -> bytes:
    return watch.hget(KEYS.meta(), "gen") or b""


def fill_held(url: str) -> None:
    """Put schedules that need no leader to fire."""
    client = Client.from_url(url)
    client.schedule("app.mail", id="mail-bob", after=3600)
    client.schedule("app.mail", id="mail-cron", every=3600)


def copy(server: EmbeddedRedis, other: EmbeddedRedis) -> None:
    """Copy the data of *server* to *other*, like an RDB restored there long after: the lease has lapsed."""
    port = server.tcp_url.rsplit(":", 1)[1].split("/")[0]
    with connect(other.url) as client:
        client.replicaof("127.0.0.1", port)
        eventually(lambda: client.info("replication").get("master_link_status") == "up")
        client.replicaof("NO", "ONE")
        client.delete(KEYS.lease())
