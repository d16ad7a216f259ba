"""
Parsers of configuration values, one per kind, and of user-named tables.

A parser takes a value of TOML, or a string from the environment or a flag, and returns the setting's value. A
ValueError has the problem and the remedy. :func:`setting` binds a default and its parser to a field of a settings
dataclass.

User-named tables, such as ``[queues.email]`` and ``[urgency.digest]``, are read only from the file: a queue's name does
not fit into a variable or a flag.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final

from zsched.config.bounds import FILTERS, TOLD
from zsched.config.urls import LABEL, shown
from zsched.core.options.arguments import is_queue_name
from zsched.core.options.choices import Priority
from zsched.core.wording import nearest
from zsched.errors import ConfigError, show

Parser = Callable[[object], Any]

_TRUE, _FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off"}


def setting(default: Any, parse: Parser, *, repr: bool = True) -> Any:
    """Make a dataclass field with its default and its parser. (Any: as ``dataclasses.field``.)"""
    return field(default=default, repr=repr, metadata={"parse": parse})


def suggest(name: str, known: Iterable[str]) -> str:
    """Suggest known names that are similar to *name*, for a message."""
    names = list(known)
    return f"did you mean {near}?" if (near := nearest(name, names)) else f"there are: {', '.join(names)}"


def integer(low: int, high: int) -> Parser:
    """Return a parser for a whole number from *low* to *high*."""

    def parse(given: object) -> int:
        if isinstance(given, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", given.strip()):
            given = int(given)
        if isinstance(given, int) and not isinstance(given, bool) and low <= given <= high:
            return given
        raise ValueError(f"write a whole number from {low} to {high}")

    return parse


def number_within(low: float, high: float, remedy: str = "") -> Parser:
    """Return a parser for a finite number from *low* to *high*. *remedy*: for any other value."""

    def parse(given: object) -> float:
        if isinstance(given, int | float | str) and not isinstance(given, bool):
            with suppress(ValueError, OverflowError):
                if low <= (value := float(given)) <= high:  # false for NaN
                    return value
        raise ValueError(remedy or f"write a number from {low:g} to {high:g}")

    return parse


def boolean(given: object) -> bool:
    """Parse true or false; in the environment also 1/0, yes/no, on/off."""
    if isinstance(given, bool):
        return given
    if isinstance(given, str) and given.strip().lower() in _TRUE | _FALSE:
        return given.strip().lower() in _TRUE
    raise ValueError("write true or false")


def text_if(is_good: Callable[[str], object], remedy: str) -> Parser:
    """Return a parser for a text for which *is_good* is true. *remedy*: for any other value."""

    def parse(given: object) -> str:
        if isinstance(given, str) and is_good(given):
            return given
        raise ValueError(remedy)

    return parse


def one_of(*allowed: str) -> Parser:
    """Return a parser for one of the words *allowed*."""
    return text_if(allowed.__contains__, f"write one of: {', '.join(allowed)}")


def matching(pattern: str, remedy: str) -> Parser:
    """Return a parser for a text that matches *pattern* completely."""
    return text_if(re.compile(pattern).fullmatch, remedy)


def line(most: int) -> Parser:
    """Return a parser for a line of 1 to *most* printable characters."""
    remedy = f"write 1 to {most} printable characters, in one line"
    return text_if(lambda given: 1 <= len(given) <= most and given.isprintable(), remedy)


def words(given: object) -> tuple[str, ...]:
    """Parse a TOML list of strings, or words with commas between; at least one, none empty."""
    parts = [part.strip() for part in given.split(",")] if isinstance(given, str) else given
    if isinstance(parts, list | tuple) and parts and all(isinstance(part, str) and part for part in parts):
        return tuple(parts)
    raise ValueError('write a list of words: ["a", "b"] in a file, a,b elsewhere')


def words_among(*allowed: str) -> Parser:
    """Return a parser for ``words`` that are all of *allowed*."""
    is_one = one_of(*allowed)
    return lambda given: tuple(map(is_one, words(given)))


def any_words(given: object) -> tuple[str, ...]:
    """Parse ``words``; there may be none."""
    return () if given in ("", [], ()) else words(given)


def addresses(read: Callable[[str], object]) -> Callable[[object], tuple[str, ...]]:
    """Return a parser for a TOML list of addresses for *read*, or addresses with commas between; may be empty."""

    def parse(given: object) -> tuple[str, ...]:
        found = any_words(given)
        for each in found:
            read(each)
        return found

    return parse


def network(text: str) -> IPv4Network | IPv6Network:
    """Parse an IP address, as a network of its own, or a network."""
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError(f"{show(text)} is not an IP address or network; write 10.0.0.5 or 10.0.0.0/24") from None


def listen_address(given: object) -> str:
    """Parse ``host:port`` or ``[IPv6]:port`` to listen at; port 0 is any free port."""
    if isinstance(given, str):
        host, _, port = given.rpartition(":")
        is_host = re.fullmatch(rf"{LABEL}(\.{LABEL})*\.?|\[[0-9A-Fa-f:.]+(%\w+)?\]", host)
        if is_host and re.fullmatch(r"[0-9]{1,5}", port) and int(port) < 65536:
            return given
    raise ValueError("write host:port, 127.0.0.1:8080 or [::1]:8080")


def listen_parts(listen: str) -> tuple[str, int]:
    """Return host and port of a checked address to listen at."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def path(given: object) -> str:
    """Parse a path of a file; ``~`` is this user's home."""
    if isinstance(given, str) and given and "\0" not in given:
        whole = os.path.expanduser(given)
        if whole.startswith("~"):
            raise ValueError("this machine has no such home directory; write the whole path, or ./~ for such a name")
        return whole
    raise ValueError("write the path of a file")


