"""Content of a source: future schedules, and refusals, each with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Place = int | str  # the line of a file, or what names the thing elsewhere: a job's id, a registered function


class Origin(NamedTuple):
    """
    The place where a one-shot waits until it is moved: a ZSET of Redis, and its member, the id of RQ's job. Within
    ``margin_ms`` of its time it is not moved any more, as somebody may be taking it; 0: nobody does.
    """

    key: str
    member: str
    margin_ms: int


@dataclass(frozen=True, slots=True)
class Item:
    """
    A schedule to be. ``options`` are those of ``client.schedule`` without id and managed_by. A one-shot has an
    ``origin`` and is moved; what recurs stays where it was found.
    """

    id: str
    place: Place
    func: str
    options: Mapping[str, Any]
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that does not become a schedule. ``what`` is how it stood there, ``problem`` has the remedy with it."""

    source: str
    place: Place
    what: str
    problem: str

    def text(self) -> str:
        """The line for people, as compilers write theirs."""
        return f"{self.source}:{self.place}: {self.problem}"

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"source": self.source, "place": self.place, "what": self.what, "problem": self.problem}


@dataclass(slots=True)
class ImportSource:
    """All that one source says. ``owner`` is managed_by of its schedules; ``remarks`` are for people."""

    name: str
    owner: str
    items: list[Item] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def refuse(self, place: Place, what: str, problem: str) -> None:
        """Something of it cannot be imported; *problem* says why, and what to do."""
        self.refusals.append(Refusal(self.name, place, what, problem))
