"""
Duration of ``why``: the story of one schedule among millions of history entries.

Each entry (``bench.history``) is the put of one schedule with a random id, in the form of one that put.lua wrote.
Questions go through Redis to a daemon, as ``zsched why`` asks them. Before each the file is dropped from the system's
page cache, so what an answer needs is read from the disk.
"""

import random
import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import load
from bench.arena import Arena, Ground
from bench.children import folder, leader
from bench.contest import Contestant, Figure, contest
from bench.history import archive_path, drop_from_cache, log_of, write_archive
from bench.results import Broken, Result
from zsched.core.entry import Entry, Position
from zsched.core.occurrences.outcomes import What
from zsched.storage.connection import Link
from zsched.storage.history_reader import HistoryReader

_ASKED = 20  # ids
_AHEAD_S = 86_400
_GOAL_S = 1.0


def of_a_million(arena: Arena) -> Result:
    """The row ``why``."""
    return _measure(arena, "why", arena.size(1_000_000, 20_000))


def of_ten_million(arena: Arena) -> Result:
    """The row ``why-10m``."""
    return _measure(arena, "why-10m", arena.size(10_000_000, 20_000))


def _measure(arena: Arena, name: str, count: int) -> Result:
    result = Result(name, f"one id of {count:,} history entries, asked through Redis, nothing of the file cached")
    with arena.redis() as ground:
        one = Contestant("zsched", f"{count:,} entries", "s, slowest", partial(_zsched, arena, ground, count))
        contest(replace(arena, repeat=1), ground, result, [one])
    series = result.find("zsched")
    result.within("1 s", series.median if series else None, _GOAL_S)
    result.notes.append(f"the slowest of {_ASKED} random ids; `warm`: the slowest of them asked again; built once")
    return result


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    ground.client().schedule(load.FUNC, id="template", after=_AHEAD_S, args=load.ARGS)
    with folder(arena) as state:
        path, asked, log = archive_path(ground, state), list[str](), log_of(ground)
        chance = random.Random(count)
        template = next(entry for entry in log if entry.kind == "put")
        made = _puts(template, count, chance, set(chance.sample(range(count), _ASKED)), asked)
        write_archive(arena, path, made, count, log)
        size = path.stat().st_size
        with leader(arena, ground, state=state):
            arena.wait_for("the archive follows", ground.archives)
            cold_s = [_ask(arena, ground, path, id, is_cold=True) for id in asked]
            warm_s = [_ask(arena, ground, path, id, is_cold=False) for id in asked]
    others = {"median": sorted(cold_s)[len(cold_s) // 2], "warm": max(warm_s), "bytes each": size / count}
    return Figure(max(cold_s), others)


def _puts(template: Entry, count: int, chance: random.Random, wanted: set[int], asked: list[str]) -> Iterator[Entry]:
    """Entries of epoch 0, like *template* but for id and t; the ids of the numbers *wanted* go into *asked*."""
    at = template.body.index(b"template")
    first_us = template.position.t_us - count
    for number in range(count):
        id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        if number in wanted:
            asked.append(id)
        body = [*template.body[:at], id.encode(), *template.body[at + 1 :]]
        yield Entry(Position(0, number + 1, first_us + number), "put", body)


def _ask(arena: Arena, ground: Ground, path: Path, id: str, *, is_cold: bool) -> float:
    """Seconds to an answer, over a connection of its own."""
    if is_cold:
        drop_from_cache(path)
    started_ms = arena.clock.monotonic_ms()
    told = HistoryReader(Link.from_url(ground.url, 60.0), ground.keys).chronicle(id)
    took_s = (arena.clock.monotonic_ms() - started_ms) / 1000
    if told.source.archive is None or [change.what for change in told.changes] != [What.PUT]:
        raise Broken(f"no archive told of {id}: {told.source.problem or told.changes}")
    return took_s
