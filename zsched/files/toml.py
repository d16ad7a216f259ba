"""
Values as TOML text, each on one line; and in which line of a text a key stands, which tomllib does not tell.

Written by hand, not by tomli-w: that puts every dict into a table of its own below the entry and every list over
several lines, and cannot write comments; one line per option reads like the example and makes a diff of one line. Every
text is read back before it is given out, so what TOML or this module cannot say is an error, never another value.

``Lines`` are for texts that tomllib has read: what it would refuse is not looked for. Tables and keys are found as
statements; a value is passed over as a whole, so what stands inside an inline table or an array has the line of its
statement. A line that is told is never a wrong one, only sometimes that of the table around.
"""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date, datetime, time
from typing import Any, Final

from zsched.core.revision import is_same

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def key_text(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def toml_text(value: Any) -> str:
    """
    *value* in TOML.

    Raises:
        ValueError: TOML cannot say it; the message names what.
    """
    try:
        text = _text(value)
        text.encode()
        read = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"TOML cannot say it: {error}") from None
    if not is_same(read, value):
        raise ValueError(f"TOML would make {read!r} of it"[:200])
    return text


def json_text(value: Any) -> str:
    """
    *value* as a TOML string of JSON.

    Raises:
        ValueError: JSON cannot say it either; the message names what.
    """
    try:
        text = json.dumps(value, allow_nan=False)
        read = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"JSON cannot say it: {error}") from None
    if not is_same(read, value):
        raise ValueError(f"JSON would make {read!r} of it"[:200])
    return toml_text(text) if "'" in text else f"'{text}'"  # ASCII without control characters, as json writes it


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        inner = ", ".join(f"{key_text(key)} = {_text(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    raise ValueError(f"it has no {type(value).__name__}")


def _string(text: str) -> str:
    """A basic string: its escapes are JSON's, and DEL, which JSON leaves alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# -- lines ------------------------------------------------------------------------------------------


Path = tuple[str, ...]

_TOKEN: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:'{0,2})'''  # texts over several lines
    r"""|"(?:\\.|[^"\\])*"|'[^']*'|\#[^\n]*|[\[\]{}=\n]|[^"'\#\[\]{}=\n]+""",
    re.DOTALL,
)


_BARE_NAMES: Final = re.compile(r"[\w.-]+[ \t]*", re.ASCII)  # most names: no quotes, no spaces around the dots
_OPENING: Final = frozenset("[{")
_CLOSING: Final = frozenset("]}")


class Lines:
    """The lines of the tables and keys of *text*, which is valid TOML."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._stated: set[Path] = set()  # with a statement of their own; others are only the beginning of a longer name
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
        if path not in self._stated:
            self._lines[path] = line
            self._stated.add(path)
        for end in range(1, len(path)):
            self._lines.setdefault(path[:end], line)


def _path(name: str) -> Path:
    """The parts of a dotted name: ``a."b.c"`` is a and b.c."""
    if _BARE_NAMES.fullmatch(name):
        return tuple(name.strip().split("."))
    path: list[str] = []
    inner: object = tomllib.loads(f"{name} = 0")
    while isinstance(inner, dict):
        ((key, inner),) = inner.items()
        path.append(key)
    return tuple(path)
