"""Runs that are retried or cancelled: their status, their queue, and their ends in the log."""

import redis

from tests.builders.entries import row_lines
from tests.builders.leaders import KEYS
from tests.waiting import eventually
from zsched.core.entry import Position
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.log import Log, LogPlace

TASKS = "tests.integration.reruns.tasks"

UNKNOWN = "nobody-1700000000000"


def status(redis_client: redis.Redis, run_id: str) -> str:
    return (redis_client.hget(KEYS.rq.job(run_id), "status") or b"").decode()


def ends(link: Link) -> dict[str, list[str]]:
    """Return the statuses of ``end`` entries in the log, by run."""
    told: dict[str, list[str]] = {}
    for entry in Log(link, KEYS).entries():
        if entry.kind == "end":
            for line in row_lines(entry.body):
                told.setdefault(line.split(" ")[0], []).append(line.split(" ")[1])
    return told


def archived(link: Link) -> Position:
    """Return the log's last position, as soon as an archive has it."""
    last = Log(link, KEYS).last()
    assert last is not None
    eventually(lambda: Archivers(link, KEYS).archived(LogPlace.of(last.position)) == "archived")
    return last.position
