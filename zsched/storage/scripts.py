"""
Loads ``zsched/lua``: resolves includes, reads each header, and calls scripts by name.

A script's header is its contract::

    -- KEYS   meta log wake          names of functions in keys.py
    -- ARGV   token limit            fixed arguments, in this order
    --        ...                    then any number of rows

Python gives arguments by keyword and this module orders them, so neither side counts. Replies begin
with a word: OK, or one that says why not; ``checked`` raises those of the fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Protocol

import redis

from zsched.core.log import FORMAT, text
from zsched.errors import NewerFormat, OlderFormat, OtherFormat, ServerChanged, Stale, ZschedError
from zsched.storage.keys import Keys
from zsched.storage.meta import garbled

_INCLUDE = re.compile(r"^-- include (\S+)\n", re.MULTILINE)
_SECTION = re.compile(r"^-- (KEYS|ARGV)\s+(.*(?:\n--\s{8}.*)*)", re.MULTILINE)
_NAME = re.compile(r"[a-z_]+")
_PER_CALL = ("schedule", "template", "op")  # keys that need an id besides the namespace


@dataclass(frozen=True, slots=True)
class Script:
    """One verb: its complete Lua text and its header's names in order."""

    name: str
    text: str
    keys: tuple[str, ...]
    argv: tuple[str, ...]


@cache
def load(name: str) -> Script:
    """
    The script ``zsched/lua/<name>.lua`` with its includes.

    Raises:
        ZschedError: an include is circular or used twice.
    """
    source = _read(f"{name}.lua")
    sections = dict(_SECTION.findall(source))
    text = _expand(source, f"{name}.lua", [])
    return Script(name, text, _names(sections.get("KEYS", "")), _names(sections.get("ARGV", "")))


class Channel(Protocol):
    """A ``Link`` or a ``Wire``."""

    def execute(self, *command: Any) -> Any:
        """The reply to *command*."""


class Scripts:
    """The scripts of one namespace over one channel."""

    def __init__(self, channel: Channel, keys: Keys) -> None:
        self._channel, self._keys = channel, keys
        self._sha: dict[str, str] = {}

    def call(self, name: str, *, rows: Iterable[Any] = (), **arguments: Any) -> list[Any]:
        """
        Run script *name* and return its reply without the leading OK, or with its word.

        Raises:
            Stale: the lease is not this term's.
            ServerChanged: the Redis is not the one that the term was won on.
            NewerFormat, OlderFormat: another zsched keeps the namespace in a form that this one does not know.
            Garbled: meta holds what is no number.
            RedisUnavailable, RedisRefused: as ``Link.execute``.
        """
        parts = self.command(name, rows, arguments)
        try:
            reply = self._channel.execute(*parts)
        except redis.exceptions.NoScriptError:
            self.ensure(name)
            reply = self._channel.execute(*parts)
        return checked(reply, self._keys)

    def command(self, name: str, rows: Iterable[Any], arguments: dict[str, Any]) -> list[Any]:
        """The EVALSHA command with keys and arguments in the header's order."""
        script = load(name)
        keys = [self._key(key, arguments) for key in script.keys]
        argv = [self._argument(argument, arguments) for argument in script.argv]
        return ["EVALSHA", self._sha.get(name) or self.ensure(name), len(keys), *keys, *argv, *rows]

    def ensure(self, name: str) -> str:
        """Make the server know script *name*; returns its SHA1. Needed before a pipeline of EVALSHA."""
        self._sha[name] = self._channel.execute("SCRIPT", "LOAD", load(name).text).decode()
        return self._sha[name]

    def _key(self, name: str, arguments: dict[str, Any]) -> str:
        function = getattr(self._keys, name)
        key: str = function(arguments["id" if name != "op" else "op"]) if name in _PER_CALL else function()
        return key

    def _argument(self, name: str, arguments: dict[str, Any]) -> Any:
        if name in ("schedule_prefix", "template_prefix"):
            return getattr(self._keys, name)()
        return self._keys.run_suffix if name == "run_suffix" else arguments[name]


def checked(reply: list[Any], keys: Keys) -> list[Any]:
    """*reply* with its first word decoded; OK is dropped, the words of the fence and of lib/meta.lua are raised."""
    word = reply[0].decode() if isinstance(reply[0], bytes) else str(reply[0])
    if word == "STALE":
        raise Stale("the lease is held by another daemon, or lapsed")
    if word == "SERVER":
        raise ServerChanged("this Redis is not the one on which the term began")
    if word == "FORMAT":
        raise unknown_format(keys, int(reply[1]))
    if word == "GARBLED":
        raise garbled(keys, text(reply[1]), reply[2])
    return reply[1:] if word == "OK" else [word, *reply[1:]]


def unknown_format(keys: Keys, theirs: int) -> OtherFormat:
    """What is to be said where another zsched keeps the format *theirs*."""
    if theirs > FORMAT:
        return NewerFormat(
            f"a newer zsched keeps this namespace in format {theirs}, and this one knows {FORMAT}: upgrade zsched here"
        )
    return OlderFormat(
        f"an older zsched kept this namespace in format {theirs}, and this one knows {FORMAT}: give another namespace, "
        f"or remove the keys {keys.prefix}* and schedule again"
    )


def _read(path: str) -> str:
    return (resources.files("zsched") / "lua" / path).read_text(encoding="utf-8")


def _expand(source: str, name: str, seen: list[str]) -> str:
    def include(found: re.Match[str]) -> str:
        path = found[1]
        if path in seen:
            raise ZschedError(f"{name} includes {path} a second time; each piece once, and no cycles")
        seen.append(path)
        return _expand(_read(path), path, seen)

    return _INCLUDE.sub(include, source)


def _names(section: str) -> tuple[str, ...]:
    """
    The names that a header's section lists.

    A line begins with one or more names; two spaces end them and begin the explanation.
    """
    names: list[str] = []
    for line in section.splitlines():
        listed = re.split(r"\s{2,}", line.removeprefix("--").strip(), maxsplit=1)[0]
        if listed.startswith("..."):
            break
        names += listed.split() if all(_NAME.fullmatch(word) for word in listed.split()) else []
    return tuple(names)
