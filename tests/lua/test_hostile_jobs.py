"""Hostile texts in jobs, by a writer with rights on RQ's keys only: they add nothing to an entry of the log."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from importlib import resources

import pytest

from tests.breadth import each
from tests.builders.namespaces import FIELDS, HOUR_MS, TERM, Namespace
from tests.lua import chained
from tests.prefix import RQ
from zsched import Client
from zsched.core.clock import ManualClock
from zsched.core.entry import Entry, Position
from zsched.core.log.kinds import changes, parse, touches
from zsched.core.runs.job import JOB_FIELDS, JobFacts, rq_time
from zsched.core.runs.run import of_job, pushed
from zsched.daemon.lost import lost_row
from zsched.daemon.upkeep import SlotKeeper
from zsched.embedded import EmbeddedRedis
from zsched.errors import ZschedError
from zsched.storage.dispatch import Dispatch, NativeJobs
from zsched.storage.jobs import Jobs
from zsched.storage.log import Log
from zsched.storage.records import Scanner
from zsched.storage.scripts import load

HOSTILE: dict[str, bytes] = {
    "a row of its own": b"q\ndaily normal 1900000000000 pwned",
    "a word of its own": b"x daily-1900000000000=canceled daily",
    "a run of its own": b"x\ndaily-1900000000000 failed {}",
    "a field of its own": b"x\0daily\0daily-1900000000000",
    "no text": b"\xff\xfe\n!",
    "spaces of Unicode": "x\u2028daily\u2003daily-1900000000000\x85daily".encode(),
    "nothing": b"",
    "signs": b"=",
    "a number too large": b"1" + b"0" * 300,
    "no number": b"nan",
    "less than nothing": b"-5",
    "huge": b"A" * 1_000_000,
}
NAMES = sorted(
    path.name.removesuffix(".lua") for path in (resources.files("zsched") / "lua").iterdir() if path.is_file()
)
MOST = 12_000  # bytes of an entry of a handful of runs, whatever their jobs say
LIMIT = {"rate_limit_key": "mail", "rate_limit_concurrency": "1000"}
PASSED = rq_time(1_700_000_000_000)
READ = re.compile(
    r"(?:call\('(?:HM?GET|HGETALL)',\s*|read_hash\()(?:'rq:job:'[^,)]*|(?:rq_)?job_key|run_key\([^)]*\)|run|source)\s*([,)][^)]*)"
)
# What reads a job to compare its status with `scheduled`, and nothing else.
COMPARE = {
    "cancel",
    "end_pauses",
    "enqueue",
    "restore_runs",
    "note",
    "pause",
    "put_recurring",
    "resume",
    "restore",
    "skip",
}


def fields_read() -> list[str]:
    """Return every field of a job that a script reads by name, or look.lua for a ``JobFacts``."""
    by_name = {name for script in NAMES for found in READ.findall(load(script).text) for name in _quoted(found)}
    return sorted(by_name | {*JOB_FIELDS.values(), "zs_attempts"})


def _quoted(arguments: str) -> list[str]:
    return re.findall(r"'([a-z_]+)'", arguments)


class Scene:
    """A Redis with a leader and a victim per field; the schedule ``daily`` is unrelated."""

    def __init__(self, led: Namespace, url: str, text: bytes) -> None:
        self.led, self.text = led, text
        self.wire = led.link.open()
        self.client = Client.from_url(url)
        led.put_recurring("daily", next=led.now_ms + 24 * HOUR_MS)

    def victims(self, status: str, **more: str) -> Iterator[str]:
        """Yield a run per field, with a job in which that field is hostile."""
        at_ms = 1_800_000_000_000
        for number, field in enumerate(fields_read()):
            run = f"bait{number}-{at_ms}"
            job = {"status": status, "origin": "default", "enqueued_at": PASSED, "data": "call", **more}
            self.led.redis.hset(self.led.keys.rq.job(run), mapping={**job, field: self.text})
            yield run

    def spoil(self, runs: list[str]) -> None:
        """Make another field hostile in each of *runs*."""
        for run, field in zip(runs, fields_read(), strict=True):
            self.led.redis.hset(self.led.keys.rq.job(run), field, self.text)

    def one_shots(self, due_ms: int) -> list[str]:
        """Put a waiting one-shot for each field."""
        ids = [f"bait{number}" for number, _ in enumerate(fields_read())]
        fields = FIELDS | LIMIT | {"zs": "1el", "zs_expires": "100000"}
        self.led.put(*((id, due_ms) for id in ids), allow_past=1, fields=fields)
        return [self.led.run(id, due_ms) for id in ids]

    @property
    def seen(self) -> Position:
        last = Log(self.wire, self.led.keys).last()
        assert last is not None
        return last.position


def fire(scene: Scene) -> None:
    led, due_ms = scene.led, scene.led.now_ms - 1000
    scene.spoil(scene.one_shots(due_ms))
    if scene.text and len(scene.text) < 1000:  # its origin is a queue that takes nothing
        led.redis.set(f"{RQ}:queue:".encode() + scene.text, "x")
        led.redis.set(f"{RQ}:rl:".encode() + scene.text, "x")
    led.fire()


def advance(scene: Scene) -> None:
    led = scene.led
    for mode in ("skip", "queue", "cancel_previous"):
        for number, field in enumerate(fields_read()):
            id = f"bait-{mode}-{number}"
            led.put_recurring(id, next=led.now_ms - 60_000, template={"status": "queued"})
            for _ in range(2):
                [row] = [row for row in led.fire().recurring if row[0] == id]
                led.advance((row, int(row[2]), int(row[2]) + 1), overlap=mode)
                led.redis.hset(led.keys.rq.job(led.run(id, row[2])), field, scene.text)


def look_and_track(scene: Scene) -> None:
    for status in ("finished", "failed", "started"):
        runs = list(scene.victims(status, ended_at=PASSED, worker_name="w", zs_note='{"a": 1}'))
        jobs = jobs_of(scene, runs)
        told = [of_job(run, job, 1_700_000_000_000_000) for run, job in zip(runs, jobs, strict=True)]
        over = [(run, job.seen) for run, job in zip(told, jobs, strict=True) if job is not None and run.is_over]
        tracked = Dispatch(scene.wire, scene.led.keys).track(TERM, scene.seen, over)
        assert tracked is not None
        assert len(over) - 1 <= len(tracked.ended)  # but for one that says that zsched told of it


def jobs_of(scene: Scene, runs: list[str]) -> list[JobFacts | None]:
    return Jobs(scene.wire, scene.led.keys).read(runs)


def lost(scene: Scene) -> None:
    for status in ("started", "queued"):
        for on_lost in ("retry", "fail"):
            more = {"retries_left": "1", "zs_on_lost": on_lost, "last_heartbeat": PASSED, "worker_name": "w"}
            runs = list(scene.victims(status, **more))
            dead = []
            for run, job in zip(runs, jobs_of(scene, runs), strict=True):
                if job is not None:
                    dead.append(lost_row(pushed(run, 1), job, (), scene.led.now_ms))
            Dispatch(scene.wire, scene.led.keys).lose(TERM, scene.seen, dead, scene.led.now_ms)


def chains(scene: Scene) -> None:
    led = scene.led
    for mode, status in (("queue", "stopped"), ("queue", "started"), ("cancel_previous", "queued")):
        for number, run in enumerate(scene.victims(status, worker_name="w")):
            id = run.rpartition("-")[0]
            after = f"{id}-1800000060000"
            waits = {"status": "deferred", "origin": "default", "zs": "1q"}
            led.redis.hset(led.keys.rq.job(after), mapping=waits | {fields_read()[number]: scene.text})
            led.redis.rpush(led.keys.waiting(id), after)
            led.redis.hset(led.keys.chains(), id, f"{mode} {run} {id}-1800000030000")
            led.redis.rpush(f"{RQ}:queue:default", run)
        for _ in range(6):
            chained.unblock(led)


def slots(scene: Scene) -> None:
    led = scene.led
    led.redis.sadd(f"{RQ}:rl-keys", "mail", scene.text)
    led.redis.hset(f"{RQ}:rl:mail", "concurrency", 1000)
    for status, of in (("finished", "allowed"), ("rate_limited", "rate_limited")):
        for run in scene.victims(status, **LIMIT):
            led.redis.zadd(f"{RQ}:rl:mail:{of}", {run: 1})
        led.redis.zadd(f"{RQ}:rl:mail:{of}", {scene.text: 2})
        SlotKeeper(led.keys, ManualClock()).over(scene.wire).step(TERM)


def native(scene: Scene) -> None:
    led = scene.led
    runs = list(scene.victims("scheduled"))
    led.redis.zadd(f"{RQ}:scheduled:default", dict.fromkeys(runs, 1))
    led.redis.sadd(f"{RQ}:queues", f"{RQ}:queue:default")
    for _ in range(2):
        NativeJobs(scene.wire, led.keys).move(TERM, [b"default"], 1000)
        led.pass_time(10_000)
    led.redis.set(f"{RQ}:scheduler-lock:default", scene.text)
    [holder] = NativeJobs(scene.wire, led.keys).move(TERM, [b"default"], 10).others.values()
    assert len(holder) <= 4000


def client_calls(scene: Scene) -> None:
    client = scene.client
    for status, call in (("finished", client.retry), ("queued", client.cancel_run)):
        runs = list(scene.victims(status, ended_at=PASSED))
        scene.led.redis.rpush(f"{RQ}:queue:default", *runs)
        for run in runs:
            with suppress(ZschedError):
                call(run)
    due_ms = scene.led.now_ms + HOUR_MS
    scene.spoil(scene.one_shots(due_ms))
    for number, _ in enumerate(fields_read()):
        with suppress(ZschedError):
            client.schedule("app.task", id=f"bait{number}", at=datetime.fromtimestamp(due_ms / 1000, UTC))
    scene.spoil(scene.one_shots(due_ms + 1))
    baits = [(f"bait{n}", f"{due_ms + 1}") for n, _ in enumerate(fields_read())]
    Scanner(scene.wire, scene.led.keys).missing(baits)
    for number, _ in enumerate(fields_read()):
        with suppress(ZschedError):
            client.run_now(f"bait{number}")
    client.schedule("app.task", id="baits", every=60)
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    for number, field in enumerate(fields_read()):
        at_ms = int((now - timedelta(minutes=number + 1)).timestamp() * 1000)
        scene.led.redis.hset(scene.led.keys.rq.job(scene.led.run("baits", at_ms)), field, scene.text)
    with suppress(ZschedError):
        client.backfill("baits", now - timedelta(minutes=50), now)


DRIVES: dict[Callable[[Scene], None], set[str]] = {
    fire: {"fire"},
    advance: {"advance"},
    look_and_track: {"look", "track"},
    lost: {"lost"},
    chains: {"unblock"},
    native: {"native"},
    slots: {"free_slots"},
    client_calls: {"cancel_run", "retry", "run_now", "put"},
}


def test_every_script_that_reads_job_fields_is_covered_by_a_driver() -> None:
    readers = {name for name in NAMES if READ.search(load(name).text)}

    assert readers == set().union(*DRIVES.values()) | COMPARE
    assert {"status", "origin", "ended_at", "worker_name", "created_at", "zs_expires"} <= set(fields_read())


@pytest.mark.parametrize(
    ("drive", "hostile"),
    each(list(DRIVES), list(HOSTILE)),
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_hostile_text_in_a_job_forges_nothing_in_the_log(
    led: Namespace, redis_server: EmbeddedRedis, drive: Callable[[Scene], None], hostile: str
) -> None:
    scene = Scene(led, redis_server.url, HOSTILE[hostile])
    with closing(scene.wire):
        before = len(list(Log(scene.wire, led.keys).entries()))

        drive(scene)

        entries = list(Log(scene.wire, led.keys).entries())[before:]
        assert entries or drive in (native, slots)  # what is RQ's alone is in no log
    for entry in entries:
        own = {change.id for change in changes(entry)} | {id for (id, _), _ in touches(entry, "")}
        assert all(id.startswith("bait") for id in own), entry
        assert dropped_in(entry) == []
        if entry.kind not in ("put", "enqueue"):  # these have their own lengths, and hold what is called
            assert sum(map(len, entry.texts)) < MOST * max(len(own), 1)
    assert led.redis.zscore(led.keys.due_normal(), "daily") is not None


def dropped_in(entry: Entry) -> list[str]:
    """Return the malformed ids that reading the entry dropped."""
    parsed = parse(entry)
    list(parsed.rows())
    return parsed.dropped


@pytest.mark.parametrize(
    ("status", "word"),
    [("rate_limited", "rate_limited"), ("a" * 20, "a" * 20), ("a" * 21, "odd"), ("canceled x", "odd"), ("a1", "odd")],
)
def test_a_status_in_the_log_has_at_most_20_letters(led: Namespace, status: str, word: str) -> None:
    led.put(("bait", led.now_ms - 1000), allow_past=1)
    run = led.run("bait", led.now_ms - 1000)
    led.redis.hset(led.keys.rq.job(run), "status", status)

    led.fire()

    assert f"{run}={word}" == led.last.fields["cancelled"]
