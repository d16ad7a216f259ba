"""
Duration of a search: the first page of 20 among millions of runs, by each filter of ``zsched history``.

The runs came 1,000 at once: put, fired and ended together. The first 1,000 are real, by a client, a daemon and writes
of ends as RQ's worker makes them; the others are their entries with other ids (``bench.history``). In each 1,000, two
runs have another function, queue and tag, and one of these failed. Searches go through Redis to a daemon.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from rq.defaults import DEFAULT_RESULT_TTL

from bench import load
from bench.arena import Arena, Ground
from bench.children import folder, leader
from bench.contest import Contestant, Figure, contest
from bench.history import archive_path, drop_from_cache, log_of, write_archive
from bench.journal import Ends
from bench.load import RQ
from bench.results import Broken, Result
from zsched.core.entry import Entry, Position
from zsched.core.runs.job import rq_time

_PORTION: Final = 1000  # runs at once
_PAGE: Final = 20
_AHEAD_MS: Final = 1000
_RARE: Final = "rare"
_NUMBER: Final = b"p000000"  # of the portion, in every id of the real one
_AT_ONCE: Final = 20  # portions in one transaction
_GOAL_MS: Final = 1000.0


def of_a_million(arena: Arena) -> Result:
    """The row ``search``."""
    return _measure(arena, "search", arena.size(1_000_000, 20_000))


def of_ten_million(arena: Arena) -> Result:
    """The row ``search-10m``."""
    return _measure(arena, "search-10m", arena.size(10_000_000, 20_000))


def _measure(arena: Arena, name: str, count: int) -> Result:
    result = Result(name, f"the first page of {_PAGE} of {count:,} runs by each filter, asked through Redis, no AOF")
    with arena.redis() as ground:
        one = Contestant("zsched", f"{count:,} runs", "ms, slowest", partial(_zsched, arena, ground, count))
        contest(replace(arena, repeat=1), ground, result, [one])
    series = result.find("zsched")
    result.within("1,000 ms", series.median if series else None, _GOAL_MS)
    result.notes.append("the slowest filter but `part of an id`, which reads all; the file cached, but for `cold`")
    return result


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    portions = count // _PORTION
    with folder(arena) as state:
        path = archive_path(ground, state)
        real = _real_portion(arena, ground)
        write_archive(arena, path, _like(real, portions), portions * len(real), log_of(ground), _AT_ONCE * len(real))
        size = path.stat().st_size
        with leader(arena, ground, state=state):
            arena.wait_for("the archive follows", ground.archives)
            ground.client().history(limit=1)  # the daemon imports the search for its first answer
            took_ms = {what: _took_ms(arena, ground, found, filters) for what, (found, filters) in _searches(portions)}
            all_ms = _took_ms(arena, ground, 1, {"match": f"*{_id(1, 7)[-11:]}*"})
            drop_from_cache(path)
            cold_ms = _took_ms(arena, ground, 1, {"match": f"*{_id(1, 8)[-11:]}*"})
    others = {**took_ms, "part of an id": all_ms, "part of an id, cold": cold_ms, "bytes each": size / count}
    return Figure(max(took_ms.values()), others)


def _id(portion: int, number: int) -> str:
    return f"mail-p{portion:06}-{number:04}"


def _real_portion(arena: Arena, ground: Ground) -> list[Entry]:
    """The entries of one portion, number 0: put, fired and ended."""
    timed = [(_id(0, number), arena.clock.now_ms() + _AHEAD_MS) for number in range(_PORTION)]
    client = ground.client()
    rare = list(load.rows(timed[:2], queue=_RARE, tags=[_RARE]))
    for row in rare:
        row["func"] = f"app.{_RARE}"
    with leader(arena, ground):
        many = client.schedule_many([*rare, *load.rows(timed[2:], tags=["usual"])])
        arena.wait_for("all is pushed", lambda: ground.waiting() == 0)
        _end(arena, ground, load.run_ids(timed))
        ends = Ends(ground)
        arena.wait_for("all ends are recorded", lambda: ends.read() >= _PORTION)
    if many.created != _PORTION:
        raise Broken(f"not all of {_PORTION} were created: {many}")
    return [entry for entry in log_of(ground) if entry.kind in ("put", "fire", "end")]


def _end(arena: Arena, ground: Ground, run_ids: list[str]) -> None:
    """End all runs as RQ's worker writes it: the first one failed."""
    now_ms = arena.clock.now_ms()
    at = rq_time(now_ms)
    with ground.redis.pipeline() as pipeline:
        for number, run in enumerate(run_ids):
            queue, status = _RARE if number < 2 else "default", _status(number)
            ended = {"status": status, "started_at": at, "ended_at": at, "last_heartbeat": at, "worker_name": "bench"}
            pipeline.lrem(RQ.queue(queue), 1, run)
            pipeline.hset(RQ.job(run), mapping=ended)
            pipeline.zadd(RQ.registry(status, queue), {run: now_ms // 1000 + DEFAULT_RESULT_TTL})
        pipeline.execute()


def _status(number: int) -> Literal["failed", "finished"]:
    return "failed" if number == 0 else "finished"


def _like(real: list[Entry], portions: int) -> Iterator[Entry]:
    """Entries of epoch 0, like *real* but for ids and t: portions 1, 2, … in order."""
    first_us = real[0].position.t_us - portions * len(real)
    for portion in range(1, portions + 1):
        other = b"p%06d" % portion
        for number, entry in enumerate(real, (portion - 1) * len(real)):
            body = [text.replace(_NUMBER, other) if _NUMBER in text else text for text in entry.body]
            yield Entry(Position(0, number + 1, first_us + number), entry.kind, body)


def _searches(portions: int) -> Iterator[tuple[str, tuple[int, dict[str, Any]]]]:
    """Yield the searches by name: the number of hits on the first page, and the filters."""
    rare, failed = min(_PAGE, 2 * portions), min(_PAGE, portions)
    yield "newest", (_PAGE, {})
    yield "one id", (1, {"id": _id(1, 5)})
    yield "failed", (failed, {"status": "failed"})
    yield "lost", (0, {"status": "lost"})
    yield "queue", (rare, {"queue": _RARE})
    yield "function", (rare, {"func": f"app.{_RARE}"})
    yield "tag", (rare, {"tag": _RARE})
    yield "tag, failed", (failed, {"tag": _RARE, "status": "failed"})
    yield "prefix", (_PAGE, {"match": f"{_id(2, 0)[:-5]}*"})
    yield "prefix, failed", (1, {"match": f"{_id(2, 0)[:-5]}*", "status": "failed"})


def _took_ms(arena: Arena, ground: Ground, found: int, filters: dict[str, Any]) -> float:
    """Milliseconds to the first page, over a connection of its own, which must have *found* hits."""
    client = ground.client()
    started_ms = arena.clock.monotonic_ms()
    page = client.history(limit=_PAGE, **filters)
    took_ms = arena.clock.monotonic_ms() - started_ms
    if len(page) != found or page.source.archive is None:
        raise Broken(f"{filters}: {len(page)} of {found} found; {page.source}")
    return took_ms
