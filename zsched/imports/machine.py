"""This machine's time zone, by which its cron runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from zsched.core.triggers import zone
from zsched.errors import InvalidSchedule


class MachineZone(NamedTuple):
    """A zone's name, and where it was found."""

    name: str
    found_in: str


def machine_zone(root: Path = Path("/")) -> MachineZone:
    """
    The zone by which Debian's cron goes. It asks the C library, which reads ``/etc/localtime``; where there is none, it
    is UTC. What cron(8) says of ``/etc/timezone`` is not so (3.0pl1-162): here that file only names what
    ``/etc/localtime`` is a copy of. *root* is where ``etc`` is.

    Raises:
        InvalidSchedule: what stands there is no zone that zsched knows; *tz* has to be said.
    """
    localtime, timezone = root / "etc/localtime", root / "etc/timezone"
    if localtime.is_symlink():
        _, _, name = os.readlink(localtime).partition("/zoneinfo/")
        found = MachineZone(name, str(localtime))
    elif not localtime.exists():
        found = MachineZone("UTC", f"this machine, which has no {localtime}")
    elif timezone.is_file():
        found = MachineZone(timezone.read_text(errors="replace").strip(), str(timezone))
    else:
        problem = f"{localtime} is a copy of a zone and does not say of which"
        raise InvalidSchedule("tz", None, problem, "give --tz, such as --tz Europe/Berlin")
    try:
        return found._replace(name=zone(found.name).key)
    except InvalidSchedule as refusal:
        problem = f"the zone of this machine ({found.found_in}) is none that zsched knows"
        raise InvalidSchedule("tz", found.name, problem, "give --tz, such as --tz Europe/Berlin") from refusal
