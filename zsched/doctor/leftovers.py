"""
Which keys of the namespace does nothing lead to any more?

A scan of bounded length over the whole database: in one of up to 50,000 keys it sees all of them, in a larger one a
part. What a script takes away between the scan and the look is not there then, and is no leftover.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from zsched.core.log import text
from zsched.core.model import Priority
from zsched.core.wording import plural, some
from zsched.doctor.commands import redis_cli
from zsched.doctor.finding import Finding, fine, warning
from zsched.doctor.patient import Patient

_STEPS: Final = 50
_PER_STEP: Final = 1000  # keys that a step looks at: some 0.3 ms of Redis
_OF_IDS: Final = ("schedule:", "template:")
_LAPSING: Final = ("op:", "answer:")
_AT_ONCE: Final = 20  # keys in one command of a remedy
_LASTS: Final = -1  # PTTL of what does not lapse


@dataclass
class _Leftovers:
    """Names of keys, without the namespace's prefix."""

    orphans: set[str] = field(default_factory=set)
    lasting: set[str] = field(default_factory=set)
    aside: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)


def look_at_leftovers(patient: Patient) -> Iterator[Finding]:
    """What the scan comes by, by kind."""
    found = _Leftovers()
    is_all = _scan(patient, found)
    unlink, held = f"then: {_by_key(patient, 'UNLINK', found.orphans)}", _by_key(patient, "ZRANGE", found.aside, 0, -1)
    kinds = (
        (found.orphans, "of a recurring schedule that is not there", f"zsched why ID tells what it was; {unlink}"),
        (
            found.lasting,
            "of a call that should have lapsed",
            _by_key(patient, "UNLINK", found.lasting),
        ),
        (found.aside, "of schedules held back that no fire looks at", f"put again what is in it: {held}"),
        (found.foreign, "that zsched does not know", "let nobody else write under zsched:"),
    )
    for names, what, remedy in kinds:
        if names:
            yield warning(f"{plural(len(names), 'key')} {what}: {some(sorted(names))}", remedy)
    if not any(names for names, _, _ in kinds):
        yield fine("none" if is_all else f"none among {_STEPS * _PER_STEP:,} keys of this database")


def _by_key(patient: Patient, command: str, names: set[str], *arguments: object) -> str:
    """*command* on the keys *names*; on the first of many, or of those that it takes one of at once."""
    keys = [patient.keys.prefix + name for name in sorted(names)[: 1 if arguments else _AT_ONCE]]
    return redis_cli(patient, command, *keys, *arguments)


def _scan(patient: Patient, found: _Leftovers) -> bool:
    """Look at pages of keys; whether all were seen."""
    cursor = b"0"
    for _ in range(_STEPS):
        cursor, page = patient.ask("SCAN", cursor, "MATCH", f"{patient.keys.prefix}*", "COUNT", _PER_STEP)
        _sort(patient, [text(key).removeprefix(patient.keys.prefix) for key in page], found)
        if cursor == b"0":
            return True
    return False


def _sort(patient: Patient, names: list[str], found: _Leftovers) -> None:
    """Find those of *names* that are left over."""
    keys = patient.keys
    of_ids = [name for name in names if name.startswith(_OF_IDS)]
    lapsing = [name for name in names if name.startswith(_LAPSING)]
    asides = [name for name in names if _is_aside(name)]
    *are_there, words = patient.ask_all(
        [*(("SISMEMBER", keys.recurring(), name.partition(":")[2]) for name in of_ids), ("HGET", keys.meta(), "aside")]
    )
    lives = patient.ask_all(("PTTL", keys.prefix + name) for name in lapsing)
    named = text(words or b"").split()
    suspects = [name for name, is_there in zip(of_ids, are_there, strict=True) if is_there == 0]
    still = patient.ask_all(("EXISTS", keys.prefix + name) for name in suspects)
    found.orphans.update(name for name, exists in zip(suspects, still, strict=True) if exists)
    found.lasting.update(name for name, ms in zip(lapsing, lives, strict=True) if ms == _LASTS)
    found.aside.update(name for name in asides if name.removeprefix("due:") not in named)
    found.foreign.update(set(names) - {*of_ids, *lapsing, *asides} - _whole(patient))


def _is_aside(name: str) -> bool:
    """``due:<lane>:<queue>``; a queue may have colons in its name."""
    word, _, rest = name.partition(":")
    lane, _, queue = rest.partition(":")
    return word == "due" and bool(queue) and lane in {each.value for each in Priority}


def _whole(patient: Patient) -> set[str]:
    """The names of keys that a namespace has one of."""
    keys = patient.keys
    functions = (keys.lease, keys.meta, keys.log, keys.limits, keys.paused, keys.quarantine, keys.chains)
    others = (keys.deadlines, keys.recurring, keys.archivers, keys.ask)
    found = [key() for key in (*functions, *others)] + [keys.due(lane) for lane in Priority]
    return {key.removeprefix(keys.prefix) for key in found}
