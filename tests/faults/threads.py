"""A daemon in a thread of the test. The first check of a leader is done beforehand, so that no hold delays a test."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, MutableMapping
from types import TracebackType
from typing import Any

import redis
import structlog

from tests.faults.processes import STEADY_MS, WITHIN_S, Telling, archive_of_its_own
from zsched.config.settings import ArchiveSettings, DaemonSettings, Settings
from zsched.daemon.daemon import Daemon
from zsched.storage.connection import Link


class DaemonThread(Telling):
    """
    A daemon that runs inside the block; structlog belongs to it alone. *settings* are of [daemon]: without them its
    lease is steady. *archive*, of [archive], names an archive, by default a separate one.
    """

    def __init__(
        self, url: str, *, timeout_s: float = 5.0, archive: ArchiveSettings | None = None, **settings: Any
    ) -> None:
        super().__init__()
        settings = {"lease_ms": STEADY_MS} | settings
        chosen = DaemonSettings(**{"renew_ms": settings["lease_ms"] // 3} | settings)
        archive = archive or ArchiveSettings(path=archive_of_its_own())
        self.daemon = Daemon(Settings(daemon=chosen, archive=archive), Link.from_url(url, timeout_s))
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def is_running(self) -> bool:
        """Return True if ``run`` has not returned."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop the daemon; return when it has ended."""
        self.daemon.stop()
        self._thread.join(WITHIN_S)
        assert not self.is_running

    def __enter__(self) -> DaemonThread:
        structlog.configure(processors=[self._hear], cache_logger_on_first_use=False)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        structlog.reset_defaults()
        if self.error is not None and error is None:
            raise self.error

    def _run(self) -> None:
        try:
            self.daemon.run()
        except BaseException as error:
            self.error = error
            self.add({"event": "died", "error": repr(error)})

    def _hear(self, logger: Any, level: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        self.add({**event, "level": level})
        raise structlog.DropEvent


def know(client: redis.Redis, namespace: str = "default") -> None:
    """Make this server the last one that led, and give its data set a name: no hold, no doubt, no naming."""
    info, meta_key = client.info(), f"zsched:{{{namespace}}}:meta"
    client.hset(meta_key, "server", f"{info['run_id']}{info['master_replid']}")
    client.hsetnx(meta_key, "gen", uuid.uuid4().hex)
