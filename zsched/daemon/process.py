"""The daemon as a process: signals, settings of logging, exit code."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import structlog

from zsched.config import Settings
from zsched.daemon.daemon import Daemon
from zsched.errors import ZschedError
from zsched.events import configure
from zsched.storage.connection import Link

log = structlog.get_logger(__name__)

DONE, FAILED = 0, 1
# Seconds that a thread may keep the others waiting for Python: the leader's waits behind the archiver's are what
# dispatching loses by archiving (measured on 2 cores: 0.79 × its speed alone with Python's 0.005, 0.86 with this).
_SWITCH_S = 0.0001


def run(settings: Settings) -> int:
    """
    Run a daemon until SIGTERM or SIGINT; a second one ends it at once. Returns the exit code.

    Raises:
        ConfigError: the settings name no Redis.
    """
    sys.setswitchinterval(_SWITCH_S)
    configure(settings.log.level, settings.log.format)
    redis = settings.redis
    daemon = Daemon(settings, Link.from_url(redis.url, redis.timeout_s, redis.read_password()))

    def stop(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        daemon.stop()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    try:
        daemon.run()
    except ZschedError as error:
        log.error("daemon_failed", reason=str(error))
        return FAILED
    return DONE
