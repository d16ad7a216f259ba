"""Decided occurrences, read from the log that every script appends to; and fired runs, read from RQ's jobs."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Collection, Mapping
from typing import Final

from zsched.core.log.kinds import changes
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run import Run, of_job
from zsched.storage.connection import Link
from zsched.storage.jobs import Jobs
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.queues import unheard

_DECIDED: Final = (What.FIRED, What.SKIPPED, What.EXPIRED, What.DUPLICATE)
_PAGE: Final = 100  # log entries per read; one may hold 500 run ids


class RunReader:
    """Follows the log of one namespace from its beginning, and reads runs. Raises RedisUnavailable."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._keys, self._last = link, keys, "0-0"
        self._log, self._jobs = Log(link, keys), Jobs(link, keys, tracebacks=False)

    def decided(self, wait_ms: int) -> list[Change]:
        """Return the decided occurrences since the last call; if the log has nothing new, wait up to *wait_ms*."""
        if not self._log.wait(self._last, wait_ms):
            return []
        entries = self._log.read(f"({self._last}", _PAGE)
        self._last = entries[-1].position.id
        found = (change for entry in entries for change in changes(entry, self._keys.run_suffix))
        return [change for change in found if change.what in _DECIDED and change.nominal_ms is not None]

    def runs(self, fired_us: Mapping[str, int]) -> list[Run]:
        """Return runs by their ids, which were fired at these times."""
        jobs = zip(fired_us.items(), self._jobs.read(list(fired_us)), strict=True)
        return [of_job(run_id, job, at_us) for (run_id, at_us), job in jobs]

    def unheard(self, queues: Collection[str]) -> frozenset[str]:
        """Return the *queues* to which no worker listens."""
        with self._link.wire() as wire:
            return unheard(wire, self._keys, queues)

    def said(self, run_id: str) -> str:
        """Return the task's result if it is a text and workers use the JSON serializer; else ''."""
        entries = self._link.execute("XREVRANGE", self._keys.rq.results(run_id), "+", "-", "COUNT", 1)
        for _, texts in entries:
            returned = dict(zip(texts[::2], texts[1::2], strict=True)).get(b"return_value", b"")
            with contextlib.suppress(binascii.Error, ValueError):  # pickled, or empty
                value = json.loads(base64.b64decode(returned))
                return value if isinstance(value, str) else ""
        return ""
