"""May Redis drop schedules for want of memory, how much is left, and do waiting schedules stay small?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zsched.doctor.commands import config_set
from zsched.doctor.finding import Finding, fine, problem, skipped, warning
from zsched.doctor.patient import Patient

_NEVER: Final = "noeviction"
COMPACT_BYTES: Final = 512  # deploy/redis/redis.conf: a waiting schedule of some 620 bytes instead of 1,000
_TIGHT, _FULL = 0.80, 0.95  # of the memory that Redis may use
_MIB: Final = 1024 * 1024


def look_at_eviction(patient: Patient) -> Iterator[Finding]:
    """A key that is evicted is a schedule that never fires."""
    policy, most = patient.info.get("maxmemory_policy", _NEVER), patient.number("maxmemory")
    remedy = config_set(patient, "maxmemory-policy", _NEVER)
    if policy == _NEVER:
        yield fine("maxmemory-policy is noeviction")
    elif not most:
        yield warning(f"maxmemory-policy is {policy}: it would drop keys as soon as maxmemory is set", remedy)
    elif patient.settings.daemon.allow_eviction:
        yield warning(f"maxmemory-policy {policy} may drop schedules, and [daemon] allow_eviction lets it", remedy)
    else:
        yield problem(f"maxmemory-policy {policy} may drop schedules, so no daemon leads", remedy)


def look_at_memory(patient: Patient) -> Iterator[Finding]:
    """Redis refuses writes at maxmemory, and is killed when the machine's memory ends."""
    used, most, machine = (patient.number(name) for name in ("used_memory", "maxmemory", "total_system_memory"))
    limit, of = (most, "maxmemory") if most else (machine, "the machine's memory")
    if not limit:
        yield skipped("INFO tells no limit and no size of the machine")
        return
    more = "free memory, or give more" + (", by raising maxmemory" if most and 2 * most < machine else "")
    said = f"{used / _MIB:,.0f} MiB used, {used / limit:.0%} of {of}"
    if used > _FULL * limit:
        yield problem(said, f"{more}: when it is full, nothing can be scheduled and nothing fires")
    elif used > _TIGHT * limit:
        yield warning(said, f"{more} before it is full: then nothing can be scheduled and nothing fires")
    else:
        yield fine(said)


def look_at_hashes(patient: Patient) -> Iterator[Finding]:
    """A waiting one-shot is a hash, which is compact while no value is longer than a setting."""
    name = "hash-max-listpack-value" if patient.release >= (7,) else "hash-max-ziplist-value"
    told = patient.setting(name)
    said = f"{name} is {told}"
    if told is None:
        yield skipped(f"this server has no {name}")
    elif int(told) < COMPACT_BYTES:
        yield warning(
            f"{said}: a schedule with a longer payload takes about 1,000 bytes instead of 620",
            config_set(patient, name, COMPACT_BYTES),
        )
    else:
        yield fine(said)
