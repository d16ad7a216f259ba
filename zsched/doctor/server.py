"""Is this a Redis that zsched works with, how far is it, and is it who takes writes?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zsched.doctor.commands import config_set, redis_cli
from zsched.doctor.finding import Finding, fine, problem, warning
from zsched.doctor.patient import Patient

OLDEST: Final = (6, 2)  # COPY came with it, by which recurring schedules fire
FAR_MS: Final = 20.0  # a leader sends one script after the other: 50 a second then, of some hundred runs each
_ASKED: Final = 5  # times; the quickest tells the way, the others what else this machine does


def look_at_version(patient: Patient) -> Iterator[Finding]:
    """Which server it is, and how long a call and its reply take."""
    round_trip_ms = min(_round_trip_ms(patient) for _ in range(_ASKED))
    said = f"{patient.product} at {patient.wire.where}, round trip {round_trip_ms:.2f} ms"
    if patient.release < OLDEST:
        yield problem(said, "upgrade to Redis 6.2 or later, or Valkey: recurring schedules need COPY")
    elif round_trip_ms > FAR_MS:
        yield warning(said, "run daemons nearer to their Redis: each script of a leader waits for the one before")
    else:
        yield fine(said)


def look_at_role(patient: Patient) -> Iterator[Finding]:
    """Who takes writes, and what a failover may lose."""
    if patient.is_cluster:
        yield problem("it runs in cluster mode, in which RQ cannot work", "use a single Redis, or Sentinel")
        return
    if patient.is_replica:
        master = f"{patient.info.get('master_host')}:{patient.info.get('master_port')}"
        yield problem(
            f"it is a replica of {master}, and refuses writes: no daemon leads here",
            "give [redis] url the master's address, or name the Sentinels, who know it",
        )
        return
    replicas, keep_up = patient.number("connected_slaves"), patient.info.get("min_slaves_good_slaves")
    if keep_up is not None and int(keep_up) < (wanted := int(patient.setting("min-replicas-to-write") or 0)):
        yield problem(
            f"a master that takes no writes: min-replicas-to-write is {wanted}, and {keep_up} of its replicas keep up",
            "bring them back; until then, if a failover may lose what is written: "
            + redis_cli(patient, "CONFIG", "SET", "min-replicas-to-write", keep_up),
        )
    elif not replicas:
        yield fine("a master without replicas")
    elif patient.setting("min-replicas-to-write") == "0":
        yield warning(
            f"a master of {replicas}, with min-replicas-to-write 0: cut off from them it goes on taking writes, which "
            "a failover then loses",
            config_set(patient, "min-replicas-to-write", 1),
        )
    else:
        yield fine(f"a master of {replicas}, that takes no writes without them")


def _round_trip_ms(patient: Patient) -> float:
    sent_ms = patient.clock.monotonic_ms()
    patient.ask("PING")
    return patient.clock.monotonic_ms() - sent_ms
