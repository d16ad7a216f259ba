"""Fired runs, read from the log that every script appends to; and their state at the workers, from RQ's job hashes."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from zsched.core.clock import to_ms
from zsched.core.log import Entry, changes
from zsched.core.occurrences.outcomes import What
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.queues import unheard

_DECIDED: Final = (What.FIRED, What.SKIPPED, What.EXPIRED, What.DUPLICATE)
_PAGE: Final = 100  # log entries per read; one may hold 500 run ids


@dataclass(frozen=True, slots=True)
class DecidedOccurrence:
    """
    One decided occurrence. ``run_id`` is None if it was not pushed, and ``why`` is the reason.

    ``at_us`` is the Redis server's time of the decision in microseconds, ``late_ms`` the delay after the nominal time.
    """

    schedule_id: str
    nominal_ms: int
    at_us: int
    run_id: str | None
    why: str = ""

    @property
    def late_ms(self) -> float:
        return self.at_us / 1000 - self.nominal_ms


class LogReader:
    """Follows the log of one namespace from its beginning."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._keys = link, keys
        self._last = "0-0"

    def read(self, wait_ms: int) -> list[DecidedOccurrence]:
        """
        Return the decisions since the last call; if there are none, wait up to *wait_ms* (at least 1).

        Raises:
            RedisUnavailable: the server is gone.
        """
        source = (self._keys.log(), self._last)
        reply = self._link.execute("XREAD", "COUNT", _PAGE, "BLOCK", wait_ms, "STREAMS", *source)
        found: list[DecidedOccurrence] = []
        for entry_id, texts in reply[0][1] if reply else ():
            self._last = entry_id.decode()
            found += self._occurrences(Entry.of(entry_id, texts))
        return found

    def _occurrences(self, entry: Entry) -> Iterator[DecidedOccurrence]:
        for change in changes(entry, self._keys.run_suffix):
            if change.what in _DECIDED and change.nominal_ms is not None:
                pushed = change.run_id if change.what is What.FIRED else None
                why = "" if pushed else f"{change.what.value} {change.why}".rstrip()
                yield DecidedOccurrence(change.id, change.nominal_ms, change.at_us, pushed, why)


# -- runs -------------------------------------------------------------------------------------------


FINISHED: Final = "finished"
_OVER: Final = (FINISHED, "failed", "stopped", "canceled", "gone")
_FIELDS: Final = ("origin", "status", "started_at", "ended_at")


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run, from its job hash; ``waited_ms`` from push to start, ``took_ms`` from start to end, if known."""

    occurrence: DecidedOccurrence
    queue: str
    status: str
    waited_ms: float | None = None
    took_ms: float | None = None

    @property
    def is_over(self) -> bool:
        """Return True if no worker will work on it any more."""
        return self.status in _OVER


class RunReader:
    """Reads runs, many in one round trip."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._keys = link, keys

    def read(self, occurrences: Sequence[DecidedOccurrence]) -> list[DemoRun]:
        """Return the run of each of *occurrences*, which were all pushed. Raises RedisUnavailable."""
        keys = [self._keys.rq.job(one.run_id or "") for one in occurrences]
        with self._link.wire() as wire:
            replies = wire.execute_all(("HMGET", key, *_FIELDS) for key in keys)
        return [_run(one, reply) for one, reply in zip(occurrences, replies, strict=True)]

    def unheard(self, queues: Collection[str]) -> frozenset[str]:
        """Return the *queues* to which no worker listens. Raises RedisUnavailable."""
        with self._link.wire() as wire:
            return unheard(wire, self._keys, queues)

    def said(self, run_id: str) -> str | None:
        """Return the task's result if it is a text and workers use the JSON serializer; else None."""
        entries = self._link.execute("XREVRANGE", self._keys.rq.results(run_id), "+", "-", "COUNT", 1)
        for _, texts in entries:
            returned = dict(zip(texts[::2], texts[1::2], strict=True)).get(b"return_value", b"")
            try:
                value = json.loads(base64.b64decode(returned))
            except (binascii.Error, ValueError):  # pickled, or empty
                return None
            return value if isinstance(value, str) else None
        return None


def _run(occurrence: DecidedOccurrence, fields: Sequence[bytes | None]) -> DemoRun:
    origin, status, started_at, ended_at = ((text or b"").decode() for text in fields)
    started, ended = _instant_ms(started_at), _instant_ms(ended_at)
    return DemoRun(
        occurrence,
        queue=origin or "?",
        status=status or "gone",
        waited_ms=None if started is None else started - occurrence.at_us / 1000,
        took_ms=None if started is None or ended is None else ended - started,
    )


def _instant_ms(text: str) -> float | None:
    """Return the epoch milliseconds, with their fraction, of a time in RQ's form."""
    if not text:
        return None
    at = datetime.fromisoformat(text)
    return to_ms(at.replace(microsecond=0)) + at.microsecond / 1000
