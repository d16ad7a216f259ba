"""A copy of the project in which mutants are tried, so that no editor and no other test sees one."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.mutants.hits import SIZE
from tools.mutants.sites import lua_key, plant

_LONG_AGO_S = 1_000_000_000  # each text of a file gets a time of its own, or Python would take another one's bytecode
_INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)
_LUA = "zsched/lua"


class Tree:
    """All files that git knows, in the folder ``tree`` of *place*."""

    def __init__(self, place: Path) -> None:
        self.place, self.root, self._writes = place, place / "tree", 0
        listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], check=True, capture_output=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if Path(name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(name, self.root / name)

    @contextmanager
    def holding(self, file: str, text: bytes) -> Iterator[None]:
        """Give *file* the contents *text* inside the block."""
        original = (self.root / file).read_bytes()
        self._write(file, text)
        try:
            yield
        finally:
            self._write(file, original)

    def read(self, file: str) -> str:
        """Return the text of *file*."""
        return (self.root / file).read_text()

    def plant(self, number: Callable[[str], int]) -> None:
        """Let all processes note what they execute of zsched. *number* returns the number of a site's key."""
        for path in sorted((self.root / "zsched").rglob("*.py")):
            plant(self.root, str(path.relative_to(self.root)), number)
        files = {str(path.relative_to(self.root / _LUA)) for path in (self.root / _LUA).rglob("*.lua")}
        numbers = {
            file: [number(lua_key(f"{_LUA}/{each}")) for each in sorted(self._with_includes(file))] for file in files
        }
        (self.place / "scripts.json").write_text(json.dumps(numbers))
        (self.place / "seen").write_bytes(bytes(SIZE))

    def clean(self) -> None:
        """Take that back."""
        for folder in (self.root / "zsched").rglob("__pycache__"):
            shutil.rmtree(folder)
        (self.place / "seen").unlink()

    def _with_includes(self, file: str) -> set[str]:
        found, rest = set[str](), [file]
        while rest:
            found.add(one := rest.pop())
            rest += (each for each in _INCLUDE.findall((self.root / _LUA / one).read_text()) if each not in found)
        return found

    def _write(self, file: str, text: bytes) -> None:
        path = self.root / file
        self._writes += 1
        path.write_bytes(text)
        os.utime(path, (_LONG_AGO_S + self._writes, _LONG_AGO_S + self._writes))
