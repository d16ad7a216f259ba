"""
In which line of a TOML text a key stands, which tomllib does not tell.

For texts that tomllib has read: what it would refuse is not looked for. Tables and keys are found as statements; a
value is passed over as a whole, so what stands inside an inline table or an array has the line of its statement. A
line that is told is never a wrong one, only sometimes that of the table around.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final

Path = tuple[str, ...]

_TOKEN: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:'{0,2})'''  # texts over several lines
    r"""|"(?:\\.|[^"\\])*"|'[^']*'|\#[^\n]*|[\[\]{}=\n]|[^"'\#\[\]{}=\n]+""",
    re.DOTALL,
)


_BARE: Final = re.compile(r"[\w.-]+[ \t]*", re.ASCII)  # most names: no quotes, no spaces around the dots
_OPENING: Final = frozenset("[{")
_CLOSING: Final = frozenset("]}")


class Lines:
    """The lines of the tables and keys of *text*, which is valid TOML."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._said: set[Path] = set()  # with a statement of their own; others are only the beginning of a longer name
        self._find(text.replace("\r\n", "\n"))

    def of(self, *path: str) -> int:
        """The line of *path*, or else of the nearest table around it that has one."""
        return next((self._lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self._lines), 1)

    def _find(self, text: str) -> None:
        table: Path | None = ()  # None: one of several of a name, whose keys cannot be told apart
        line, first, name, depth, is_value = 1, 1, "", 0, False
        for match in _TOKEN.finditer(text + "\n"):
            token = match.group()
            if token == "\n" and depth == 0:
                if name.startswith("["):
                    path = _path(name.strip("[] \t"))
                    self._note(path, first)
                    table = None if name.startswith("[[") else path
                name, is_value = "", False
            elif is_value:
                depth += (token in _OPENING) - (token in _CLOSING)
            elif token == "=":
                if table is not None:
                    self._note((*table, *_path(name)), first)
                is_value = True
            elif not token.startswith("#"):
                first = first if name else line
                name += token if name else token.lstrip()
            line += token.count("\n")

    def _note(self, path: Path, line: int) -> None:
        if path not in self._said:
            self._lines[path] = line
            self._said.add(path)
        for end in range(1, len(path)):
            self._lines.setdefault(path[:end], line)


def _path(name: str) -> Path:
    """The parts of a dotted name: ``a."b.c"`` is a and b.c."""
    if _BARE.fullmatch(name):
        return tuple(name.strip().split("."))
    path: list[str] = []
    inner: object = tomllib.loads(f"{name} = 0")
    while isinstance(inner, dict):
        ((key, inner),) = inner.items()
        path.append(key)
    return tuple(path)
