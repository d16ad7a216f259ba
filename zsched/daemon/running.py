"""The common parts of both processes of a daemon: the settings of their interpreter, and their exit codes."""

from __future__ import annotations

import gc
import sys
from typing import Final

from zsched.config.settings import LogSettings
from zsched.daemon import heap
from zsched.errors import ArchiveForeign, OlderFormat, OtherPrefix, ZschedError
from zsched.events import configure

DONE, FAILED, UNUSABLE = 0, 1, 2  # systemd restarts the unit after FAILED, not after UNUSABLE
# Seconds for which a thread may keep the interpreter while other threads wait. Firing must not wait for a page of
# metrics, nor archiving for the audit. Python's default is 0.005.
_SWITCH_S: Final = 0.0001


def prepare(settings: LogSettings) -> None:
    """Set up the interpreter of this process, and its events by *settings*, before it has threads."""
    sys.setswitchinterval(_SWITCH_S)
    heap.share_one()
    gc.freeze()  # the collector skips objects that stay, such as modules: every thread waits for it
    configure(settings.level, settings.format)


def exit_code_of(error: ZschedError) -> int:
    """Return UNUSABLE if an operator must act on *error* before another start can succeed, else FAILED."""
    return UNUSABLE if isinstance(error, ArchiveForeign | OlderFormat | OtherPrefix) else FAILED