@dataclass(frozen=True, slots=True)
class RawValue:
    """A value of a setting before it is parsed, and its place for messages."""

    place: str
    value: object

    def error(self, problem: str) -> ConfigError:
        """Return the error for this value."""
        return ConfigError(f"{self.place}={shown(self.value)}: {problem}")

    def parsed(self, parse: Parser) -> Any:
        """Return the setting's value. Raises ConfigError."""
        try:
            return parse(self.value)
        except ValueError as error:
            raise self.error(str(error)) from None


# -- user-named tables ------------------------------------------------------------------------------


_LONGEST_S: Final = 10 * 365 * 86_400.0  # longest span in an urgency


@dataclass(frozen=True, slots=True)
class Tables:
    """
    The tables under one heading: their valid names, and the keys of each. *check*: of a table's values together; it
    raises ValueError.
    """

    heading: str
    name: Parser
    keys: Mapping[str, Parser]
    check: Callable[[Mapping[str, Any]], None] = lambda values: None

    def read(self, file: Path, given: object) -> dict[str, dict[str, Any]]:
        """
        Read each table of *file*, by its name.

        Raises:
            ConfigError: an invalid name or key, a bad value, or not a table.
        """
        if not isinstance(given, dict):
            raise ConfigError(f"{file}: {self.heading} is a heading: write [{self.heading}.<name>] and its keys below")
        return {self._named(file, name, table): self._values(file, name, table) for name, table in given.items()}

    def _named(self, file: Path, name: str, table: object) -> str:
        if not isinstance(table, dict):
            place = f"{file}: [{self.heading}] {name}={show(table)}"
            raise ConfigError(f"{place}: is outside of a table; write [{self.heading}.<name>] and its keys below")
        try:
            return str(self.name(name))
        except ValueError as error:
            raise ConfigError(f"{file}: [{self.heading}.{show(name)}]: not a usable name; {error}") from None

    def _values(self, file: Path, name: str, table: Mapping[str, object]) -> dict[str, Any]:
        values = {}
        for key, value in table.items():
            place = f"{file}: [{self.heading}.{name}] {key}"
            if key not in self.keys:
                raise ConfigError(f"{place} is not a setting; {suggest(key, self.keys)}")
            values[key] = RawValue(place, value).parsed(self.keys[key])
        try:
            self.check(values)
        except ValueError as error:
            raise ConfigError(f"{file}: [{self.heading}.{name}]: {error}") from None
        return values


QUEUES: Final = Tables(
    "queues",
    text_if(is_queue_name, "write 1 to 128 printable characters without spaces, not beginning with -"),
    {
        # Most runs of schedules that go into the queue. The lowest rate allows a run within two weeks; at the highest
        # a script can still count each run.
        "max_per_second": number_within(
            1e-6,
            1e6,
            "write a number above 0, at most 1000000: 100, or 0.5 for one every two seconds; to let nothing run, pause "
            "its schedules or stop its workers",
        )
    },
)
_WORD: Final = matching(
    r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", "write 1 to 64 of A-Z, a-z, 0-9, _ and -, not beginning with -"
)
URGENCY: Final = Tables(
    "urgency",
    _WORD,
    {
        "priority": one_of(*(lane.value for lane in Priority)),
        "at_front": boolean,
        "expires_after": number_within(0.001, _LONGEST_S),
        "jitter": number_within(0, _LONGEST_S),
    },
)
_OF_SINKS: Final = {  # by kind: its keys besides kind, url, url_file and every_s
    "webhook": {"on", "secret_file", *FILTERS},
    "slack": {"on", *FILTERS},
    "email": {"on", "to", "from", "secret_file", *FILTERS},
    "sentry": {"on", "monitors", "secret_file", *FILTERS},
    "ping": {"monitors", "secret_file", *FILTERS},
}
_URL: Final = matching(r"(https?|smtps?)://\S+", "write a URL: https://host/path, or smtp://user@host:587 for mails")


def _check_sink(values: Mapping[str, Any]) -> None:
    """Check the keys of a sink together. Raises ValueError."""
    kind = values.get("kind")
    if kind is None:
        raise ValueError(f"its kind is missing; write kind = one of: {', '.join(_OF_SINKS)}")
    for key in values.keys() - {"kind", "url", "url_file", "every_s"} - _OF_SINKS[kind]:
        raise ValueError(f"{key} is not a setting of the kind {kind}; remove it")
    if ("url" in values) == ("url_file" in values):
        raise ValueError("it needs one of url and url_file, a file with the URL if that is a secret")
    if kind == "email" and "to" not in values:
        raise ValueError('it has nobody to write to; write to = ["on-call@example.com"]')


NOTIFY: Final = Tables(
    "notify",
    _WORD,
    {
        "kind": one_of(*_OF_SINKS),
        "url": _URL,
        "url_file": path,
        "secret_file": path,
        "every_s": number_within(0.1, 86_400),
        "on": words_among(*TOLD),
        "to": words,
        "from": line(200),
        "monitors": _URL,
        **dict.fromkeys(FILTERS, words),
    },
    _check_sink,
)
