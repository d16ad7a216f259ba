"""Content of a source: future schedules, and refusals, each with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zsched.core.clock import to_ms

ItemPlace = int | str  # the line of a file, or another name: a job's id, a registered function


@dataclass(frozen=True, slots=True)
class Item:
    """A future schedule. ``options``: options of ``client.schedule`` without id and owner. It stays at the source."""

    id: str
    place: ItemPlace
    func: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OneShot(Item):
    """
    RQ's job ``id``, which waits in the ZSET ``waiting_key`` until it is moved. In the last ``margin_ms`` before its
    time it is not moved, because another scheduler may take it; 0: none does.
    """

    waiting_key: str
    margin_ms: int = 0

    @property
    def due_ms(self) -> int:
        """Return its time."""
        return to_ms(self.options["at"])


class Refusal(NamedTuple):
    """A refused line or job. ``what``: its text at the source; ``problem`` includes the remedy."""

    source: str
    place: ItemPlace
    what: str
    problem: str

    def text(self) -> str:
        """Return a line for people, in the form of compilers."""
        return f"{self.source}:{self.place}: {self.problem}"


@dataclass(slots=True)
class ImportSource:
    """The content of one source. ``owner`` is that of its schedules; ``remarks`` are for people."""

    name: str
    owner: str
    items: list[Item] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def refuse(self, place: ItemPlace, what: str, problem: str) -> None:
        """Note that *what* cannot be imported; *problem* is the reason and the remedy."""
        self.refusals.append(Refusal(self.name, place, what, problem))
