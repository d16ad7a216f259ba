"""Helpers of the tests of ``zsched status``: a namespace with a leader, reports of archivers, the output."""

import json
from typing import Any

import redis
from click.testing import Result

from tests import clocks
from tests.builders.command_line import Zsched
from zsched.storage.keys import Keys

KEYS = Keys("default")
LAST_T = 1_767_225_600_000_000  # of the log's last entry, 3-12
NOBODY_FOLLOWS = "no archive follows the log"


def lead(client: redis.Redis) -> redis.Redis:
    """Make a namespace with a leader, by a clock that stands still; its log ends with 3-12."""
    client.set(KEYS.lease(), "somebody:3:2000:x", px=600_000)
    client.hset(KEYS.meta(), mapping={"epoch": 3, "seq": 12, "frozen_ms": now_ms(client)})
    for seq in range(1, 13):
        entry = {"kind": "cancel", "t": LAST_T - 12 + seq, "rows": 1, "a": 5}
        client.xadd(KEYS.log(), entry, id=f"3-{seq}")
    return client


def report(
    client: redis.Redis, archive: str = "archive-1", at: str = f"3-12 {LAST_T}", *,
    state: str = "following", ago_ms: int = 0, **about: Any,
) -> int:  # fmt: skip
    """Write an archiver's report, *ago_ms* ago; return its time."""
    told_ms = now_ms(client) - ago_ms
    told = {"host": "box", "path": f"/var/{archive}.db", "complete_since": "start"} | about
    client.hset(KEYS.archivers(), archive, f"{at} {told_ms} {state} {json.dumps(told)}")
    return told_ms


def status(zsched: Zsched) -> dict[str, Any]:
    return dict(json.loads(zsched("status", "--json").stdout))


def problems(zsched: Zsched) -> list[str]:
    return list(status(zsched)["problems"])


def names(found: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of alarms and of warnings."""
    return [one["name"] for one in found["alarms"]], [one["name"] for one in found["warnings"]]


def verdict(result: Result) -> list[str]:
    """Return the lines above the first empty line."""
    return result.stdout.split("\n\n")[0].splitlines()


def now_ms(client: redis.Redis) -> int:
    """Return the time of the namespace."""
    return int(client.hget(KEYS.meta(), "frozen_ms") or clocks.now_ms(client))


def section(result: Result, heading: str) -> list[str]:
    """Return the lines of the section below *heading*."""
    [found] = [part for part in result.stdout.split("\n\n") if part.startswith(heading)]
    return found.splitlines()[1:]
