"""
A client's side of signing: it signs what it puts, and what it lets run once more.

A signature is made before the call. So a signed one-shot with a delay needs its due time before: the client reads the
server's clock, and counts from there, instead of leaving that to the script.

A signature is valid for ``valid_days`` after the due time of a one-shot, or after the put of a recurring schedule. The
end is rounded up to a tenth of that. So a put that is repeated the next day is the same put, and one that is repeated
after a tenth of the time makes the schedule valid for longer.

Not guaranteed: that a delay is exact to the millisecond. The server's clock is read once a second at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final

from zsched.config.bounds import MOST_VALID_DAYS
from zsched.core.clock import Clock, SystemClock
from zsched.core.runs.run_id import RunId
from zsched.errors import InvalidSchedule
from zsched.storage.keyfile import KeyFile
from zsched.storage.keys import Keys
from zsched.storage.signing import (
    LATEST_S,
    BadSignature,
    Checked,
    Fields,
    Stamp,
    Subject,
    check_run,
    check_schedule,
    demand_in_limits,
    retried_as,
    shared_digest,
)

_DAY_S: Final = 86_400
_STEPS: Final = 10  # of the time for which a signature is valid
_FRESH_MS: Final = 1000.0  # while a reading of the server's clock counts; clocks drift less than a ms


def checked_valid_days(days: object) -> int:
    """Return *days* for which a signature is valid. Raises InvalidSchedule."""
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MOST_VALID_DAYS:
        raise InvalidSchedule("signing_valid_days", days, "not a number of days", f"give 1 to {MOST_VALID_DAYS}")
    return days


class Signer:
    """
    Signs for one namespace by the first key of *file*; *server_ms* reads the server's clock, in ms. Thread-safe. All
    methods that sign or check raise ConfigError: the file cannot be used.
    """

    def __init__(self, file: KeyFile, keys: Keys, valid_days: int, clock: Clock, server_ms: Callable[[], int]) -> None:
        self._file, self._keys, self._clock, self._server_ms = file, keys, clock, server_ms
        self._valid_s = valid_days * _DAY_S
        self._step_s = max(self._valid_s // _STEPS, 1)
        self._machine, self._lock = SystemClock(), threading.Lock()
        self._read: tuple[int, float] | None = None  # the server's time, and ours by the monotonic clock
        self._of_one_shots = Subject.RUN

    def letting_run_now(self) -> Signer:
        """Return the same signer, whose one-shots may run before their time."""
        other = copy(self)
        other._of_one_shots = Subject.RUN_NOW
        return other

    def shared(self, fields: Fields) -> bytes:
        """Return the ``shared_digest`` of *fields*, once per shape."""
        return shared_digest(self._keys.namespace, fields)

    def problem_of(self, pairs: Sequence[Any], data: bytes) -> str:
        """Return why the key's limits do not let it sign a job with *data* and the flat *pairs*; or ""."""
        key = self._file.current().first
        try:
            if key.is_limited:
                fields = dict(zip(pairs[::2], pairs[1::2], strict=True)) | {"data": data}
                demand_in_limits(Checked(Subject.RUN, key, 0), fields)
        except BadSignature as error:
            return str(error)
        return ""

    def one_shots(self, shared: bytes, ids: Iterable[str], dues: Iterable[str], datas: Iterable[bytes]) -> list[bytes]:
        """Return the signatures of one-shots of a shape; *dues* as in their rows. Many at once take 0.7 of the time."""
        key, now_ms, suffix = self._file.current().first, self._clock.now_ms(), self._keys.run_suffix
        signatures = []
        stamp, from_ms, before_ms = None, 0, 0  # it signs one-shots that are due from from_ms on, before before_ms
        for id, due, data in zip(ids, dues, datas, strict=True):
            due = due.removeprefix("=")
            at_ms = int(due)
            if stamp is None or not from_ms <= at_ms < before_ms:
                until_s = self._until_s(max(at_ms, now_ms))
                from_ms, before_ms = at_ms, (until_s - self._valid_s) * 1000
                stamp = Stamp(key, self._of_one_shots, shared, until_s)
            signatures.append(stamp.sign(f"{id}-{due}{suffix}", data))
        return signatures

    def schedule(self, shared: bytes, id: str, data: bytes) -> bytes:
        """Return the signature of the recurring schedule *id*."""
        until_s = self._until_s(self._clock.now_ms())
        return Stamp(self._file.current().first, Subject.SCHEDULE, shared, until_s).sign(id, data)

    def retry(self, run_id: str, fields: Mapping[str, Any]) -> bytes:
        """
        Return the signature for a repetition of *run_id*, with the *fields* of its job; b"" if the job itself is not
        signed as it should be: then the repetition has the old signature, and runs where the run itself would.
        """
        parts = RunId.parse(run_id)
        try:
            demand_in_limits(check_run(self._file.current(), run_id, fields, self._now_s()), fields)
        except BadSignature:
            return b""
        assert parts is not None  # checked
        until_s, name = self._until_s(self._clock.now_ms()), retried_as(parts)
        return Stamp(self._file.current().first, Subject.RETRY, self.shared(fields), until_s).sign(name, fields["data"])

    def check_found(self, id: str, due_ms: int | None, fields: Fields) -> None:
        """Check the signature of a waiting schedule: *due_ms* is None for a recurring one. Raises BadSignature."""
        run_id, namespace = None if due_ms is None else self._keys.run_id(id, due_ms), self._keys.namespace
        demand_in_limits(check_schedule(self._file.current(), namespace, id, run_id, fields, self._now_s()), fields)

    def server_now_ms(self) -> int:
        """Return the server's time, which is read once a second at most. Raises RedisUnavailable, RedisRefused."""
        with self._lock:
            own_ms = self._machine.monotonic_ms()
            if self._read is None or own_ms - self._read[1] > _FRESH_MS:
                self._read = self._server_ms(), own_ms
            server_ms, read_ms = self._read
            return server_ms + int(own_ms - read_ms)

    def _now_s(self) -> int:
        return self._clock.now_ms() // 1000

    def _until_s(self, from_ms: int) -> int:
        until_s = from_ms // 1000 + self._valid_s
        return min(-(-until_s // self._step_s) * self._step_s, LATEST_S)
