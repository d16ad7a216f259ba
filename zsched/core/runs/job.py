"""
RQ's job of a run: the fields that zsched reads of RQ's hash (look.lua), with RQ's values, and RQ's times and numbers.

Any writer of RQ's jobs can choose these texts: a text that is neither a time nor a number counts as unknown.

**Signatures.** A signature is ``<key id>.<valid until>.<code>``: 1 to 8 of a-z and 0-9, epoch seconds in nine
hexadecimal digits, and 128 bits in base64, without padding. A job has it in the field ``zs_sig``, besides ``data``. A
row of a put, in a call and in the log, has its data under a name. The name is the signature, or ``data`` if there is
none. So rows have the same form with and without signatures. No signature is ``data``.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from zsched.core.clock import from_ms
from zsched.core.runs.attempts import Attempt
from zsched.core.wording import LONGEST_NAME

OFFSET_FIELD: Final = "zs_offset"  # of a one-shot that was given as local time: the offset of its zone then, in seconds
GUARD_FIELD: Final = "zs_guard"  # of a worker: the mode of its guard (zsched.rq)
WARNED_FIELD: Final = "zs_warned"  # what enforce would have refused; of a worker: how many jobs; of a job: why
# By option: the field with the path of the function that RQ calls after a run.
CALLBACKS: Final = {f"on_{end}": f"{end}_callback_name" for end in ("success", "failure", "stopped")}
DEFAULT_TIMEOUT_S: Final = 180  # of a job without a timeout: RQ's own
RQ_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"  # the form of a time in a job, UTC
_LENGTH: Final = 27  # of such a text
SIGNATURE_FIELD: Final = "zs_sig"
UNSIGNED: Final = b"data"  # the name of data without a signature
_FORM: Final = re.compile(rb"([a-z0-9]{1,8})\.([0-9a-f]{9})\.([A-Za-z0-9+/]{22})")


class JobFacts(NamedTuple):
    """
    A run's fields in RQ's hash, with RQ's values; see look.lua. ``error``: the last line of its ``traceback``, which is
    that of a failed run. ``JOB_FIELDS`` has the name of each field in the hash.
    """

    status: str = ""
    queued_at: str = ""
    started_at: str = ""
    ended_at: str = ""
    heartbeat_at: str = ""
    worker: str = ""
    queue: str = ""
    retries_left: str = ""
    retries: str = ""  # at most, when it was pushed
    returned: str = ""  # attempts that ended by returning rq.Retry
    on_lost: str = ""
    timeout: str = ""  # in seconds
    limit: str = ""  # the rate limit that it waits for: its key, and its slots in parentheses
    error: str = ""
    func: str = ""  # of a failed run
    note: str = ""
    traceback: str = ""
    attempts: str = ""

    @property
    def seen(self) -> str:
        """The facts that must be unchanged when its end is recorded; see track.lua."""
        return f"{self.status} {self.ended_at}"

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        if not self.retries_left and not self.returned:
            return 1
        failed = max(whole(self.retries) - whole(self.retries_left), 0) if self.retries_left else 0
        return 1 + failed + whole(self.returned)


# The hash field that look.lua reads for each field of ``JobFacts``, in the order of its reply: ``exc_string`` of its
# newest result, packed, behind a blank its attempts. The note is last: it may have any text.
_IN_HASH: Final = (
    "status enqueued_at started_at ended_at last_heartbeat worker_name origin retries_left zs_retries"
    " number_of_retries zs_on_lost timeout rate_limit_key exc_string zs_func zs_note"
)
JOB_FIELDS: Final = dict(zip(JobFacts._fields, _IN_HASH.split(), strict=False))


def attempt_of_job(job: JobFacts, error: str) -> Attempt:
    """Return the present attempt from RQ's hash *job*, which ended by *error*."""
    queued_ms, started_ms, ended_ms = map(ms_of, (job.queued_at, job.started_at, job.ended_at))
    return Attempt(job.attempt, job.worker[:LONGEST_NAME], queued_ms, started_ms, ended_ms, error)


def ms_of(rq_time: str) -> int | None:
    """Return a time of RQ's form ``2026-11-21T08:00:00.123456Z`` in ms; None for any other text."""
    if len(rq_time) != _LENGTH or rq_time[19] != "." or rq_time[-1] != "Z":
        return None
    try:
        ms = _second_of(rq_time[:19]) * 1000 + int(rq_time[20:23])
    except (ValueError, OverflowError):
        return None
    return ms if ms >= 0 else None


@lru_cache(maxsize=1000)  # runs that end together share their seconds: a third of the time (measured)
def _second_of(shown: str) -> int:
    return int(datetime.fromisoformat(shown).replace(tzinfo=UTC).timestamp())


def rq_time(ms: int) -> str:
    """Return *ms* in RQ's form: the inverse of ``ms_of``."""
    return from_ms(ms).strftime(RQ_TIME)


def whole(text: str) -> int:
    """Return a number that RQ wrote; 0 for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def parts_of(signature: bytes) -> tuple[str, int, bytes] | None:
    """Return key id, valid until in epoch seconds, and code of *signature*; None if it has another form."""
    found = _FORM.fullmatch(signature)
    return None if found is None else (found[1].decode(), int(found[2], 16), found[3])


def signature_in(name: bytes) -> bytes:
    """Return the signature that is the *name* of data, or b""."""
    return b"" if name == UNSIGNED else name


def job_pairs(name: bytes, data: bytes) -> list[bytes]:
    """Return the pairs of a job for the *data* of a row under *name*: its data, and its signature if it has one."""
    return [UNSIGNED, data] if name in (UNSIGNED, b"") else [UNSIGNED, data, SIGNATURE_FIELD.encode(), name]
