"""The auditor of a daemon, and its results in ``zsched status``."""

from __future__ import annotations

import json
import random
import threading
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from tests.faults.processes import eventually
from tests.faults.threads import DaemonThread, know
from tests.integration.archive.ground import SOON
from tests.integration.auditor.ground import FUNC
from zsched import Client
from zsched.cli import program
from zsched.core.model import iso
from zsched.daemon import auditor as module
from zsched.daemon.auditor import Auditor
from zsched.errors import InvalidSchedule, RedisUnavailable, ScheduleNotFound, TriggerError
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.keys import Keys


def test_a_daemon_restores_a_schedule_that_another_writer_removed(
    client: Client, link: Link, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVERY_MS", 50.0)
    monkeypatch.setattr(module, "_AGAIN_MS", 50.0)
    keys = Keys("default")

    with DaemonThread(redis_url) as daemon:
        eventually(Archivers(link, keys).alive)
        client.schedule(FUNC, id="a", at=SOON, durable=True)
        redis_client.zrem(keys.due_normal(), "a")

        eventually(lambda: redis_client.zscore(keys.due_normal(), "a") is not None)
        eventually(lambda: any(each["event"] == "schedule_missing" for each in daemon.events))
        story = client.why("a")
        audit = daemon.daemon._archivist.archiver.audit

    assert audit is not None
    assert audit["checked"] == 1
    assert "put back" in story.lines[-1][1]


def test_an_audit_with_busy_clients_raises_no_alarm(
    link: Link, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVERY_MS", 1.0)
    monkeypatch.setattr(module, "_AGAIN_MS", 1.0)
    monkeypatch.setattr(module, "_PAUSE_MS", 1.0)
    monkeypatch.setattr(module, "_PAGE", 5)
    know(redis_client)
    passes: list[Any] = []
    ends = Auditor._end
    monkeypatch.setattr(Auditor, "_end", lambda *given: (passes.append(given[1].checked), ends(*given)))

    with DaemonThread(redis_url) as daemon:
        eventually(Archivers(link, Keys("default")).alive)
        is_enough = threading.Event()
        clients = [threading.Thread(target=keep_busy, args=(redis_url, seed, is_enough)) for seed in range(3)]
        for client in clients:
            client.start()
        try:
            eventually(lambda: len(passes) > 20, 60)
        finally:
            is_enough.set()
            for client in clients:
                client.join(60)
        done = len(passes)
        eventually(lambda: len(passes) > done + 1)
        errors = [event for event in daemon.events if event["level"] == "error"]

    assert [] == errors
    assert sum(passes) > 100
    assert 0 == redis_client.exists("zsched:{default}:quarantine")


def resume_skipping(client: Client, id: str) -> None:
    """Resume; if a rule of 20 ms cannot be planned in time on a busy machine, apply the remedy."""
    try:
        client.resume(id, "skip")
    except RedisUnavailable:
        client.resume(id, "fire")


def keep_busy(url: str, seed: int, is_enough: threading.Event) -> None:
    """Make random calls as a client, until *is_enough*."""
    client, chance = Client.from_url(url), random.Random(seed)
    for number in count():
        if is_enough.is_set():
            return
        id = f"s{chance.randrange(30)}"
        verb = chance.choice(["at", "soon", "every", "cron", "pause", "resume", "skip", "cancel", "now", "many"])
        with suppress(ScheduleNotFound, InvalidSchedule, TriggerError):
            if verb == "at":
                client.schedule(FUNC, id=id, at=SOON, args=(number,))
            elif verb == "soon":
                client.schedule(FUNC, id=id, after=chance.choice([0, 0.01, 0.1]))
            elif verb == "every":
                client.schedule(FUNC, id=id, every=chance.choice([0.02, 0.2, 60]), args=(number % 2,))
            elif verb == "cron":
                client.schedule(FUNC, id=id, cron="* * * * *")
            elif verb == "pause":
                client.pause(id)
            elif verb == "resume":
                client.resume(id, "fire")
            elif verb == "skip":
                resume_skipping(client, id)
            elif verb == "cancel":
                client.cancel(id)
            elif verb == "now":
                client.run_now(id)
            else:
                client.schedule_many({"func": FUNC, "id": f"s{n}", "at": SOON} for n in chance.sample(range(30), 5))


def test_status_shows_the_last_audit(link: Link, redis_url: str, redis_client: redis.Redis) -> None:
    keys, cli = Keys("default"), CliRunner(env={"ZSCHED_REDIS_URL": redis_url})
    seconds, _ = redis_client.time()
    audit = {"at": seconds * 1000 - 178_200_000, "checked": 4000, "alarms": 3, "repaired": 2}
    older = {"at": 4_000, "checked": 1, "alarms": 0, "repaired": 0}
    for number, told in enumerate([older, audit, "odd", {"at": 9}]):
        Archivers(link, keys).report(str(number), None, ArchiveState.FOLLOWING, {"audit": told, "daemon": number})

    shown = json.loads(cli.invoke(program, ["status", "--json"]).stdout)
    text = cli.invoke(program, ["status"]).stdout

    assert audit | {"at": iso(audit["at"])} == shown["audit"]
    assert "2d 1h ago, of 4,000 schedules: 3 alarms, 2 put right" in text
    assert any(problem.startswith("the last audit: 2d 1h ago") for problem in shown["problems"])
