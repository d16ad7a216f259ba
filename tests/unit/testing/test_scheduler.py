"""A product's schedules in its tests: time goes when the test says so, on fakeredis and on a real Redis alike."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import redis
from rq import Retry

from tests.unit.testing import tasks
from zsched import Client, ConfigError, InvalidFile, InvalidSchedule, RunStatus, ZschedError
from zsched.config import Settings
from zsched.core.clock import SystemClock
from zsched.core.model import ScheduleState
from zsched.daemon.daemon import Daemon
from zsched.errors import RedisRefused
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.lease import Lease
from zsched.storage.server import Server
from zsched.testing import Fired, ManualScheduler

NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
KEYS = Keys("default")


@pytest.fixture
def scheduler(ground: Any) -> Iterator[ManualScheduler]:
    with ManualScheduler(ground, start=NINE) as scheduler:
        yield scheduler


def nominal(runs: list[Fired]) -> list[datetime]:
    return [run.nominal_at for run in runs]


# -- time ---------------------------------------------------------------------------------------------


def test_an_hourly_schedule_advanced_by_three_hours_fires_three_times_each_at_its_own(
    scheduler: ManualScheduler,
) -> None:
    scheduler.client.schedule(tasks.note, args=(1,), kwargs={}, id="hourly", every=HOUR, queue="mail")

    runs = scheduler.advance(hours=3)

    assert [NINE + n * HOUR for n in (1, 2, 3)] == nominal(runs) == [run.at for run in runs]
    ten = datetime(2026, 1, 1, 10, tzinfo=UTC)
    first = Fired("hourly-1767261600000", "hourly", f"{tasks.__name__}.note", (1,), {}, "mail", ten, ten)
    assert first == runs[0]
    assert [run.id.encode() for run in runs] == scheduler.redis.lrange("rq:queue:mail", 0, -1)


def test_what_is_next_is_exactly_what_the_schedule_says(scheduler: ManualScheduler) -> None:
    client = scheduler.client

    assert NINE + MINUTE == client.schedule(tasks.note, after=60).next_at
    assert NINE + HOUR == client.schedule(tasks.note, cron="0 * * * *").next_at
    assert datetime(2026, 1, 2, tzinfo=UTC) == client.schedule(tasks.note, at=tasks.at_nine(2), tz="Asia/Seoul").next_at
    assert [NINE + MINUTE] == client.preview(every=60, n=1)
    assert NINE == scheduler.now


def test_time_stands_still_while_the_test_takes_its_time(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="soon", after=0.005)
    machine, until_ms = SystemClock(), SystemClock().monotonic_ms() + 10
    while machine.monotonic_ms() < until_ms:
        scheduler.client.overview()

    assert [] == scheduler.tick()
    assert int(NINE.timestamp()) * 1000 == scheduler.client.overview().now_ms
    assert NINE == scheduler.now
    assert ["soon"] == [run.schedule_id for run in scheduler.advance(seconds=0.005)]


def test_a_client_of_the_products_own_sees_the_same_time(scheduler: ManualScheduler) -> None:
    products = Client(scheduler.redis)

    assert NINE + HOUR == products.schedule(tasks.note, id="a", every=HOUR).next_at
    assert NINE + HOUR == products.schedule(tasks.note, after=HOUR).next_at
    assert 2 == len(scheduler.advance(HOUR))


def test_a_year_passes_at_once(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="monthly", cron="0 9 1 * *", tz="America/New_York")

    runs = scheduler.advance_to(datetime(2027, 1, 1, tzinfo=UTC))

    assert 12 == len(runs)
    assert datetime(2026, 7, 1, 13, tzinfo=UTC) == runs[6].nominal_at  # daylight saving time
    assert datetime(2027, 1, 1, tzinfo=UTC) == scheduler.now


def test_the_instant_that_is_advanced_to_is_included(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, at=NINE + HOUR)

    assert [] == scheduler.advance(minutes=59, seconds=59.999)
    assert 1 == len(scheduler.advance(seconds=0.001))


def test_what_is_due_fires_without_time_passing(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, at=NINE - HOUR, allow_past=True)

    [run] = scheduler.tick()

    assert (NINE - HOUR, NINE) == (run.nominal_at, run.at)
    assert [] == scheduler.tick()


@pytest.mark.parametrize("when", [NINE - MINUTE, datetime(2027, 1, 1)])
def test_time_does_not_go_back_nor_to_where_nobody_knows(scheduler: ManualScheduler, when: datetime) -> None:
    with pytest.raises(InvalidSchedule, match=r"^when="):
        scheduler.advance_to(when)

    assert NINE == scheduler.now


def test_a_start_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match=r"^start="):
        ManualScheduler(start=datetime(2026, 1, 1, 9))


def test_nothing_is_in_doubt_or_held_at_the_start(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", at=NINE, allow_past=True, on_uncertain="skip")

    assert ["a"] == [run.schedule_id for run in scheduler.tick()]


def test_entries_of_the_log_have_the_frozen_time(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", every=HOUR)
    scheduler.advance(hours=2)

    entries, _ = scheduler.client.log()

    times = [entry.position.t_us for entry in entries]
    assert times == sorted(times)
    nine_us = int(NINE.timestamp()) * 1_000_000
    assert [nine_us, nine_us + 3_600_000_000, nine_us + 7_200_000_000] == times[1:]


def test_broken_schedules_stop_nothing_else(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="broken", every=MINUTE)
    scheduler.client.schedule(tasks.note, id="well", every=HOUR)
    scheduler.redis.delete(KEYS.schedule("broken"))

    assert ["well"] == [run.schedule_id for run in scheduler.advance(HOUR)]
    assert ScheduleState.QUARANTINED is scheduler.client.get("broken").state


# -- a file ------------------------------------------------------------------------------------------

TASKS = """
from zsched import task
from tests.unit.testing import tasks

