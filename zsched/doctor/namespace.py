"""Does this zsched know the namespace's format, who leads there, and which schedules could not be planned?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zsched.core.log import FORMAT, text
from zsched.core.wording import plural, some
from zsched.doctor.finding import Finding, fine, problem, warning
from zsched.doctor.patient import Patient
from zsched.errors import Garbled
from zsched.storage.daemons import DaemonRole, DaemonSeen
from zsched.storage.meta import NUMBERS, number

_LOOKED_AT: Final = 5  # schedules in quarantine


def look_at_format(patient: Patient) -> Iterator[Finding]:
    """Whether scripts of this version do anything here."""
    told = patient.ask("HGET", patient.keys.meta(), "format")
    if told is None:
        yield fine("no format yet: no daemon has led here since there are formats")
    elif (format := number(patient.keys, "format", told)) <= FORMAT:
        yield fine(f"format {format}, which this zsched knows")
    else:
        yield problem(
            f"a newer zsched keeps it in format {format}, and this one knows {FORMAT}: no call of it does anything",
            "upgrade zsched on this machine to the version of the daemons",
        )


def look_at_meta(patient: Patient) -> Iterator[Finding]:
    """Whether what scripts take for numbers is; those of test clocks have a check of their own."""
    key = patient.keys.meta()
    garbled = []
    for field, value in zip(NUMBERS, patient.ask("HMGET", key, *NUMBERS), strict=True):
        try:
            number(patient.keys, field, value)
        except Garbled as error:
            garbled.append(problem(error.problem, error.remedy))
    yield from garbled or [fine(f"{key} has numbers where they have to be")]


def look_at_daemons(patient: Patient) -> Iterator[Finding]:
    """Who leads, who may not, and whether the daemons are of one version."""
    leader, daemons = patient.leader(), patient.daemons()
    barred = [_where(daemon) for daemon in daemons if daemon.role is DaemonRole.BARRED]
    if leader is None and daemons:
        where = some([_where(daemon) for daemon in daemons])
        yield problem(
            f"nobody leads: nothing fires; {plural(len(daemons), 'daemon')} gave a sign of life just now ({where})",
            "mend what is said above; else its log says why it does not lead, and one that hangs is to be restarted",
        )
    elif leader is None:
        remedy = f"start a daemon, with these settings: zsched daemon -n {patient.keys.namespace}"
        is_used = patient.has_begun() or patient.has_schedules()
        yield problem("nobody leads: nothing fires", remedy) if is_used else warning("no daemon has led yet", remedy)
    else:
        standbys = sum(daemon.role is DaemonRole.STANDS_BY for daemon in daemons)
        others = f", {plural(standbys, 'other')} would take over" if standbys else ""
        yield fine(f"daemon {leader} leads{others}")
        if barred:
            remedy = "mend what is said of it: it stands by as soon as it may lead"
            yield warning(f"{plural(len(barred), 'daemon')} may not lead: {some(barred)}", remedy)
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
        f"{plural(count, 'schedule')} in quarantine, not firing: {some(listed)}",
        "zsched ls --state quarantined; put each again, as it should be, or cancel it",
    )


def _where(daemon: DaemonSeen) -> str:
    """Its place, and why it may not lead if that is so."""
    return daemon.place if daemon.may_not_lead is None else f"{daemon.place} ({daemon.may_not_lead})"
