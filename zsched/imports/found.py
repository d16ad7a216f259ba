"""
Content of a source: future schedules, and refusals, each with its place; and the zone of its times.

Cron, RQ's cron and rq-scheduler read times in the zone of their process, as the C library finds it. ``TZ`` comes first
(tzset(3)), so containers set it; without it ``/etc/localtime`` decides. An import runs in another process than the
scheduler that it replaces, so it says by what it chose the zone.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from zsched.core.clock import to_ms
from zsched.core.triggers.zones import zone
from zsched.errors import InvalidSchedule

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


# -- the zone of its times ----------------------------------------------------------------------------


_GIVE: Final = "give --tz, such as --tz Europe/Berlin"
_FOLDER: Final = "/zoneinfo/"  # of the zones' files; their names follow


def local_zone(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> tuple[str, str]:
    """
    Return the name of the zone of a process with *environment* on this machine, and where it was found. *root*: the
    parent folder of ``etc``.

    ``TZ`` may be ``Europe/Berlin``, ``:Europe/Berlin`` or the path of a zone's file; empty it is UTC. A rule of its own
    (``JST-9``) is not a zone of zsched's. Without ``TZ`` and ``/etc/localtime`` it is UTC. ``/etc/timezone`` only names
    the zone if ``/etc/localtime`` is a copy: cron does not use it, although cron(8) says so (3.0pl1-162).

    Raises:
        InvalidSchedule: zsched does not know the zone; *tz* must be given.
    """
    name, place = _of_variable(environment.get("TZ")) or _of_machine(root)
    try:
        return zone(name).key, place
    except InvalidSchedule as refusal:
        raise InvalidSchedule("tz", name, f"{refusal.problem} (by {place})", _GIVE) from refusal


def _of_variable(text: str | None) -> tuple[str, str] | None:
    """Return the zone that the variable TZ has as *text*; None if it leads to the file of the machine."""
    if text is None or (path := text.removeprefix(":")) == "/etc/localtime":
        return None
    if path.startswith("/"):
        path = path.partition(_FOLDER)[2]
    return path or text or "UTC", f"TZ={text}"


def _of_machine(root: Path) -> tuple[str, str]:
    localtime, timezone = root / "etc/localtime", root / "etc/timezone"
    if localtime.is_symlink():
        return os.readlink(localtime).partition(_FOLDER)[2], str(localtime)
    if not localtime.exists():
        return "UTC", f"this machine, which has no {localtime}"
    if timezone.is_file():
        return timezone.read_text(errors="replace").strip(), str(timezone)
    raise InvalidSchedule("tz", None, f"{localtime} is a copy of an unknown zone", _GIVE)
