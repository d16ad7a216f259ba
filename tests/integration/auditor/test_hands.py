"""Changes of a schedule by another writer are found, reported and repaired; by real daemons, too."""

import json
import random
import threading
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from tests.builders.daemons import leading_daemon
from tests.builders.leaders import HOUR_MS, know
from tests.builders.scenes import SOON, Scene, rows_put_back
from tests.integration.auditor.auditing import (
    AUDITED,
    FUNC,
    HANDS,
    Auditing,
    entries,
    fill,
    inspected,
    job_of,
    lane,
    schedules,
)
from tests.waiting import eventually
from zsched import Client
from zsched.cli import program
from zsched.core.log.kinds import changes
from zsched.core.model import iso
from zsched.core.occurrences.outcomes import What
from zsched.core.recovery.audit import GRACE_MS
from zsched.daemon import auditor as module
from zsched.daemon.auditor import Auditor
from zsched.errors import InvalidSchedule, RedisUnavailable, ScheduleNotFound, TriggerError
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.keys import Keys


@pytest.mark.parametrize("hand", AUDITED)
def test_a_schedule_that_another_writer_removed_is_reported_and_restored(
    scene: Scene, auditing: Auditing, hand: str
) -> None:
    id, event, does = HANDS[hand]
    fill(scene)
    assert [] == auditing.run()
    before = scene.in_redis()
    does(scene)

    [told] = auditing.run()

    assert (event, id, True) == (told["event"], told["schedule_id"], told["repaired"])
    assert schedules(before) == schedules(scene.in_redis())
    assert [(id, before[next(key for key in before if key[0] == id)][0])] == rows_put_back(scene)
    assert [What.RESTORED] == [change.what for change in changes(entries(scene)[0], scene.keys.run_suffix)]
    assert [] == auditing.run()
    assert auditing.audit is not None
    assert (0, 0) == (auditing.audit["alarms"], auditing.audit["repaired"])


@pytest.mark.parametrize("hand", HANDS)
def test_an_inspection_finds_every_change_by_another_writer(scene: Scene, hand: str) -> None:
    id, event, does = HANDS[hand]
    fill(scene)
    assert {} == inspected(scene)
    does(scene)

    found = inspected(scene)

    assert {id: event} == {id: alarm.event.value for id, alarm in found.items()}
    assert [] == rows_put_back(scene)


@pytest.mark.parametrize("hand", HANDS.keys() - AUDITED)
def test_an_audit_leaves_a_schedule_that_another_writer_changed(scene: Scene, auditing: Auditing, hand: str) -> None:
    fill(scene)
    auditing.run()
    HANDS[hand][2](scene)

    assert [] == auditing.run()
    assert [] == rows_put_back(scene)


def test_an_audit_restores_a_schedule_that_another_writer_moved_past_its_time(scene: Scene, auditing: Auditing) -> None:
    scene.client.schedule(FUNC, id="a", after=1)
    scene.redis.zincrby(lane(scene), HOUR_MS, "a")
    assert [] == auditing.run()
    scene.pass_time(GRACE_MS + 1001)

    [told] = auditing.run()

    assert ("schedule_different", "a", True) == (told["event"], told["schedule_id"], told["repaired"])
    assert [("a", "due")] == rows_put_back(scene)


def test_a_due_schedule_that_another_writer_removed_fires_late(scene: Scene, auditing: Auditing) -> None:
    scene.client.schedule(FUNC, id="a", after=1)
    run = scene.client.get("a").next_at
    assert run is not None
    scene.redis.zrem(lane(scene), "a")
    scene.pass_time(GRACE_MS + 1)
    scene.tick()
    assert set() == scene.queued()

    [told] = auditing.run()
    scene.tick()

    assert "schedule_missing" == told["event"]
    assert {scene.keys.run_id("a", round(run.timestamp() * 1000))} == scene.queued()
    assert [] == auditing.run()


