"""A Redis that loses schedules of every state, the command that restores them, and comparisons."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import redis

from tests.builders.command_line import Zsched
from tests.builders.scenes import Scene
from zsched import Client
from zsched.cli.program import DONE

HOUR_S = 3600


class Recover(Zsched):
    """``zsched archive recover`` with the archive at *path* configured, or none."""

    def __init__(self, url: str, path: Path | None = None, **env: str) -> None:
        super().__init__(url, "archive", "recover", ZSCHED_ARCHIVE_PATH=str(path) if path else None, **env)

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert DONE == result.exit_code, result.stderr
        return json.loads(result.stdout)


def populate(scene: Scene) -> None:
    """Put a schedule into every place, and fire two runs that stay open; the archive has all of it."""
    client = scene.client
    client.schedule("app.remind", id="once", after=HOUR_S, args=("secret",), description="Remind Ann")
    client.schedule("app.digest", id="cron", cron="0 9 * * 1-5", tz="Asia/Seoul")
    client.schedule("app.report", id="paused", every=HOUR_S)
    client.pause("paused", "until Monday")
    client.schedule("app.bill", id="fired", after=0)
    client.schedule("app.sms", id="careful", after=0, on_uncertain="skip")
    scene.tick()
    assert 2 == len(scene.queued())
    client.schedule("app.late", id="late", after=0)
    assert scene.follower.step()


def lose_all(scene: Scene) -> None:
    """Populate the namespace, then empty Redis."""
    populate(scene)
    scene.redis.flushall()


def listed(client: Client) -> list[tuple[Any, ...]]:
    """Return the schedules in the order of their ids, without the fields that a recovery renews."""
    return [
        (one.id, one.state, one.next_ms, one.nominal_ms, one.func, one.trigger, one.tz, one.note, one.description)
        for one in sorted(client.list(), key=lambda one: one.id)
    ]


def dump(client: redis.Redis) -> dict[bytes, bytes | None]:
    """Return every key with all of its contents."""
    return {key: client.dump(key) for key in client.scan_iter()}


def copied(scene: Scene, path: Path) -> Path:
    """Copy the archive to a separate file."""
    with closing(sqlite3.connect(scene.archive.path)) as db:
        db.execute("VACUUM INTO ?", (str(path),))
    return path
