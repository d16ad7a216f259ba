"""
Write values as TOML text, each on one line; and find the lines of keys in a text, which tomllib does not return.

This is not tomli-w, which writes every dict as a table below the entry, spreads every list over several lines, and
cannot write comments. One line per option looks like the example file and gives a diff of one line. Every text is read
back before it is returned. So a value that TOML or this module cannot express is an error, never another value.

``Lines`` are for texts that tomllib has accepted; they detect no errors. It reads each statement once more, alone. So a
key inside an inline table or an array has the line of its statement. A line is never wrong; it may be the line of the
table around the key.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime, time
from functools import partial
from typing import Any, Final

from zsched.core.options.revision import is_same

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def key_text(name: str) -> str:
    """Return a key, in quotes if it needs them."""
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def toml_text(value: Any) -> str:
    """
    Return *value* in TOML.

    Raises:
        ValueError: TOML cannot express it; the message names the part.
    """
    return _read_back("TOML", value, _text, lambda text: tomllib.loads(f"value = {text}")["value"])


def json_text(value: Any) -> str:
    """
    Return *value* as a TOML string of JSON.

    Raises:
        ValueError: JSON cannot express it either; the message names the part.
    """
    text = _read_back("JSON", value, partial(json.dumps, allow_nan=False), json.loads)
    return toml_text(text) if "'" in text else f"'{text}'"  # ASCII without control characters, as json writes it


def _read_back(language: str, value: Any, write: Callable[[Any], str], read: Callable[[str], Any]) -> str:
    try:
        text = write(value)
        text.encode()
        found = read(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{language} cannot say it: {error}") from None
    if not is_same(found, value):
        raise ValueError(f"{language} would make {found!r} of it"[:200])
    return text


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
    """Return a basic string, with JSON's escapes, and TOML's for other characters that are not printable."""
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in json.dumps(text, ensure_ascii=False))


# -- lines ------------------------------------------------------------------------------------------


Path = tuple[str, ...]

_MAY_END: Final = re.compile(r"""(?:[]}]|\"{3}|'{3})\s*(?:#|$)""")  # in the last line of a value over several lines


class Lines:
    """The lines of tables and keys in *text*, which is valid TOML."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._stated: set[Path] = set()  # paths with their own statement; others are only prefixes of longer names
        table: Path | None = ()  # None: one of several tables with the same name; their keys cannot be distinguished
        for line, statement, found in _statements(text):
            if statement.startswith("["):
                table = _path(found)
                self._note(table, line)
                table = None if statement.startswith("[[") else table
            elif table is not None:
                self._note((*table, *_path(found)), line)

    def of(self, *path: str) -> int:
        """Return the line of *path*, or of the nearest table around it that has a line."""
        return next((self._lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self._lines), 1)

    def _note(self, path: Path, line: int) -> None:
        if path not in self._stated:
            self._lines[path] = line
            self._stated.add(path)
        for end in range(1, len(path)):
            self._lines.setdefault(path[:end], line)


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield each statement of valid TOML: its first line, its text, and its value as if it stood alone."""
    lines: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        lines.append(line)
        if len(lines) > 1 and not _MAY_END.search(line):
            continue
        statement = "\n".join(lines)
        with suppress(tomllib.TOMLDecodeError):  # it goes on in the next line
            if found := tomllib.loads(statement):
                yield number + 1 - len(lines), statement.lstrip(), found
            lines = []


def _path(inner: object) -> Path:
    """Return the keys down to the value of a statement: ``a."b.c" = 0`` is a and b.c."""
    path: list[str] = []
    while isinstance(inner, dict) and len(inner) == 1:
        ((key, inner),) = inner.items()
        path.append(key)
    return tuple(path)
