"""What RQ's job hashes say of runs; a traceback comes as its last line. Nothing here writes, or unpickles."""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode
from collections.abc import Sequence
from typing import Final

from zsched.core.log import text
from zsched.core.runs import JOB_FIELDS, Job
from zsched.core.untrusted import LONGEST_NAME
from zsched.storage.keys import Keys
from zsched.storage.scripts import Channel, Scripts

_FIELDS: Final = " ".join(JOB_FIELDS.values())
_PAGE: Final = 200  # runs looked at by one script: Redis does nothing else meanwhile
_LONGEST_TRACEBACK: Final = 4_194_304  # bytes, unpacked; of a longer one the last line is not known
_LONGEST_ERROR: Final = 500  # characters


class Jobs:
    """The reading side of RQ's jobs of one namespace. Raises RedisUnavailable, RedisRefused."""

    def __init__(self, channel: Channel, keys: Keys) -> None:
        self._scripts = Scripts(channel, keys)

    def look(self, run_ids: Sequence[str]) -> list[Job | None]:
        """What RQ says of each of *run_ids*; None where it holds nothing of a run."""
        return [
            None if told == b"-" else _job(told)
            for first in range(0, len(run_ids), _PAGE)
            for told in self._scripts.call("look", fields=_FIELDS, rows=run_ids[first : first + _PAGE])
        ]


def _job(told: bytes) -> Job:
    words = text(told).split("\0", len(JOB_FIELDS) - 1)
    job = Job(**dict(zip(JOB_FIELDS, words, strict=True)))
    return job._replace(worker=job.worker[:LONGEST_NAME], error=last_line(job.error) if job.error else "")


def last_line(packed: str) -> str:
    """The last line of a traceback as RQ's results keep it: zlib in base64; '' when it is none."""
    try:
        opened = zlib.decompressobj().decompress(b64decode(packed), _LONGEST_TRACEBACK)
    except (binascii.Error, ValueError, zlib.error):
        return ""
    lines = text(opened).strip().splitlines()
    return lines[-1].strip()[:_LONGEST_ERROR] if lines and len(opened) < _LONGEST_TRACEBACK else ""
