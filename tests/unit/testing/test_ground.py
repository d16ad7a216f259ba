"""The Redis of a scheduler in tests: accepted and refused ones, and the client on fakeredis."""

import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import fakeredis
import pytest
import redis
import redis.asyncio

from tests.prefix import RQ
from tests.unit.testing import tasks
from tests.unit.testing.tasks import HOUR, KEYS, NINE
from tests.waiting import WITHIN_S
from zsched import Client, ConfigError, ScheduleNotFound
from zsched.config.settings import Settings
from zsched.core.clock import SystemClock
from zsched.core.options.choices import ScheduleState
from zsched.daemon.daemon import Daemon
from zsched.errors import RedisRefused
from zsched.storage.connection import Link
from zsched.storage.lease import Lease
from zsched.storage.server import Server
from zsched.testing import ManualScheduler


def test_every_scheduler_has_a_separate_fakeredis() -> None:
    with ManualScheduler() as one, ManualScheduler() as other:
        one.client.schedule(tasks.note, every=HOUR)

        assert [] == list(other.client.list())
        assert datetime(2026, 1, 1, tzinfo=UTC) == other.now


def _schedule(client: redis.Redis) -> None:
    Client(client).schedule(tasks.note, id="real", every=HOUR)


def _lead(client: redis.Redis) -> None:
    _term(client, "daemon-1")


def _queue(client: redis.Redis) -> None:
    Client(client, "other").enqueue(tasks.note)


@pytest.mark.parametrize(
    ("use", "shown"),
    [(_schedule, "zsched:{default}:log"), (_lead, "zsched:{default}:lease"), (_queue, f"{RQ}:queue:default")],
)
def test_a_redis_in_use_is_refused_and_left_unchanged(redis_client: redis.Redis, use: Any, shown: str) -> None:
    use(redis_client)
    before = {key: redis_client.dump(key) for key in redis_client.scan_iter()}

    with pytest.raises(ConfigError, match=r"in use.*give each test an empty database") as caught:
        ManualScheduler(redis_client)

    assert shown in str(caught.value)
    assert before == {key: redis_client.dump(key) for key in redis_client.scan_iter()}


def test_a_redis_of_an_earlier_test_is_refused(redis_client: redis.Redis) -> None:
    with ManualScheduler(redis_client):
        pass

    with pytest.raises(ConfigError, match="in use"):
        ManualScheduler(redis_client)


def test_a_client_that_decodes_its_replies_is_accepted(redis_client: redis.Redis) -> None:
    options = redis_client.connection_pool.connection_kwargs
    decoding = redis.Redis(
        connection_pool=redis.ConnectionPool(
            connection_class=redis_client.connection_pool.connection_class, **(options | {"decode_responses": True})
        )
    )

    with decoding, ManualScheduler(decoding) as scheduler:
        scheduler.client.schedule(tasks.note, after=1)
        assert 1 == len(scheduler.advance(seconds=1, work=True))

    assert [None] == tasks.CALLS
    assert WITHIN_S == decoding.connection_pool.connection_kwargs["socket_timeout"]  # RQ lengthens its own pool's


def test_a_missing_fakeredis_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.testing.ground.find_spec", lambda name: None if name == "lupa" else object())

    with pytest.raises(ConfigError, match=r"lupa not installed; pip install 'zsched\[testing\]'"):
        ManualScheduler()


def _term(client: redis.Redis, daemon: str) -> Any:
    link = Link.adopt(client)
    wire = link.open()
    try:
        return Lease(wire, KEYS, Server.of(wire), SystemClock(), daemon, 20_000).acquire()
    finally:
        wire.close()
        link.pool.disconnect()


def test_a_daemon_does_not_lead_where_a_test_moves_the_clock(redis_client: redis.Redis) -> None:
    with ManualScheduler(redis_client, start=NINE) as scheduler:
        with pytest.raises(RedisRefused, match="a daemon does not lead there"):
            _term(redis_client, "daemon-1")
        scheduler.client.schedule(tasks.note, after=1)

    with pytest.raises(RedisRefused, match="a daemon does not lead there"):  # nor afterwards
        _term(redis_client, "daemon-1")
    assert 0 == redis_client.exists(f"{RQ}:queue:default")


