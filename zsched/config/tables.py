"""
Tables that each stand under a name of the user's: ``[queues.email]``, ``[urgency.digest]``; as many as there are names.

They are read from the file alone: a queue's name does not fit into a variable or a flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zsched.config.parsing import Parser, boolean, matching, number_within, one_of, suggest
from zsched.errors import ConfigError, show

_LONGEST_S: Final = 10 * 365 * 86_400.0  # of a span that an urgency may give


def _queue(given: object) -> str:
    """The name of an RQ queue, as ``core.arguments.check_queue`` has it."""
    if isinstance(given, str) and _is_queue(given):
        return given
    raise ValueError("write 1 to 128 printable characters without spaces, not beginning with -")


def _is_queue(name: str) -> bool:
    return (
        1 <= len(name.encode("utf-8", "replace")) <= 128
        and name.isprintable()
        and not any(c.isspace() for c in name)
        and not name.startswith("-")
        and not name.endswith(":intermediate")
    )


def _per_second(given: object) -> float:
    """A rate that lets something through within two weeks, and of which a script can count each run."""
    try:
        return float(number_within(1e-6, 1e6)(given))
    except ValueError:
        raise ValueError(
            "write a number above 0, at most 1000000: 100, or 0.5 for one every two seconds; to let nothing run, pause "
            "its schedules or stop its workers"
        ) from None


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """``[queues.<name>]``. ``max_per_second``: as many runs of schedules at most go into it, None for any number."""

    max_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables under one heading: what they may be named, and the keys of each."""

    heading: str
    name: Parser
    keys: Mapping[str, Parser]

    def read(self, file: Path, given: object) -> dict[str, dict[str, Any]]:
        """
        Read each table of *file*, by its name.

        Raises:
            ConfigError: a name or key that is none, a bad value, or no table at all.
        """
        if not isinstance(given, dict):
            raise ConfigError(f"{file}: {self.heading} is a heading: write [{self.heading}.<name>] and its keys below")
        return {self._named(file, name, table): self._values(file, name, table) for name, table in given.items()}

    def _named(self, file: Path, name: str, table: object) -> str:
        if not isinstance(table, dict):
            place = f"{file}: [{self.heading}] {name}={show(table)}"
            raise ConfigError(f"{place}: is in no table; write [{self.heading}.<name>] and its keys below")
        try:
            return str(self.name(name))
        except ValueError as error:
            raise ConfigError(f"{file}: [{self.heading}.{show(name)}]: no usable name; {error}") from None

    def _values(self, file: Path, name: str, table: Mapping[str, object]) -> dict[str, Any]:
        values = {}
        for key, value in table.items():
            place = f"{file}: [{self.heading}.{name}] {key}"
            if key not in self.keys:
                raise ConfigError(f"{place} is no setting; {suggest(key, self.keys)}")
            try:
                values[key] = self.keys[key](value)
            except ValueError as error:
                raise ConfigError(f"{place}={show(value)}: {error}") from None
        return values


QUEUES: Final = Tables("queues", _queue, {"max_per_second": _per_second})
URGENCY: Final = Tables(
    "urgency",
    matching(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", "write 1 to 64 of A-Z, a-z, 0-9, _ and -, not beginning with -"),
    {
        "priority": one_of("high", "normal", "low"),
        "at_front": boolean,
        "expires_after": number_within(0.001, _LONGEST_S),
        "jitter": number_within(0, _LONGEST_S),
    },
)
