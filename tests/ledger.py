"""The runs by log and by RQ queues, which tests compare."""

from collections import Counter
from itertools import pairwise
from typing import Any

import redis

from tests.builders.entries import LogEntry
from tests.prefix import RQ
from tests.waiting import eventually
from zsched.core.occurrences.outcomes import outcome_of

_READ = "return redis.call('XRANGE', KEYS[1], '-', '+')"  # redis-py makes dicts of entries, and names repeat


def entries(client: Any, kind: str | None = None) -> list[LogEntry]:
    """Return the log of the namespace "default", or only its entries of one *kind*."""
    found = [LogEntry.of(id, texts) for id, texts in client.eval(_READ, 1, "zsched:{default}:log")]
    return [entry for entry in found if kind in (None, entry.kind)]


def fired(client: redis.Redis) -> list[tuple[str, int]]:
    """Return run id and t (µs) of every run that the log says was pushed, in order."""
    runs = []
    for entry in entries(client):
        if entry.kind == "fire":
            runs += [(run, entry.t_us) for run in entry.fields.get("runs", "").split()]
        elif entry.kind == "advance":
            rows = [line.split(" ") for line in entry.rows]
            runs += [
                (f"{id}-{nominal.partition('+')[0]}", entry.t_us)
                for id, word, nominal, *_ in rows
                if outcome_of(word).is_pushed
            ]
        elif entry.kind == "enqueue":
            runs.append((entry.texts[2], entry.t_us))
        elif entry.kind == "run_now":
            runs.append((entry.fields["run"], entry.t_us))
    return runs


def queued(client: Any, queue: str = "default") -> list[str]:
    """Return the run ids in an RQ queue."""
    return [run.decode() for run in client.lrange(f"{RQ}:queue:{queue}", 0, -1)]


def await_queued(client: Any, number: int, queue: str = "default") -> list[str]:
    """Return the run ids in an RQ queue when there are *number*; each wait is for one more of them."""
    key = f"{RQ}:queue:{queue}"
    while (had := client.llen(key)) < number:
        eventually(lambda had=had: client.llen(key) > had)  # type: ignore[misc]
    return queued(client, queue)


def doubles(runs: list[str]) -> list[str]:
    """Return the duplicates in *runs*."""
    return [run for run, number in Counter(runs).items() if number > 1]


def longest_pause_ms(client: redis.Redis) -> float:
    """Return the longest time between two entries that pushed runs; 0 if there are none."""
    times = sorted({t for _, t in fired(client)})
    return max(((after - before) / 1000 for before, after in pairwise(times)), default=0.0)


def assert_dense(client: redis.Redis) -> None:
    """Check that entries are numbered without a hole, epochs do not fall, and times do not go back."""
    ids = [tuple(map(int, entry.id.split("-"))) for entry in entries(client)]
    assert list(range(1, len(ids) + 1)) == [seq for _, seq in ids]
    assert sorted(epoch for epoch, _ in ids) == [epoch for epoch, _ in ids]
