"""The campaign's Redis: a private server with files that can be copied, truncated and restored."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from zsched.embedded import EmbeddedRedis, Guard

SHIM_VARIABLE = "CAMPAIGN_CLOCK"  # path of what moves the clock of a server
_FILES = ("dump.rdb", "appendonly.aof", "appendonlydir")  # the last one since Redis 7
_MANIFEST = "file appendonly.aof.1.base.rdb seq 1 type b\n"


class Server(EmbeddedRedis):
    """
    A server with an append-only file and a loopback port. Files are changed only while it does not run.

    Rewriting the append-only file is off, so the file holds exactly the writes in their order. The server starts with
    no torn end of that file, for the reason in deploy/redis/redis.conf: ``redis-check-aof`` repairs it before.
    """

    def __init__(self, guard: Guard, config: Mapping[str, str] | None = None) -> None:
        wanted = {
            "appendfsync": "everysec",
            "aof-load-truncated": "no",
            "auto-aof-rewrite-percentage": "0",
            "repl-diskless-sync-delay": "0",
        }
        super().__init__(tcp=True, appendonly=True, config=wanted | dict(config or {}), guard=guard)

    def start(self) -> None:
        """Start the server; with a movable clock if there is one (``clocks.movable``)."""
        with pytest.MonkeyPatch.context() as environment:
            if shim := os.environ.get(SHIM_VARIABLE):
                environment.setenv("LD_PRELOAD", shim)
            super().start()

    def copy_files(self, target: Path) -> None:
        """Copy the files that the server would load at a start; *target* is replaced."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for name in _FILES:
            source = self.folder / name
            if source.is_dir():
                shutil.copytree(source, target / name)
            elif source.exists():
                shutil.copy(source, target / name)

    def put_files_back(self, source: Path) -> None:
        """Let the server load the files that ``copy_files`` copied at its next start."""
        self._remove_files()
        shutil.copytree(source, self.folder, dirs_exist_ok=True)
        self._mend_aof()  # it was copied while it was written

    def put_rdb_back(self, rdb: Path) -> None:
        """Let the server load the file that SAVE wrote at its next start: an append-only file may begin with an RDB."""
        self._remove_files()
        if self.server.release >= (7,):
            folder = self.folder / "appendonlydir"
            folder.mkdir()
            shutil.copy(rdb, folder / "appendonly.aof.1.base.rdb")
            (folder / "appendonly.aof.manifest").write_text(_MANIFEST)
        else:
            shutil.copy(rdb, self.folder / "appendonly.aof")

    def cut_aof(self, size: int) -> int:
        """Remove the last *size* bytes that were appended; return the number of bytes that could be removed."""
        [last] = self._last_aof()
        there = last.stat().st_size
        with last.open("r+b") as file:
            file.truncate(max(there - size, 0))
        self._mend_aof()
        return min(size, there)

    def _mend_aof(self) -> None:
        """
        Remove a torn end of the append-only file, back to before a MULTI without its EXEC. The tool gets the file
        itself: with the manifest, the tool of Valkey 9 does not recognise its own base file (valkey-io/valkey#4739).
        """
        tool = self.folder / "redis-check-aof"  # the server's binary is it, by that name
        tool.unlink(missing_ok=True)
        tool.symlink_to(self.server.path)
        for file in self._last_aof():
            mending = subprocess.run([tool, "--fix", file], input=b"y\n", capture_output=True, check=False)
            assert mending.returncode == 0, (mending.stdout + mending.stderr).decode(errors="replace")

    def _last_aof(self) -> list[Path]:
        """Return the file that was appended to last, if there is one."""
        parts = [*self.folder.glob("appendonlydir/*.incr.aof"), *self.folder.glob("appendonly.aof")]
        return sorted(parts, key=lambda path: path.stat().st_mtime_ns)[-1:]

    def _remove_files(self) -> None:
        for name in _FILES:
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
