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
    The zone by which Debian's cron goes (cron(8)): that of ``/etc/timezone``, else of the link ``/etc/localtime``; UTC
    where there is neither, as the C library does. *root* is where ``etc`` is.

    Raises:
        InvalidSchedule: what stands there is no zone that zsched knows; *tz* has to be said.
    """
    localtime, timezone = root / "etc/localtime", root / "etc/timezone"
    told: list[MachineZone] = []
    if timezone.is_file():
        told.append(MachineZone(timezone.read_text(errors="replace").strip(), str(timezone)))
    if localtime.is_symlink():
        _, _, name = os.readlink(localtime).partition("/zoneinfo/")
        told.append(MachineZone(name, str(localtime)))
    if not told and localtime.exists():
        problem = f"{localtime} is a copy of a zone and does not say of which"
        raise InvalidSchedule("tz", None, problem, "give --tz, such as --tz Europe/Berlin")
    for one in told:
        try:
            return one._replace(name=zone(one.name).key)
        except InvalidSchedule:
            continue
    if told:
        problem = f"the zone of this machine ({told[0].found_in}) is none that zsched knows"
        raise InvalidSchedule("tz", told[0].name, problem, "give --tz, such as --tz Europe/Berlin")
    return MachineZone("UTC", "this machine, which names no zone")