@task(queue="press", cron="30 2 * * *", tz="Europe/Berlin")
def edition(city: str, pages: int = 8) -> None:
    tasks.note((city, pages))
"""
FILE = """
[schedules.berlin]
func = "gazette.edition"
kwargs = { city = "Berlin" }
[schedules.noon]
func = "tests.unit.testing.tasks.note"
args = ["noon"]
cron = "0 12 * * *"
tz = "Europe/Berlin"
"""


@pytest.fixture
def gazette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A product's folder: a module of tasks, ``gazette``, and ``schedules.toml``."""
    (tmp_path / "gazette.py").write_text(TASKS)
    (tmp_path / "schedules.toml").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("gazette", None)


def test_the_schedules_of_a_file_fire_over_a_change_to_summer_time(ground: Any, gazette: Path) -> None:
    with ManualScheduler(ground, start=datetime(2026, 3, 28, tzinfo=UTC)) as scheduler:
        applied = scheduler.apply(gazette / "schedules.toml")
        runs = scheduler.advance(days=3, work=True)

    assert [("berlin", "created"), ("noon", "created")] == [(step.entry.id, step.outcome) for step in applied.steps]
    # 02:30 is 01:30Z; on the 29th there is none, and 03:00 is the first valid time; then it is 00:30Z
    assert [("berlin", 28, 1, 30), ("noon", 28, 11, 0), ("berlin", 29, 1, 0), ("noon", 29, 10, 0)] == [
        (run.schedule_id, run.nominal_at.day, run.nominal_at.hour, run.nominal_at.minute) for run in runs[:4]
    ]
    assert [("berlin", 30, 0, 30), ("noon", 30, 10, 0)] == [
        (run.schedule_id, run.nominal_at.day, run.nominal_at.hour, run.nominal_at.minute) for run in runs[4:]
    ]
    assert [("Berlin", 8), "noon"] * 3 == tasks.CALLS
    assert {"press", "default"} == {run.queue for run in runs}


def test_a_file_that_is_applied_again_changes_nothing_and_belongs_to_its_owner(
    scheduler: ManualScheduler, gazette: Path
) -> None:
    path = str(gazette / "schedules.toml")

    scheduler.apply(path)
    again = scheduler.apply(path)

    assert (0, 2) == (again.count("updated"), again.count("unchanged"))
    assert "file:schedules.toml" == scheduler.client.get("noon").managed_by
    with pytest.raises(InvalidFile, match=r"managed by 'file:schedules\.toml', not by 'others'"):
        scheduler.apply(path, owner="others")


