"""Options and texts that several commands of ``zsched import`` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from zsched.core.triggers import zone
from zsched.core.wording import some
from zsched.imports.machine import machine_zone

_SHOWN: Final = 10  # names in a message

DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Tell what would be done; write nothing.")
PRUNE: Final = click.option("--prune", is_flag=True, help="Remove what an earlier import put and is gone there.")
TAKE_OVER: Final = click.option("--take-over", is_flag=True, help="Schedules of these ids that others own become its.")
TZ: Final = click.option("--tz", metavar="ZONE", help="The zone of its times; default: that of this machine.")


def zone_of(tz: str | None) -> tuple[str, list[str]]:
    """The zone's name, and what is to be said of where it comes from. Raises InvalidSchedule."""
    if tz is not None:
        return zone(tz).key, []
    found = machine_zone()
    return found.name, [f"times are of the zone {found.name}, by {found.found_in}; --tz gives another"]


def running(what: str, names: Sequence[str], aside: str) -> str:
    """Say that *what* runs, which has to be stopped before its schedules come here."""
    return f"{what} runs on this Redis ({some(names, _SHOWN)}; {aside}): every job would run twice; stop it first"
