"""Do this machine and Redis agree on the time, and on the rules of the zones?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zsched.core.log import text
from zsched.core.wording import some
from zsched.doctor.commands import redis_cli
from zsched.doctor.finding import Finding, fine, problem, warning
from zsched.doctor.patient import Patient
from zsched.zone_rules import installed

FAR_MS: Final = 1000.0  # what NTP keeps is a hundred times less
WRONG_MS: Final = 30_000.0  # half of what a worker's heartbeat is ahead: beyond it, one that lives may count as dead
_ASKED: Final = 5  # times; the quickest reply tells best
_GRAIN_MS: Final = 1.0  # this machine's clock is read in whole ms


def look_at_offset(patient: Patient) -> Iterator[Finding]:
    """
    TIME against this machine's clock. The server read its clock somewhere between command and reply, so half of the
    round trip is uncertain.
    """
    round_trip_ms, offset_ms = min((_compare(patient) for _ in range(_ASKED)), key=lambda told: told[0])
    uncertain_ms = round_trip_ms / 2 + _GRAIN_MS
    said = f"the server's clock is {offset_ms:+,.0f} ms from this machine's, to within {uncertain_ms:.1f} ms"
    remedy = "run an NTP client on both: schedules fire by the server's clock, workers beat by their machines'"
    least_ms = abs(offset_ms) - uncertain_ms
    if least_ms > WRONG_MS:
        yield problem(said, remedy)
    elif least_ms > FAR_MS:
        yield warning(said, remedy)
    else:
        yield fine(said)


def look_at_test_clock(patient: Patient) -> Iterator[Finding]:
    """What tests leave behind that were given this namespace."""
    names = ("offset_ms", "frozen_ms")
    told = patient.ask("HMGET", patient.keys.meta(), *names)
    found = [f"{name} = {text(value)}" for name, value in zip(names, told, strict=True) if value is not None]
    if found:
        yield problem(
            f"the namespace's clock is a test's: {some(found)}; no daemon leads by it",
            f"if no test is running: {redis_cli(patient, 'HDEL', patient.keys.meta(), *names, 'frozen_by')}",
        )
    else:
        yield fine("the namespace goes by the server's clock")


def look_at_zone_rules(patient: Patient) -> Iterator[Finding]:
    """The version by which all is planned, this machine's, and those of the daemons."""
    told = patient.ask("HGET", patient.keys.meta(), "tzdata")
    planned, here = text(told) if told else None, installed()
    places = {daemon.tzdata: daemon.host or "?" for daemon in patient.daemons() if daemon.tzdata}
    findings = []
    if here.version is None:
        findings.append(
            warning(f"this machine's zones are {here}", "install them: apt install tzdata, or pip install tzdata")
        )
    elif planned is not None and planned != here.version:
        findings.append(
            warning(
                f"all is planned by tzdata {planned}, and this machine has {here}: clients here may plan otherwise",
                "install the same version on both; a daemon that begins to lead plans again by its own",
            )
        )
    if len(places) > 1:
        findings.append(
            warning(
                f"daemons differ in tzdata: {some([f'{name} on {host}' for name, host in sorted(places.items())])}; "
                "each plans all again when it takes over",
                "install the same version on all of them, and restart them",
            )
        )
    yield from findings or [fine(f"tzdata {here}" + ("" if planned else "; no daemon has planned by any yet"))]


def _compare(patient: Patient) -> tuple[float, float]:
    """A round trip in ms, and how much later it is at the server."""
    began_ms, sent_ms = patient.clock.now_ms(), patient.clock.monotonic_ms()
    seconds, micros = patient.ask("TIME")
    round_trip_ms = patient.clock.monotonic_ms() - sent_ms
    return round_trip_ms, int(seconds) * 1000 + int(micros) / 1000 - (began_ms + round_trip_ms / 2)