def test_all_mistakes_of_a_file_are_raised_and_nothing_is_put(scheduler: ManualScheduler, gazette: Path) -> None:
    wrong = FILE.replace('"Berlin" }', "7 }").replace("tasks.note", "tasks.notte").replace("0 12", "0 25")
    (gazette / "schedules.toml").write_text(wrong)

    with pytest.raises(InvalidFile) as raised:
        scheduler.apply(gazette / "schedules.toml")

    path = f"{gazette}/schedules.toml"
    expected = [
        f"{path}:4: [schedules.berlin]: city=7: task gazette.edition wants str, not int",
        f"{path}:6: [schedules.noon]: func='tests.unit.testing.tasks.notte': there is no notte in ",
        f"{path}:8: [schedules.noon]: cron='0 25 * * *': ",
    ]
    found = raised.value.complaints
    assert expected == [complaint[: len(start)] for complaint, start in zip(found, expected, strict=True)]
    assert [] == list(scheduler.client.list())


def test_an_entry_that_redis_refuses_is_raised_and_the_others_are_put(
    scheduler: ManualScheduler, gazette: Path
) -> None:
    scheduler.redis.set(KEYS.template("berlin"), "a foreign hand's")

    with pytest.raises(ZschedError, match="berlin"):
        scheduler.apply(gazette / "schedules.toml")

    assert ["noon"] == [schedule.id for schedule in scheduler.client.list()]


# -- work ---------------------------------------------------------------------------------------------


def test_work_executes_what_was_fired(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.tell_when, id="hourly", every=HOUR)
    scheduler.advance(hours=2)

    runs = scheduler.work()

    assert [(NINE + HOUR, HOUR), (NINE + 2 * HOUR, timedelta(0))] == tasks.CALLS
    assert [RunStatus.SUCCEEDED] * 2 == [run.status for run in runs]
    assert [{"seen": 1}, {"seen": 2}] == [run.note for run in runs]
    assert [] == scheduler.work()


def test_runs_of_one_schedule_are_jobs_of_their_own(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="hourly", every=HOUR)
    scheduler.advance(HOUR)
    scheduler.work()

    scheduler.advance(HOUR)

    assert [RunStatus.QUEUED, RunStatus.SUCCEEDED] == [run.status for run in scheduler.client.runs("hourly")]


def test_a_tasks_exception_makes_a_failed_run(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.fail, after=1)
    scheduler.client.schedule(tasks.note, after=2)
    scheduler.advance(seconds=2)

    failed, succeeded = scheduler.work()

    assert (RunStatus.FAILED, "tests.unit.testing.tasks.Refused: not today") == (failed.status, failed.error)
    assert RunStatus.SUCCEEDED is succeeded.status
    assert [failed.id] == [run.id for run in scheduler.client.runs(status="failed")]


def test_a_tasks_exception_comes_to_the_test_that_asks_for_it(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.fail, id="bad", after=1)
    scheduler.client.schedule(tasks.note, after=HOUR)

    with pytest.raises(tasks.Refused, match="not today"):
        scheduler.advance(hours=2, work=True, raises=True)

    assert NINE + timedelta(seconds=1) == scheduler.now
    assert [RunStatus.FAILED] == [run.status for run in scheduler.client.runs("bad")]
    assert ["fail"] == tasks.CALLS


def test_ctrl_c_in_a_task_ends_the_test_and_not_the_task_alone(scheduler: ManualScheduler) -> None:
    scheduler.client.enqueue(tasks.interrupt)

    with pytest.raises(KeyboardInterrupt):
        scheduler.work()


def test_a_task_that_schedules_the_next_one_finds_it_fired_in_time(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.chain, args=(3,), at=NINE + HOUR)

    runs = scheduler.advance(hours=3, work=True)

    assert [NINE + n * HOUR for n in (1, 2, 3)] == tasks.CALLS == nominal(runs)
    assert [NINE + 4 * HOUR] == nominal(scheduler.advance(hours=1))


