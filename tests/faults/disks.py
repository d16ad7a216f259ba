"""Disks that a test can fill, for one daemon."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

_NO_LIMIT = resource.RLIM_INFINITY


class Disk(Protocol):
    """
    The disk with an archive's folder. ``fill``: no more than a few KiB fit, for the process *pid*; ``free``: all fits.
    """

    folder: Path

    def fill(self, pid: int) -> None: ...

    def free(self, pid: int) -> None: ...


class LimitedFiles:
    """A folder in which a process may write nothing: RLIMIT_FSIZE, which SQLite reports as an I/O error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, _NO_LIMIT))

    def free(self, pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (_NO_LIMIT, _NO_LIMIT))


class SmallDisk:
    """A separate file system, a tmpfs, which a file of the test fills to its last page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, pid: int) -> None:
        with (self.folder / "filler").open("ab", buffering=0) as filler:
            try:
                while filler.write(b"\xaa" * 4096):
                    pass
            except OSError:  # full
                return

    def make_read_only(self) -> None:
        """
        Make the disk read-only, as after an error of the device. No process may have a file of it open for writing.
        """
        assert _mount("remount,ro", self.folder) == 0

    def free(self, pid: int) -> None:
        assert _mount("remount,rw,size=256m", self.folder) == 0
        (self.folder / "filler").unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[SmallDisk | None]:
    """Mount a disk of *size*, as ``mount`` takes it; yield None if this user may not mount."""
    folder.mkdir()
    if os.geteuid() != 0 or _mount(f"size={size}", folder) != 0:
        yield None
        return
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(options: str, folder: Path) -> int:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode
