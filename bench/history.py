"""
A long history for a row of the benchmark: synthetic entries, written into an archive without a daemon.

After them comes the log of the row's own Redis, so a daemon opens that file and follows on.
"""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bench.arena import Arena, Ground
from zsched.archive import START, Archive
from zsched.archive.places import paths_for
from zsched.config.urls import address_of
from zsched.core.entry import Entry
from zsched.storage.log import Log

_AT_ONCE = 20_000  # entries in one transaction, at most
_INDEX_MS = 1000.0  # of building the index of prefixes, per step


def archive_path(ground: Ground, state: Path) -> Path:
    """The archive that a daemon with its files in *state* opens for *ground*."""
    return paths_for("default", None, address_of(ground.url), {"STATE_DIRECTORY": str(state)})[0]


def log_of(ground: Ground) -> list[Entry]:
    """All entries of the log in Redis."""
    with ground.wire() as wire:
        return list(Log(wire, ground.keys).entries())


def write_archive(
    arena: Arena, path: Path, entries: Iterator[Entry], count: int, log: list[Entry], at_once: int = _AT_ONCE
) -> None:
    """
    Write *count* entries, positions of epoch 0, then *log*, whose epoch is later; index them all.

    Entries with many rows need a smaller *at_once*, the number in one transaction.
    """
    archive = Archive(path, "default")
    try:
        archive.begin_bootstrap()
        archive.end_bootstrap(START)
        for start in range(0, count, at_once):
            if start % (50 * at_once) == 0:
                arena.say(f"{start:,} of {count:,} entries written")
            archive.append(islice(entries, at_once))
            archive.commit()
            archive.index_step(_INDEX_MS, arena.clock)
        archive.append(log)
        archive.commit()
        archive.index_step(_INDEX_MS, arena.clock)
    finally:
        archive.close()


def drop_from_cache(path: Path) -> None:
    """Drop the file from the system's page cache: posix_fadvise(2)."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
