"""Whole daemons with ``[queues.<name>] max_per_second``: the rate of a limited queue, and its effect on other parts."""

import json
import random
import re
import signal
from collections import Counter
from collections.abc import Iterator
from hashlib import sha1
from itertools import pairwise
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner
from structlog.testing import capture_logs

from tests.builders.daemons import DaemonProcess
from tests.builders.leaders import know
from tests.builders.scenes import Scene, rows_put_back
from tests.clocks import now_ms
from tests.faults.leases import lapse
from tests.faults.overdue import become_due, put_due
from tests.integration.auditor.auditing import Auditing, Quiet, busy, faults
from tests.ledger import doubles, entries, fired, queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.cli import program
from zsched.core.clock import from_ms
from zsched.core.model import iso
from zsched.core.options.choices import Priority
from zsched.core.recovery.audit import GRACE_MS
from zsched.core.runs.job import rq_time
from zsched.embedded.guard import Guard
from zsched.storage.keys import Keys
from zsched.storage.overview import Overview
from zsched.storage.scripts import load

pytestmark = pytest.mark.once
FUNC, KEYS = "app.tasks.run", Keys("default")


class Configured:
    """Daemons with a configuration file."""

    def __init__(self, guard: Guard, url: str, folder: Path) -> None:
        self._guard, self._url, self._file = guard, url, folder / "zsched.toml"

    def start(self, **per_second: float) -> DaemonProcess:
        """Start a daemon with these limits; return when it runs."""
        tables = (f"[queues.{queue}]\nmax_per_second = {rate}\n" for queue, rate in per_second.items())
        self._file.write_text("".join(tables))
        daemon = DaemonProcess(self._guard, self._url, CONFIG=str(self._file))
        daemon.wait_for("daemon_started")
        return daemon


@pytest.fixture
def daemons(guard: Guard, redis_url: str, redis_client: redis.Redis, tmp_path: Path) -> Configured:
    know(redis_client)
    return Configured(guard, redis_url, tmp_path)


def schedule(client: Client, prefix: str, queue: str, count: int, due_ms: int, **options: object) -> None:
    rows = (
        {"func": FUNC, "id": f"{prefix}{n:04}", "at": from_ms(due_ms), "queue": queue, "allow_past": True, **options}
        for n in range(count)
    )
    assert count == client.schedule_many(rows).created


def pushes_ms(client: redis.Redis, prefix: str) -> list[float]:
    """Return the push times, by the log, of runs of schedules with that *prefix*."""
    return [t / 1000 for run, t in fired(client) if run.startswith(prefix)]


def most_within(span_ms: int, times_ms: list[float]) -> int:
    """Return the largest number within a period of that length."""
    times = [int(time_ms) for time_ms in times_ms]  # whole ms, as the script counts
    return max(sum(at <= other < at + span_ms for other in times) for at in times)


def test_a_limited_queue_fires_at_its_rate_and_delays_no_other_queue(
    client: Client, redis_client: redis.Redis, daemons: Configured
) -> None:
    due_ms = now_ms(redis_client) - 1
    schedule(client, "limited", "email", 2000, due_ms)
    schedule(client, "other", "default", 2000, due_ms)
    client.schedule(FUNC, id="urgent", after=3600, priority="high")
    daemon = daemons.start(email=100)

    eventually(lambda: redis_client.llen(f"{RQ}:queue:default") == 2000)
    [urgent] = become_due(redis_client, "urgent")
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default") == 2001)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") >= 200)
    daemon.stop()

    limited_ms, log = pushes_ms(redis_client, "limited"), entries(redis_client)
    for_others = ["other" in one.fields.get("runs", "") for one in entries(redis_client, "fire")]
    first, last = for_others.index(True), len(for_others) - for_others[::-1].index(True)
    assert all(for_others[first:last])  # while others are due, no look is for the limited queue alone
    became_due = max(n for n, one in enumerate(log) if one.kind == "put")
    first_look = next(one for one in log[became_due:] if one.kind == "fire")
    assert urgent in first_look.fields["runs"].split()
    assert 5 <= most_within(1000, limited_ms) <= 104
    assert (len(limited_ms) - 5) / ((limited_ms[-1] - limited_ms[0]) / 1000) <= 101
    assert [f"limited{n:04}-{due_ms}" for n in range(len(limited_ms))] == queued(redis_client, "email")


@pytest.fixture
def slow_log(redis_client: redis.Redis) -> Iterator[None]:
    """Let the server record every command."""
    before = redis_client.config_get("slowlog-*")
    redis_client.config_set("slowlog-log-slower-than", 0)
    redis_client.config_set("slowlog-max-len", 100_000)
    yield
    for name, value in before.items():
        redis_client.config_set(name, value)
    redis_client.slowlog_reset()


def looks(client: redis.Redis) -> int:
    """Return the number of fire calls of the daemon in the server's record."""
    fire = f"EVALSHA {sha1(load('fire', RQ).text.encode()).hexdigest()} ".encode()
    return sum(one["command"].startswith(fire) for one in client.slowlog_get(100_000))


@pytest.mark.usefixtures("slow_log")
def test_the_daemon_sleeps_between_two_runs_of_a_limited_queue(
    client: Client, redis_client: redis.Redis, daemons: Configured
) -> None:
    daemon = daemons.start(email=5)
    daemon.wait_for("term_began")
    schedule(client, "s", "email", 100, now_ms(redis_client))
    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") >= 1)
    had, began_ms = redis_client.llen(f"{RQ}:queue:email"), now_ms(redis_client)
    redis_client.slowlog_reset()

    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") >= 11)
    looked = looks(redis_client)
    runs, took_s = redis_client.llen(f"{RQ}:queue:email") - had, (now_ms(redis_client) - began_ms) / 1000
    daemon.stop()

    steps = [after - before for before, after in pairwise(pushes_ms(redis_client, "s"))]
    assert min(steps) >= 199  # times of the log are in µs, those of limits in whole ms
    assert 0 < looked <= 2 * (runs + took_s)  # one for each run, and one a second when RQ's jobs were looked for


def test_recurring_schedules_of_a_limited_queue_fire_one_after_another(
    client: Client, redis_client: redis.Redis, daemons: Configured
) -> None:
    rule = {"func": FUNC, "queue": "email"}
    start_ms, next_ms = put_due(client, redis_client, [f"r{n}" for n in range(10)], rule)
    daemon = daemons.start(email=10)

    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") == 10)
    daemon.stop()

    moves = [line.split() for one in entries(redis_client, "advance") for line in one.rows]
    times_ms = [one.t_us / 1000 for one in entries(redis_client, "advance")]
    assert {(f"r{n}", "fired", str(start_ms)) for n in range(10)} == {tuple(move[:3]) for move in moves}
    assert 10 == len(times_ms)
    assert all(at_ms >= start_ms + 100 * n for n, at_ms in enumerate(times_ms))  # each is answered by a fire no earlier
    assert all(client.get(f"r{n}").next_ms == next_ms for n in range(10))


def test_a_takeover_obeys_the_limit_and_pushes_no_run_twice(
    client: Client, redis_client: redis.Redis, daemons: Configured
) -> None:
    leader = daemons.start(email=50)
    leader.wait_for("term_began")
    daemons.start(email=50)
    schedule(client, "s", "email", 150, now_ms(redis_client))
    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") >= 30)

    leader.send(signal.SIGKILL)
    lapse(redis_client)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") == 150)

    runs = queued(redis_client, "email")
    assert [] == doubles(runs)
    assert sorted(runs) == runs
    assert most_within(1000, pushes_ms(redis_client, "s")) <= 52
    assert 2 <= len(Counter(one.fields["daemon"] for one in entries(redis_client, "term")))


def test_a_leader_sets_its_limits_again_in_its_next_term(redis_client: redis.Redis, daemons: Configured) -> None:
    daemon = daemons.start(email=5)
    eventually(lambda: redis_client.exists(KEYS.limits()))

    redis_client.delete(KEYS.limits())
    lapse(redis_client)

    assert [b"email"] == list(eventually(lambda: redis_client.hgetall(KEYS.limits())))
    daemon.stop()


def test_a_restart_changes_or_removes_a_limit(client: Client, redis_client: redis.Redis, daemons: Configured) -> None:
    schedule(client, "s", "email", 2000, now_ms(redis_client))
    slow = daemons.start(email=1)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") >= 1)
    slow.stop()

    begin = redis_client.llen(f"{RQ}:queue:email")
    faster = daemons.start(email=100)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") >= begin + 50)
    faster.stop()

    assert redis_client.llen(f"{RQ}:queue:email") < 2000
    unlimited = daemons.start()
    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") == 2000)
    eventually(lambda: not redis_client.exists("zsched:{default}:limits"))
    unlimited.stop()

    runs = queued(redis_client, "email")
    assert sorted(set(runs)) == runs
    assert not redis_client.hget("zsched:{default}:meta", "throttled")


