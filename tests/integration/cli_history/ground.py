"""``zsched why``, ``history`` and ``log``: a command line without access to an archive file, and a daemon with one."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis

from tests.faults.processes import WITHIN_S, eventually
from tests.faults.threads import DaemonThread
from tests.integration import command_line
from tests.prefix import RQ
from zsched.config.settings import ArchiveSettings
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

KEYS = Keys("default")
FUNC = "zsched.demo.tasks.heartbeat"
NO_ANSWER = "no archive reported within 30 s"
ASKING = (  # the command line, which waits for an archive's answer however busy the machine is, with PATIENCE
    f"import sys; from zsched.storage import questions; questions.WAIT_S = {WITHIN_S};"
    "from zsched.cli import main; sys.exit(main())"
)
PATIENCE = {"ZSCHED_REDIS_TIMEOUT_S": f"{2 * WITHIN_S}"}
ALONE = r"from Redis alone, whose log goes back to 20\d\d-\d\d-\d\d .*\+00:00"


class Zsched(command_line.Zsched):
    """A command line whose configured archive path does not exist."""

    def __init__(self, url: str) -> None:
        super().__init__(url, ZSCHED_ARCHIVE_PATH="/nonexistent/archive.db", **PATIENCE)

    def story(self, id: str) -> list[str]:
        """Return the texts of the story of *id*, and the verdict."""
        told = self.json("why", id)
        assert told["source"]["archive"] is not None, told["source"]["problem"]
        return [line["text"] for line in told["story"]] + [f"{told['verdict']['word']}: {told['verdict']['text']}"]


class Leading:
    """A daemon that leads inside the block, with an archive that follows."""

    def __init__(self, url: str, path: Path, **archive: Any) -> None:
        settings = ArchiveSettings(path=str(path), **archive)
        self._url, self._daemon = url, DaemonThread(url, archive=settings)

    def __enter__(self) -> DaemonThread:
        with ExitStack() as stack:
            daemon = stack.enter_context(self._daemon)
            daemon.wait_for("term_began")
            link = Link.from_url(self._url, WITHIN_S)
            stack.callback(link.pool.disconnect)
            eventually(Archivers(link, KEYS).alive)
            self._running = stack.pop_all()
        return daemon

    def __exit__(self, *raised: Any) -> None:
        self._running.__exit__(*raised)


def queued(redis_client: redis.Redis, number: int = 1) -> None:
    """Wait until *number* runs are queued."""
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default") >= number)
