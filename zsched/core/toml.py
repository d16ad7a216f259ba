"""
Write values as TOML text, each on one line; and find the lines of keys in a text, which tomllib does not return.

This is not tomli-w, which writes every dict as a table below the entry, spreads every list over several lines, and
cannot write comments. One line per option looks like the example file and gives a diff of one line. Every text is read
back before it is returned. So a value that TOML or this module cannot express is an error, never another value.

``Lines`` are for texts that tomllib has accepted; they detect no errors. Tables and keys are found as statements. A
value is skipped as a whole, so a key inside an inline table or an array has the line of its statement. A line is never
wrong; it may be the line of the table around the key.
"""

import json
import re
import tomllib
from collections.abc import Callable
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

_TOKEN: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:'{0,2})'''  # texts over several lines
    r"""|"(?:\\.|[^"\\])*"|'[^']*'|\#[^\n]*|[\[\]{}=\n]|[^"'\#\[\]{}=\n]+""",
    re.DOTALL,
)


_BARE_NAMES: Final = re.compile(r"[\w.-]+[ \t]*", re.ASCII)  # most names: no quotes, no spaces around the dots
_OPENING: Final = frozenset("[{")
_CLOSING: Final = frozenset("]}")


class Lines:
    """The lines of tables and keys in *text*, which is valid TOML."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._stated: set[Path] = set()  # paths with their own statement; others are only prefixes of longer names
        self._find(text.replace("\r\n", "\n"))

    def of(self, *path: str) -> int:
        """Return the line of *path*, or of the nearest table around it that has a line."""
        return next((self._lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self._lines), 1)

    def _find(self, text: str) -> None:
        table: Path | None = ()  # None: one of several tables with the same name; their keys cannot be distinguished
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
    """Return the parts of a dotted name: ``a."b.c"`` is a and b.c."""
    if _BARE_NAMES.fullmatch(name):
        return tuple(name.strip().split("."))
    path: list[str] = []
    inner: object = tomllib.loads(f"{name} = 0")
    while isinstance(inner, dict):
        ((key, inner),) = inner.items()
        path.append(key)
    return tuple(path)