def test_throttled_schedules_are_shown_and_are_not_a_problem(
    client: Client, redis_client: redis.Redis, redis_url: str, daemons: Configured
) -> None:
    due_ms = now_ms(redis_client) - 3_600_000
    schedule(client, "s", "email", 50, due_ms - 1)
    schedule(client, "h", "email", 3, due_ms, priority="high")
    for key in redis_client.keys(f"{RQ}:job:*"):
        redis_client.hset(key, "created_at", rq_time(due_ms - 5000))  # they were not put late
    daemon = daemons.start(email=0.001)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") == 1)
    eventually(lambda: client._overview().held_back)

    overview: Overview = client._overview()
    status, as_json, why = (
        CliRunner().invoke(program, words, env={"ZSCHED_REDIS_URL": redis_url}).stdout
        for words in (["status"], ["status", "--json"], ["why", "s0030"])
    )
    listed = [schedule.id for schedule in client.list()]

    assert [("email", 0.001, 52)] == [(one.queue, one.per_second, one.waiting) for one in overview.held_back]
    assert {Priority.HIGH: 2, Priority.NORMAL: 50, Priority.LOW: 0} == overview.waiting
    assert {0} == set(overview.overdue.values())
    assert overview.oldest_due_ms is None
    assert re.search(r"(?m)^held back +52, by \[queues\.email\] max_per_second = 0\.001$", status)
    limit = {"queue": "email", "zone": None, "max_per_second": 0.001, "blocked_by": None}
    held = limit | {"waiting": 52, "since": iso(due_ms - 1)}
    assert [held] == json.loads(as_json)["held_back"]
    limit = "[queues.email] max_per_second = 0.001"
    assert f"warning: {limit} holds back 52 schedules, the oldest for 1 h" in status.splitlines()
    assert why.startswith("HELD BACK: due ")
    assert f"ago; {limit}; 52 schedules waiting, the oldest for 1 h" in why.splitlines()[0]
    assert "  → raise the limit of all daemons, then: systemctl reload zsched; or schedule less" == why.splitlines()[1]
    assert 0 == json.loads(as_json)["late_s"]
    assert [*(f"s{n:04}" for n in range(50)), "h0001", "h0002"] == listed
    daemon.stop()


# -- the archive and the auditor ----------------------------------------------------------------------


@pytest.fixture
def scene(redis_client: redis.Redis, redis_url: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(redis_client, redis_url, tmp_path, "default")
    yield scene
    scene.close()


class Limited(Quiet):
    """A storm over a queue with a low limit, which sometimes changes."""

    def __init__(self, scene: Scene, seed: int) -> None:
        super().__init__(scene, seed)
        self.weather = random.Random(seed)
        self.limit(0.001)
        for n in range(4):
            scene.client.schedule(FUNC, id=f"pile-{n}", after=0.001)
        scene.pass_time(10)
        assert 1 == scene.tick().runs

    def limit(self, per_second: float | None) -> None:
        limits = {} if per_second is None else {"default": per_second}
        self.scene.dispatch.limit(self.scene.term, limits)

    def step(self) -> None:
        """Do a random operation, and sometimes change the limit before."""
        if self.weather.random() < 0.03:
            self.limit(self.weather.choice([0.001, 0.001, 0.01, None]))
        super().step()

    @property
    def throttled_count(self) -> int:
        """Return how many schedules are throttled."""
        return sum(held.waiting for held in self.client._overview().held_back)


def test_an_audit_alarms_on_late_schedules_and_not_on_throttled_ones(scene: Scene) -> None:
    auditing = Auditing(scene)
    scene.dispatch.limit(scene.term, {"email": 0.0001})
    for n in range(3):
        scene.client.schedule(FUNC, id=f"e{n}", after=1, queue="email")
    scene.client.schedule(FUNC, id="other", after=20)
    scene.pass_time(2_000)
    assert 1 == scene.tick().runs
    scene.pass_time(GRACE_MS + 20_000)
    assert [] == auditing.run()

    [told] = auditing.run()

    assert ("occurrence_overdue", "other", "waiting") == (told["event"], told["schedule_id"], told["found"])
    assert [] == rows_put_back(scene)


@pytest.mark.parametrize("seed", range(4))
def test_limits_cause_no_alarm_of_the_auditor(scene: Scene, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    auditing = Auditing(scene)
    storm, throttled = Limited(scene, seed), 0
    busy(storm, monkeypatch)

    with capture_logs() as told:
        for _ in range(40):
            for _ in range(4):
                storm.step()
            scene.follower.step()
            auditing.step()
            throttled += storm.throttled_count > 0

    assert [] == faults(told)
    assert [] == rows_put_back(scene)
    assert throttled > 0


@pytest.mark.parametrize("seed", [0, 1, 2, 4])  # with seed 3 nothing is ever throttled
def test_an_archive_has_throttled_schedules_after_following_or_bootstrap(scene: Scene, seed: int) -> None:
    storm, throttled = Limited(scene, seed), 0

    for n in range(12):
        for _ in range(15):
            storm.step()
        throttled += storm.throttled_count > 0
        if n % 3 == 2:
            scene.dispatch.trim(scene.term, scene.log()[-1].position.id, 10_000)
            scene.follow(f"archive-{n}.db")  # the log does not begin with its beginning: what Redis holds is read
        while not scene.follower.step():
            pass
        assert scene.in_redis() == scene.in_archive()

    assert throttled > 0
    due = [place for place, *_ in scene.in_redis().values() if place == "due"]
    assert len(due) == len([one for one in scene.client.list() if one.state.value == "active"])
