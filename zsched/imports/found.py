"""Content of a source: future schedules, and refusals, each with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

ItemPlace = int | str  # the line of a file, or another name: a job's id, a registered function


class Origin(NamedTuple):
    """
    The place where a one-shot waits until it is moved: a ZSET of Redis, and its member, the id of RQ's job. In the last
    ``margin_ms`` before its time it is not moved, because another scheduler may take it; 0: none does.
    """

    key: str
    member: str
    margin_ms: int


@dataclass(frozen=True, slots=True)
class Item:
    """
    A future schedule. ``options``: options of ``client.schedule`` without id and owner. A one-shot has an
    ``origin`` and is moved; a recurring schedule stays at the source.
    """

    id: str
    place: ItemPlace
    func: str
    options: Mapping[str, Any]
    origin: Origin | None = None


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
