"""The recording: which sites each test of the suite executes, what it costs, and if it passes. Kept below ``build``."""

import hashlib
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from tools.mutants.sites import function_of

_TABLES = """
CREATE TABLE IF NOT EXISTS sites (number INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS files (file TEXT PRIMARY KEY, digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tests (id TEXT PRIMARY KEY, file TEXT NOT NULL, cpu_s REAL, is_ok INTEGER, sites BLOB);
CREATE INDEX IF NOT EXISTS tests_of_a_file ON tests (file);
"""


IMPORT = "(import)"  # what the collection of the suite executes


@dataclass(frozen=True, slots=True)
class Known:
    """A test that passes: its id, its CPU seconds, and the number of its sites."""

    id: str
    cpu_s: float
    breadth: int


class Recording:
    """The file at *path*. A test file whose text has changed since is not recorded."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript(_TABLES)
        self._lock = Lock()
        self._numbers: dict[str, int] = dict(self._db.execute("SELECT key, number FROM sites").fetchall())

    def number(self, key: str) -> int:
        """Return the number of a site, a new one if necessary."""
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._db.execute("INSERT INTO sites VALUES (?, ?)", (self._numbers[key], key))
        return self._numbers[key]

    def in_one_step(self) -> sqlite3.Connection:
        """Return a context in which numbers are stored together."""
        self._db.execute("BEGIN")
        return self._db

    def missing(self, files: Iterable[str]) -> list[str]:
        """Return those of *files*, of tests, that are not recorded as they are now."""
        known = dict(self._db.execute("SELECT file, digest FROM files").fetchall())
        return [file for file in files if known.get(file) != digest_of(Path(file))]

    def keep(self, file: str, digest: str, reports: Iterable[dict[str, Any]]) -> None:
        """Store the reports of all tests of a file."""
        with self._lock, self.in_one_step():
            self._db.execute("DELETE FROM tests WHERE file = ?", (file,))
            for told in reports:
                row = told["test"], file, told["cpu_s"], not told["failed"], array("H", told["sites"]).tobytes()
                self._db.execute("INSERT OR REPLACE INTO tests VALUES (?, ?, ?, ?, ?)", row)
            self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", (file, digest))

    def load(self) -> None:
        """Read everything into memory, for ``covering``."""
        [blob] = self._db.execute("SELECT sites FROM tests WHERE id = ?", (IMPORT,)).fetchone() or [b""]
        executed = frozenset(array("H", blob))
        self.at_import = frozenset(key for key, number in self._numbers.items() if number in executed)
        self._tests: list[Known] = []
        self._of_site: dict[int, array[int]] = defaultdict(lambda: array("H"))
        self._of_function: dict[str, list[int]] = defaultdict(list)
        rows = self._db.execute("SELECT id, cpu_s, sites FROM tests WHERE is_ok ORDER BY id")
        for number, (id, cpu_s, blob) in enumerate(rows):
            found = array("H", blob)
            self._tests.append(Known(id, cpu_s, len(found)))
            for site in found:
                self._of_site[site].append(number)
        for key, site in self._numbers.items():
            self._of_function[function_of(key)].append(site)

    def covering(self, key: str) -> list[Known]:
        """
        Return the tests that execute the site *key*; of an unknown one, those that execute its function. A key that
        ends with "|" is that of a whole function.
        """
        numbers = [self._numbers[key]] if key in self._numbers else self._of_function[function_of(key)]
        return [self._tests[one] for one in sorted({one for number in numbers for one in self._of_site[number]})]

    def rarity(self, key: str) -> dict[str, int]:
        """
        Return how rare a statement each test executes in the function of *key*: the number of tests that execute its
        rarest one.
        """
        found: dict[str, int] = {}
        for site in self._of_function[function_of(key)]:
            tests = self._of_site[site]
            for test in tests:
                id = self._tests[test].id
                found[id] = min(found.get(id, len(tests)), len(tests))
        return found


def digest_of(file: Path) -> str:
    """Return a digest of the text of a test file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
