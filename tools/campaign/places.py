"""The places of schedules in Redis, read without zsched: an active schedule is in exactly one place."""

from collections.abc import Iterable, Iterator
from typing import Any

import redis

from tests.faults.archives import KEYS
from tests.prefix import RQ
from tools.campaign.witnesses import Place
from zsched.core.runs.run_id import schedule_of

WAITING = "waiting"  # a job in waiting, which belongs to a one-shot that has a place
_LANES = ("high", "normal", "low")


def read(client: Any) -> list[Place]:
    """Return every place of every schedule, and every job that waits for its time."""
    places = []
    for lane in _LANES:
        rows = client.zrange(f"{KEYS.prefix}due:{lane}", 0, -1, withscores=True)
        places += [Place(id.decode(), "due", int(due)) for id, due in rows]
    for place, key in (("paused", KEYS.paused()), ("quarantine", KEYS.quarantine())):
        for id, value in client.hgetall(key).items():
            due = value.split(b" ")[1]
            places.append(Place(id.decode(), place, int(due) if due.isdigit() else None))
    for id in client.smembers(KEYS.recurring()):
        told = client.hmget(KEYS.schedule(id.decode()), "progress", "ended_at")
        places += [Place(id.decode(), "ended" if told[1] else "recurring" if told[0] else "no hash", None)]
    return places + list(_waiting(client))


def _waiting(client: redis.Redis) -> Iterator[Place]:
    for keys in _pages(client.scan_iter(match=f"{RQ}:job:*", count=1000)):
        pipe = client.pipeline(transaction=False)
        for key in keys:
            pipe.hmget(key, "status", "zs")
        for key, told in zip(keys, pipe.execute(raise_on_error=False), strict=True):
            if isinstance(told, list) and told[0] == b"scheduled" and told[1]:
                run = key.decode().removeprefix(f"{RQ}:job:")
                yield Place(schedule_of(run), WAITING, int(run[len(schedule_of(run)) + 1 :]))


def _pages(keys: Iterable[bytes]) -> Iterator[list[bytes]]:
    page: list[bytes] = []
    for key in keys:
        page.append(key)
        if len(page) == 500:
            yield page
            page = []
    yield page


def faults_in(places: list[Place], foreign: set[str]) -> Iterator[str]:
    """Yield the schedules that are in no place, in two places, or incomplete."""
    found: dict[str, list[Place]] = {}
    for place in places:
        found.setdefault(place.id, []).append(place)
    for id, each in found.items():
        held = [place.place for place in each if place.place in ("due", "paused", "quarantine")]
        rest = [place for place in each if place.place not in ("due", "paused", "quarantine")]
        is_recurring = any(place.place != WAITING for place in rest)
        wanted = 0 if any(place.place == "ended" for place in rest) else 1
        told = ", ".join(f"{place.place} {place.due_ms or ''}".strip() for place in each)
        if id in foreign:
            continue
        if len(held) != wanted or any(place.place == "no hash" for place in rest):
            yield f"{id}: {len(held)} places instead of {wanted}: {told}"
        elif not is_recurring and held != ["quarantine"] and len(rest) != 1:
            yield f"{id}: its job in waiting is not there once: {told}"