def test_what_failed_is_tried_again_when_its_interval_has_passed_by_the_tests_clock(
    scheduler: ManualScheduler,
) -> None:
    scheduler.client.schedule(tasks.fail_at_first, id="a", after=60, retry=Retry(max=1, interval=600))

    scheduler.advance(minutes=10, work=True)
    assert ["try"] == tasks.CALLS
    scheduler.advance(minutes=1, work=True)

    assert ["try", "try"] == tasks.CALLS
    [run] = scheduler.client.runs("a")
    assert (RunStatus.SUCCEEDED, 2) == (run.status, run.attempt)
    assert (NINE + 11 * MINUTE).timestamp() * 1000 == run.ended_ms


def test_rqs_own_delay_in_a_task_is_by_the_tests_clock(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.enqueue_in_a_minute, after=60)

    scheduler.advance(seconds=119, work=True)
    assert [] == tasks.CALLS
    scheduler.advance(seconds=1, work=True)

    assert ["later"] == tasks.CALLS


def test_a_schedule_whose_runs_keep_failing_is_paused(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.fail, id="a", every=HOUR, pause_after_failures=3)

    assert 3 == len(scheduler.advance(hours=5, work=True))
    assert ScheduleState.PAUSED is scheduler.client.get("a").state


def test_only_the_queues_that_are_named_are_worked_in_their_order(scheduler: ManualScheduler) -> None:
    for queue in ("slow", "fast", "other"):
        scheduler.client.enqueue(tasks.note, (queue,), queue=queue)

    scheduler.work("fast", "slow")

    assert ["fast", "slow"] == tasks.CALLS
    assert 1 == scheduler.redis.llen("rq:queue:other")


def test_json_payloads_are_worked_too(ground: Any) -> None:
    with ManualScheduler(ground, serializer="json") as scheduler:
        scheduler.client.schedule(tasks.note, args=["x"], after=1)

        [run] = scheduler.advance(seconds=1, work=True)

    assert ["x"] == tasks.CALLS == list(run.args)


def test_retries_without_an_interval_happen_at_once(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.fail, id="a", after=1, retry=Retry(max=5))

    scheduler.advance(seconds=1)
    runs = scheduler.work()

    assert [*[RunStatus.QUEUED] * 5, RunStatus.FAILED] == [run.status for run in runs]
    assert 6 == len(tasks.CALLS) == scheduler.client.runs("a")[0].attempt


def test_work_leaves_no_thread_no_signal_handler_and_rqs_clock_as_it_was(scheduler: ManualScheduler) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)], threading.enumerate()
    signal.alarm(300)  # of a test runner
    scheduler.client.enqueue(tasks.note)

    scheduler.work()

    left_s = signal.alarm(0)
    assert left_s > 200
    assert before == (
        [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)],
        threading.enumerate(),
    )
    assert abs(sys.modules["rq.utils"].now() - datetime.now(UTC)) < MINUTE
    assert sys.modules["rq.job"].now is sys.modules["rq.utils"].now


def test_work_works_in_another_thread(scheduler: ManualScheduler) -> None:
    scheduler.client.enqueue(tasks.note, ("there",))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(scheduler.work).result()

    assert ["there"] == tasks.CALLS


# -- deadlines ----------------------------------------------------------------------------------------


