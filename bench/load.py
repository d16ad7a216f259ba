"""The schedules that are measured with, and the proof that each of their runs reached its queue once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Unpack

from bench.results import Broken
from zsched.client import Client
from zsched.core.clock import from_ms
from zsched.core.options.table import ScheduleOptions, ScheduleRow
from zsched.storage.rqkeys import RqKeys

FUNC = "app.tasks.send_reminder"
ARGS = (123456, "email")
RQ = RqKeys()
QUEUE_KEY = RQ.queue("default")
_PAGE = 20_000  # entries of a queue per read

MINUTES = 1440  # of a day, and so many rules

Timed = tuple[str, int]  # schedule id, due time in ms
Daily = tuple[str, str]  # schedule id, cron expression (UTC)


def spread(count: int, from_ms_: int, over_ms: int, name: str = "reminder") -> list[Timed]:
    """*count* one-shots, due evenly over *over_ms* from *from_ms_* on, in order of time."""
    return [(f"{name}-{number:06}", from_ms_ + number * over_ms // count) for number in range(count)]


def rows(timed: Iterable[Timed], **options: Unpack[ScheduleOptions]) -> Iterator[ScheduleRow]:
    """The rows of ``schedule_many``."""
    for id, due_ms in timed:
        yield {"func": FUNC, "id": id, "at": from_ms(due_ms), "args": ARGS, "allow_past": True, **options}


def daily(count: int, name: str = "digest") -> list[Daily]:
    """*count* recurring schedules, each daily at one of the 1,440 minutes of a day."""
    return [(f"{name}-{number:06}", _cron(number % MINUTES)) for number in range(count)]


def _cron(minute: int) -> str:
    return f"{minute % 60} {minute // 60} * * *"


def daily_rows(rules: Iterable[Daily]) -> Iterator[ScheduleRow]:
    """The rows of ``schedule_many`` for recurring schedules."""
    for id, cron in rules:
        yield {"func": FUNC, "id": id, "cron": cron, "args": ARGS}


def progresses(ground: Any, ids: Iterable[str]) -> list[bytes]:
    """Return the progress of each recurring schedule (lua/lib/progress.lua)."""
    with ground.redis.pipeline(transaction=False) as pipeline:
        for id in ids:
            pipeline.hget(ground.keys.schedule(id), "progress")
        return list(pipeline.execute())


def with_nominal(progress: bytes, nominal_ms: int) -> bytes:
    """Return *progress* with another nominal time."""
    return b"%d %b" % (nominal_ms, progress.partition(b" ")[2])


def put(client: Client, timed: Sequence[Timed], **options: Unpack[ScheduleOptions]) -> None:
    """
    Schedule all of *timed*.

    Raises:
        Broken: not each of them was created.
    """
    many = client.schedule_many(rows(timed, **options))
    if many.created != len(timed):
        raise Broken(f"not all of {len(timed):,} were created: {many}")


def run_ids(timed: Iterable[Timed]) -> list[str]:
    """The runs that *timed* must become (namespace ``default``)."""
    return [f"{id}-{due_ms}" for id, due_ms in timed]


def queued(commands: Any, queue_key: str = QUEUE_KEY) -> Iterator[str]:
    """Yield the ids in an RQ queue, from its head."""
    for start in range(0, int(commands.llen(queue_key)), _PAGE):
        for run in commands.lrange(queue_key, start, start + _PAGE - 1):
            yield run.decode()


def prove_once(expected: Iterable[str], found: Iterable[str]) -> None:
    """
    Each of *expected* is in *found* once, and nothing else is.

    Raises:
        Broken: with the numbers of lost, doubled and unknown runs.
    """
    wanted, seen = set(expected), Counter(found)
    lost = len(wanted - seen.keys())
    doubled = sum(1 for times in seen.values() if times > 1)
    unknown = len(seen.keys() - wanted)
    if lost or doubled or unknown:
        raise Broken(f"of {len(wanted):,} runs {lost:,} lost, {doubled:,} twice, {unknown:,} unknown")


def prove_count(expected: int, found: int, who: str) -> None:
    """
    Demand that as many arrived as were put.

    Raises:
        Broken: they did not.
    """
    if expected != found:
        raise Broken(f"{who}: {found:,} of {expected:,} arrived in the queue")