def test_every_pass_checks_the_due_schedules(scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROUND", 1)
    for number in range(20):
        scene.client.schedule(FUNC, id=f"later{number}", at=SOON)
    scene.client.schedule(FUNC, id="now", after=1)
    auditing.run()
    scene.redis.zrem(lane(scene), "now")
    scene.pass_time(GRACE_MS + 1001)

    [told] = auditing.run()

    assert ("schedule_missing", "now") == (told["event"], told["schedule_id"])


def test_a_round_of_audits_looks_for_each_schedule_once(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROUND", 4)
    for number in range(10):
        scene.client.schedule(FUNC, id=f"s{number}", at=SOON)
    scene.redis.delete(lane(scene))

    said = [[each["schedule_id"] for each in auditing.run()] for _ in range(4)]

    assert [4, 4, 2, 0] == [len(each) for each in said]
    assert 10 == len({id for each in said for id in each})


def test_an_audit_does_not_restore_a_schedule_whose_run_is_in_rq(scene: Scene, auditing: Auditing) -> None:
    scene.client.schedule(FUNC, id="a", at=SOON)
    scene.client.schedule(FUNC, id="b", at=SOON)
    scene.redis.hset(job_of(scene, "a"), "status", "finished")
    scene.redis.hset(job_of(scene, "b"), "status", "canceled")
    scene.redis.zrem(lane(scene), "a")

    [told] = auditing.run()

    assert ("a", True) == (told["schedule_id"], told["repaired"])
    assert [("a", "gone")] == rows_put_back(scene)
    assert b"finished" == scene.redis.hget(job_of(scene, "a"), "status")
    assert [] == auditing.run()
    assert {"b"} == {id for id, _ in scene.in_archive()}


def test_an_audit_never_puts_a_schedule_into_quarantine(scene: Scene, auditing: Auditing) -> None:
    fill(scene)
    auditing.run()
    scene.redis.delete(scene.keys.quarantine())

    [told] = auditing.run()

    assert ("schedule_missing", "bad", False) == (told["event"], told["schedule_id"], told["repaired"])
    assert (0, [], []) == (scene.redis.exists(scene.keys.quarantine()), rows_put_back(scene), auditing.run())
    assert scene.redis.zscore(lane(scene), "bad") is None


def test_an_inspection_names_a_schedule_that_the_log_never_had(scene: Scene, auditing: Auditing) -> None:
    scene.client.schedule(FUNC, id="a", at=SOON)
    scene.redis.zadd(lane(scene), {"stranger": 5e12})

    [alarm] = inspected(scene).values()

    assert ("schedule_unknown", "stranger", "nothing", "in normal", None) == (
        alarm.event.value, alarm.id, alarm.expected, alarm.found, alarm.row
    )  # fmt: skip
    assert [] == auditing.run()


def test_an_audit_logs_the_first_alarms_singly(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_LOGGED", 2)
    for number in range(3):
        scene.client.schedule(FUNC, id=f"s{number}", at=SOON)
    scene.redis.delete(lane(scene))

    told = auditing.run()

    assert ["schedule_missing", "schedule_missing", "audit_found_more"] == [each["event"] for each in told]
    assert 1 == told[-1]["alarms"]


def test_a_daemon_restores_a_schedule_that_another_writer_removed(
    client: Client, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVERY_MS", 50.0)
    monkeypatch.setattr(module, "_AGAIN_MS", 50.0)
    keys = Keys("default")

    with leading_daemon(redis_url) as daemon:
        client.schedule(FUNC, id="a", at=SOON, durable=True)
        redis_client.zrem(keys.due_normal(), "a")

        eventually(lambda: redis_client.zscore(keys.due_normal(), "a") is not None)
        eventually(lambda: any(each["event"] == "schedule_missing" for each in daemon.events))
        story = client.why("a")
        eventually(lambda: (daemon.archivist.archiver.audit or {}).get("checked") == 1)

    assert "restored" in story.lines[-1][1]


def test_an_audit_with_busy_clients_raises_no_alarm(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVERY_MS", 1.0)
    monkeypatch.setattr(module, "_AGAIN_MS", 1.0)
    monkeypatch.setattr(module, "_ROUND", 10)
    know(redis_client)
    passes: list[Any] = []
    says = Auditor._say
    monkeypatch.setattr(Auditor, "_say", lambda *given: (passes.append(given[1]), says(*given)))

    with leading_daemon(redis_url) as daemon:
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
    assert "2d 1h ago, of 4,000 schedules: 3 alarms, 2 repaired" in text
    assert any(problem.startswith("the last audit: 2d 1h ago") for problem in shown["problems"])
