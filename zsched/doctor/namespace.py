"""Does this zsched know the namespace's format, who leads there, and which schedules could not be planned?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from zsched.core.log import text
from zsched.doctor.finding import Finding, fine, problem, warning
from zsched.doctor.patient import Patient
from zsched.doctor.wording import counted, some
from zsched.storage.scripts import load

_FORMAT: Final = re.compile(r"^local FORMAT = (\d+)", re.MULTILINE)
_LOOKED_AT: Final = 5  # schedules in quarantine


def look_at_format(patient: Patient) -> Iterator[Finding]:
    """Whether scripts of this version do anything here."""
    told, known = patient.ask("HGET", patient.keys.meta(), "format"), known_format()
    if told is None:
        yield fine("no format yet: no daemon has led here since there are formats")
    elif told.isdigit() and int(told) <= known:
        yield fine(f"format {int(told)}, which this zsched knows")
    else:
        yield problem(
            f"a newer zsched keeps it in format {text(told)}, and this one knows {known}: no call of it does anything",
            "upgrade zsched on this machine to the version of the daemons",
        )


def known_format() -> int:
    """The newest format that this zsched knows: lua/lib/meta.lua says it."""
    return int(_FORMAT.findall(load("get").text)[0])


def look_at_daemons(patient: Patient) -> Iterator[Finding]:
    """Who leads, and whether the daemons are of one version."""
    leader, daemons = patient.leader(), patient.daemons()
    if leader is None:
        remedy = f"start a daemon: zsched daemon -n {patient.keys.namespace}"
        has_begun = patient.has_begun()
        yield problem("nobody leads: nothing fires", remedy) if has_begun else warning("no daemon has led yet", remedy)
    else:
        beside = sum(daemon.id != leader for daemon in daemons)
        others = f", {counted(beside, 'other')} would take over" if beside else ""
        yield fine(f"daemon {leader} leads{others}")
    places = {daemon.version: daemon.host or "?" for daemon in daemons if daemon.version}
    if len(places) > 1:
        yield warning(
            f"daemons differ in their version: {some([f'{name} on {host}' for name, host in sorted(places.items())])}",
            "end the rolling restart: upgrade all of them",
        )


def look_at_quarantine(patient: Patient) -> Iterator[Finding]:
    """Schedules that could not be planned."""
    key = patient.keys.quarantine()
    count = patient.ask("HLEN", key)
    if not count:
        yield fine("no schedule is in quarantine")
        return
    _, flat = patient.ask("HSCAN", key, 0, "COUNT", _LOOKED_AT)
    rows = sorted(zip(flat[::2], flat[1::2], strict=True))
    listed = [f"{text(id)} ({text(value).split(' ', 3)[-1]})" for id, value in rows]
    yield warning(
        f"{counted(count, 'schedule')} in quarantine, not firing: {some(listed)}",
        "zsched ls --state quarantined; put each again, as it should be, or cancel it",
    )