def test_a_running_daemon_logs_why_it_does_not_lead(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    refused = threading.Event()

    def say(daemon: Daemon, event: str, reason: str) -> None:
        said.append(f"{event}: {reason}")
        refused.set()

    monkeypatch.setattr(Daemon, "_say_once", say)
    with ManualScheduler(redis_client, start=NINE) as scheduler:
        daemon = Daemon(Settings(), Link.from_url(redis_url, 5.0))
        thread = threading.Thread(target=daemon.run)
        thread.start()
        try:
            assert refused.wait(WITHIN_S)
        finally:
            daemon.stop()
            thread.join(WITHIN_S)
        scheduler.client.schedule(tasks.note, after=1)
        assert 1 == len(scheduler.advance(seconds=1))

    assert "redis_refused" in said[0]
    assert "clock" in said[0]


def test_import_zsched_imports_no_testing() -> None:
    code = "import sys, zsched; sys.exit(any(name.startswith(('zsched.testing', 'fakeredis')) for name in sys.modules))"

    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode


SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)

KINDS: dict[str, dict[str, Any]] = {
    "at": {"at": SOON},
    "after": {"after": 60},
    "every": {"every": 60},
    "cron": {"cron": "0 9 * * *", "tz": "Asia/Seoul"},
    "rrule": {"rrule": "FREQ=DAILY;BYHOUR=9"},
}


@pytest.fixture
def client() -> Client:
    return Client(fakeredis.FakeRedis())


OPERATIONS: dict[str, Callable[[Client], Any]] = {
    "update": lambda c: c.update("a", args=(2,)).outcome == "updated",
    "pause": lambda c: c.pause("a", "why").state is ScheduleState.PAUSED,
    "resume": lambda c: c.pause("a") and c.resume("a").state is ScheduleState.ACTIVE,  # type: ignore[union-attr]
    "skip": lambda c: c.pause("a") and c.resume("a", "skip").state is ScheduleState.ACTIVE,  # type: ignore[union-attr]
    "run_now": lambda c: c.run_now("a").startswith("a-"),
    "cancel": lambda c: c.cancel("a") == "cancelled" and c.cancel("a") == "not_found",
    "enqueue": lambda c: c.enqueue("app.task", (1,)).outcome == "created",
    "list": lambda c: [schedule.id for schedule in c.list()] == ["a"],
    "preview": lambda c: len(c.preview("a", n=1)) == 1,
    "overview": lambda c: sum(c._overview().waiting.values()) == 1,
    "again": lambda c: c.schedule("app.task", id="a", after=5).outcome == "updated",
    "keep": lambda c: c.schedule("app.task", id="a", after=5, if_exists="keep").outcome == "kept",
    "many": lambda c: c.schedule_many({"func": "app.task", "after": 5} for _ in range(3)).created == 3,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_of_the_client_works_on_fakeredis(client: Client, kind: str, operation: str) -> None:
    assert "created" == client.schedule("app.task", args=(1,), id="a", **KINDS[kind]).outcome
    assert ("once" if kind in ("at", "after") else kind) == client.get("a").kind

    assert OPERATIONS[operation](client)


def test_a_rule_is_backfilled_on_fakeredis(client: Client) -> None:
    client.schedule("app.task", id="a", cron="0 * * * *")
    this_hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)  # not before it is the schedule's next

    done = client.backfill("a", this_hour - timedelta(days=1), this_hour)

    assert 24 == len(done.run_ids)


def test_an_unknown_schedule_is_not_found_on_fakeredis_either(client: Client) -> None:
    with pytest.raises(ScheduleNotFound):
        client.get("a")


@pytest.mark.parametrize("given", ["redis://:secret@localhost", None, redis.asyncio.Redis()])
def test_an_object_of_another_class_than_a_redis_client_is_refused_without_its_secrets(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^redis=.*not a redis\.Redis; give one, or use Client\.from_url") as caught:
        Client(given)
    assert "secret" not in str(caught.value)


def test_a_decoding_fakeredis_is_accepted_by_the_client() -> None:
    client = Client(fakeredis.FakeRedis(decode_responses=True))

    client.schedule("app.task", id="a", every=5)

    assert ["a"] == [schedule.id for schedule in client.list()]
