"""What is left of Redis after a crash, and does it get onto its disk now?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from zsched.core.log import text
from zsched.doctor.commands import config_set, redis_cli
from zsched.doctor.finding import Finding, fine, problem, warning
from zsched.doctor.patient import Patient
from zsched.errors import RedisRefused

_ALL_RIGHTS = ("ACL", "SETUSER", "default", "~*", "&*", "+@all")


def look_at_files(patient: Patient) -> Iterator[Finding]:
    """Whether an append-only file is kept, and whether the last writes succeeded."""
    failed = [
        f"its last {what} failed ({name} is {patient.info[name]})"
        for name, what in (
            ("aof_last_write_status", "write to the append-only file"),
            ("aof_last_bgrewrite_status", "rewrite of the append-only file"),
            ("rdb_last_bgsave_status", "snapshot"),
        )
        if patient.info.get(name, "ok") != "ok"
    ]
    for said in failed:
        yield problem(said, "look at Redis' log and at its disk: while it cannot save, it may refuse all writes")
    if patient.info.get("aof_enabled") != "1":
        yield warning(
            "appendonly is no: a crash loses what came after the last snapshot, if there is one, but for what an "
            "archive has",
            config_set(patient, "appendonly", "yes"),
        )
    elif not failed:
        yield fine("an append-only file is kept, and its last write succeeded")


def look_at_append_only_file(patient: Patient) -> Iterator[Finding]:
    """How soon it is on the disk, who reads it, and what becomes of one that is torn at its end."""
    if patient.info.get("aof_enabled") != "1":
        if not patient.setting("save"):
            said = "neither an append-only file nor snapshots are kept: a restart loses everything"
            yield problem(said, config_set(patient, "appendonly", "yes"))
        else:
            yield fine("none is kept; snapshots are")
        return
    reads_all = _default_may_all(patient)
    if not reads_all:
        said = "Redis reads it as its user default, which has not all rights: a restart leaves out what scripts wrote"
        yield problem(said, f"it may stay off and without a password: {redis_cli(patient, *_ALL_RIGHTS)}")
    fsync, truncates = patient.setting("appendfsync"), patient.setting("aof-load-truncated")
    if fsync == "no":
        said = "appendfsync is no: a power failure loses what the system has not written yet"
        yield warning(said, config_set(patient, "appendfsync", "everysec"))
    if truncates == "yes":
        yield warning(
            "aof-load-truncated is yes: of a file torn at its end, half of a script may be executed a restart later, "
            "and a run pushed twice; else Redis does not start, and redis-check-aof --fix mends the file",
            config_set(patient, "aof-load-truncated", "no"),
        )
    if fsync != "no" and truncates != "yes" and reads_all:
        yield fine(f"appendfsync is {fsync}, aof-load-truncated is {truncates}")


def _default_may_all(patient: Patient) -> bool:
    """Whether the user ``default`` has all rights, by which 7.0.15 reads the file; True where we may not ask."""
    with suppress(RedisRefused):
        flat = patient.ask("ACL", "GETUSER", "default")
        rights = {text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
        return rights["commands"] == b"+@all" and rights["keys"] in (b"~*", [b"*"])  # 7.0, and 6.2
    return True