def test_a_run_that_waits_beyond_its_deadline_is_not_executed(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", after=60, expires_after=600)
    [run] = scheduler.advance(MINUTE)

    scheduler.advance(minutes=10)

    assert 0 == scheduler.redis.exists(KEYS.job(run.id))
    assert [] == scheduler.work()
    assert [] == tasks.CALLS
    assert [RunStatus.EXPIRED] == [one.status for one in scheduler.client.runs("a")]


def test_a_run_is_executed_until_its_deadline(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", after=60, expires_after=600)
    scheduler.advance(MINUTE)

    scheduler.advance(minutes=9, seconds=59)

    assert [RunStatus.SUCCEEDED] == [run.status for run in scheduler.work()]
    scheduler.advance(HOUR)
    assert [RunStatus.SUCCEEDED] == [run.status for run in scheduler.client.runs("a")]


def test_real_time_expires_no_run(scheduler: ManualScheduler) -> None:
    enqueued = scheduler.client.enqueue(tasks.note, expires_after=1)
    scheduler.tick()

    assert scheduler.redis.pttl(KEYS.job(enqueued.run_id or "")) > 86_400_000


def test_a_retry_of_a_run_that_began_in_time_has_no_deadline(scheduler: ManualScheduler) -> None:
    retry = Retry(max=1, interval=30)
    scheduler.client.schedule(tasks.fail_at_first, id="a", after=60, expires_after=60, retry=retry)
    scheduler.advance(MINUTE, work=True)

    scheduler.advance(MINUTE)  # queued again half a minute before its deadline, and nobody executes it

    assert [RunStatus.SUCCEEDED] == [run.status for run in scheduler.work()]
    assert ["try", "try"] == tasks.CALLS


# -- the ground ---------------------------------------------------------------------------------------


def test_each_scheduler_has_a_fakeredis_of_its_own() -> None:
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
    [(_schedule, "zsched:{default}:log"), (_lead, "zsched:{default}:lease"), (_queue, "rq:queue:default")],
)
def test_a_redis_that_is_in_use_is_refused_and_left_as_it_is(redis_client: redis.Redis, use: Any, shown: str) -> None:
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


def test_a_fakeredis_that_does_not_copy_is_refused() -> None:
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer())

    with pytest.raises(ConfigError, match=r"COPY.*use the scheduler's redis"):
        ManualScheduler(client)

    assert [] == client.keys()


def test_a_client_that_decodes_its_replies_is_fine(redis_client: redis.Redis) -> None:
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
    assert 10 == decoding.connection_pool.connection_kwargs["socket_timeout"]  # RQ lengthens its own pool's


def test_a_missing_fakeredis_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.testing.ground.find_spec", lambda name: None if name == "lupa" else object())

    with pytest.raises(ConfigError, match=r"lupa not installed; pip install 'zsched\[testing\]'"):
        ManualScheduler()


def _term(client: redis.Redis, daemon: str) -> Any:
    link = Link.adopt(client)
    wire = link.open()
    try:
        return Lease(wire, KEYS, Server.of(wire), SystemClock(), daemon, 2000).acquire()
    finally:
        wire.close()
        link.pool.disconnect()


def test_a_daemon_does_not_lead_where_a_test_turns_the_clock(redis_client: redis.Redis) -> None:
    with ManualScheduler(redis_client, start=NINE) as scheduler:
        with pytest.raises(RedisRefused, match="a daemon does not lead there"):
            _term(redis_client, "daemon-1")
        scheduler.client.schedule(tasks.note, after=1)

    with pytest.raises(RedisRefused, match="a daemon does not lead there"):  # nor afterwards
        _term(redis_client, "daemon-1")
    assert 0 == redis_client.exists("rq:queue:default")


def test_a_running_daemon_says_why_it_does_not_lead(
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
            assert refused.wait(20)
        finally:
            daemon.stop()
            thread.join(20)
        scheduler.client.schedule(tasks.note, after=1)
        assert 1 == len(scheduler.advance(seconds=1))

    assert "redis_refused" in said[0]
    assert "clock" in said[0]


def test_import_zsched_imports_no_testing() -> None:
    code = "import sys, zsched; sys.exit(any(name.startswith(('zsched.testing', 'fakeredis')) for name in sys.modules))"

    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode


def test_the_message_of_an_endless_instant_names_the_time(
    scheduler: ManualScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zsched.testing.scheduler._MOST_PASSES", 2)
    monkeypatch.setattr(scheduler, "work", lambda raises: ["a run"])

    with pytest.raises(ZschedError, match=r"^2026-01-01T09:00:00\+00:00: 2 times .* does a task schedule itself"):
        scheduler.advance(seconds=1, work=True)
