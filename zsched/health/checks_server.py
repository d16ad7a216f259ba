"""
Checks of the Redis server: for every view, does it accept writes, and has it enough memory? For the doctor also its
version and role, memory, files and clock.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from redis.crc import key_slot

from zsched.core.entry import text
from zsched.core.wording import some
from zsched.errors import RedisRefused
from zsched.health.facts import Finding, Probe, fine, health_check, note, problem, skipped, warning
from zsched.storage.remedies import WriteRefusal
from zsched.storage.server import Server
from zsched.zone_rules import installed

OLDEST: Final = (6, 2)  # the first with COPY, which fires recurring schedules
FAR_MS: Final = 20.0  # a leader waits for each script: 50 scripts a second then, of some hundred runs each
CLOCK_FAR_MS: Final = 1000.0  # NTP keeps clocks a hundred times closer
CLOCK_WRONG_MS: Final = 30_000.0  # half of a heartbeat's advance: beyond it, a living worker may count as dead
COMPACT_BYTES: Final = 512  # deploy/redis/redis.conf: a waiting schedule of some 620 bytes instead of 1,000
_ASKED: Final = 5  # times; the fastest reply has the least noise of this machine
_GRAIN_MS: Final = 1.0  # this machine's clock is read in whole ms
_NEVER: Final = "noeviction"
_ALL_RIGHTS: Final = ("ACL", "SETUSER", "default", "~*", "&*", "+@all")
_TIGHT, _FULL = 0.80, 0.95  # of the memory that Redis may use
_STOPS: Final = "until then nothing can be scheduled and nothing fires, and nothing is lost"


@health_check("writes", Server, alert="Redis refuses writes")
def check_writes(server: Server) -> Finding:
    """Check that Redis accepts writes: without them nothing fires, and no daemon can report that it runs."""
    if (refusal := server.write_refusal) is None:
        return fine("Redis accepts writes")
    sentence, command = refusal.sentence, tuple[object, ...]()
    match refusal:
        case WriteRefusal.REPLICA:
            sentence = f"it is a replica of {server.info.get('master_host')}:{server.info.get('master_port')}"
        case WriteRefusal.FEW_REPLICAS:
            keeping = server.good_replicas
            wanted = server.settings.get("min-replicas-to-write", "larger")
            sentence = f"min-replicas-to-write is {wanted}, but only {keeping} of its replicas are in sync"
            command = ("redis-cli", "CONFIG", "SET", "min-replicas-to-write", keeping)
        case WriteRefusal.FULL:
            sentence = f"it is full: {_memory(server)}"
    remedy = f"{refusal.remedy}; {_STOPS}{'; if a failover may lose what is written' if command else ''}"
    return problem(f"Redis refuses writes: {sentence}", remedy, *command)


@health_check("no_replica", Server, "role", follows=("writes",))
def check_no_replica(server: Server) -> Iterator[Finding]:
    """Check that a master that can be replaced has a replica for that."""
    if server.is_replica or not server.can_be_replaced or server.following_replicas:
        return
    known = server.number("connected_slaves")
    without = "no replica" if not known else f"no replica that is up to date ({known} load its data)"
    in_cluster, alone = "--cluster add-node REPLICA:PORT NODE:PORT --cluster-slave", "-h REPLICA REPLICAOF MASTER PORT"
    command = f"redis-cli {in_cluster if server.is_in_cluster else alone}"
    remedy = f"start its replica, or let another server follow it: {command}"
    yield warning(f"the master has {without}: if it dies, nothing fires until it is back", remedy)


@health_check("memory", Server)
def check_memory(server: Server) -> Iterator[Finding]:
    """Check the memory: Redis refuses writes at maxmemory, and is killed when the machine's memory is exhausted."""
    if not server.limit_bytes:
        yield skipped("INFO reports neither maxmemory nor the machine's memory")
    elif server.makes_room:
        yield fine(f"Redis: {_memory(server)}; it evicts keys to make room")
    elif server.write_refusal is not WriteRefusal.FULL:
        share, said = server.used_bytes / server.limit_bytes, f"Redis: {_memory(server)}"
        most, machine = server.number("maxmemory"), server.number("total_system_memory")
        more = "free memory, or give more" + (", by raising maxmemory" if most and 2 * most < machine else "")
        remedy = f"{more}, before it is full: then nothing can be scheduled and nothing fires"
        yield problem(said, remedy) if share > _FULL else warning(said, remedy) if share > _TIGHT else fine(said)


@health_check("eviction", Server)
def check_policy(server: Server) -> Iterator[Finding]:
    """Check that Redis evicts no keys, also since the leader looked. The daemons' settings may allow it."""
    if server.may_evict:
        said = f"maxmemory-policy {server.policy} may drop schedules: by default no daemon begins to lead"
        yield warning(said, *config_set("maxmemory-policy", "noeviction"))


def config_set(name: str, value: object) -> tuple[str, *tuple[object, ...]]:
    """Return the remedy of changing a setting of Redis, and its command."""
    return "in redis.conf, and at once", "redis-cli", "CONFIG", "SET", name, value


def _memory(server: Server) -> str:
    """``9 MiB used, 95% of maxmemory``."""
    of = "maxmemory" if server.number("maxmemory") else "the machine's memory"
    return f"{server.used_bytes / 2**20:,.0f} MiB used, {server.used_bytes / server.limit_bytes:.0%} of {of}"


# -- version and role ---------------------------------------------------------------------------------


@health_check("redis", Probe)
def check_redis(probe: Probe) -> Finding:
    """Check the server's version, and the time of a round trip."""
    round_trip_ms, _ = _fastest_look(probe)
    said = f"{probe.server.product} at {probe.wire.where}, round trip {round_trip_ms:.2f} ms"
    if probe.server.release < OLDEST:
        return problem(said, "upgrade to Redis 6.2 or later, or Valkey: recurring schedules need COPY")
    elif round_trip_ms > FAR_MS:
        return warning(said, "run daemons nearer to their Redis: each script of a leader waits for the one before")
    return fine(said)


@health_check("role", Probe)
def check_role(probe: Probe) -> Iterator[Finding]:
    """Check the server's role, and its protection against losses by a failover."""
    if probe.is_unfollowed_node:
        remedy = "name some of its nodes in [redis] url: redis+cluster://host:6379,host2:6379"
        yield problem("it is one node of a Redis Cluster, and a slot may move to another", remedy)
        return
    replicas = probe.server.number("connected_slaves")
    if probe.server.is_replica or probe.server.has_few_replicas or (probe.server.can_be_replaced and not replicas):
        return  # check_writes and check_no_replica report it
    if not replicas:
        yield fine("a master without replicas")
    elif probe.setting("min-replicas-to-write") == "0":
        yield warning(
            f"a master of {replicas}, with min-replicas-to-write 0: when cut off from them, it accepts writes that "
            "a failover then loses",
            *config_set("min-replicas-to-write", 1),
        )
    else:
        yield fine(f"a master of {replicas}, that rejects writes without them")


_FAILING: Final = frozenset({"fail", "fail?"})  # flags in CLUSTER NODES; "nofailover" is none


@health_check("slot", Probe)
def check_slot(probe: Probe) -> Finding:
    """Check a Redis Cluster, and its slot with all of the namespace's keys."""
    if not probe.server.is_in_cluster:
        return fine("no Redis Cluster")
    slot = key_slot(probe.keys.meta().encode())
    lines = probe.ask("CLUSTER", "NODES").decode().splitlines()
    here = next(line for line in lines if "myself" in line)
    failing = sum(not _FAILING.isdisjoint(line.split(" ")[2].split(",")) for line in lines)
    if f"[{slot}-" in here:
        said = f"slot {slot} is being moved key by key: nothing fires, and callers wait, until the move ends"
        return warning(said, "if that lasts, end it", *("redis-cli", "--cluster", "fix", "HOST:PORT"))
    elif failing:
        return warning(f"{failing} of {len(lines)} nodes of the Cluster do not answer", "start or remove them")
    return fine(f"slot {slot} of the Redis Cluster is whole; {len(lines)} nodes answer")


# -- memory -----------------------------------------------------------------------------------------


@health_check("eviction", Probe)
def check_eviction(probe: Probe) -> Finding:
    """Check that Redis evicts no keys: an evicted key is a schedule that never fires."""
    policy = probe.server.policy
    remedy = config_set("maxmemory-policy", _NEVER)
    if policy == _NEVER:
        return fine("maxmemory-policy is noeviction")
    elif not probe.server.may_evict:
        return note(f"maxmemory-policy is {policy}: it would drop keys as soon as maxmemory is set", *remedy)
    elif probe.settings.daemon.allow_eviction:
        return warning(f"maxmemory-policy {policy} may drop schedules, and [daemon] allow_eviction lets it", *remedy)
    return problem(f"maxmemory-policy {policy} may drop schedules, so no daemon begins to lead", *remedy)


@health_check("hashes", Probe)
def check_hashes(probe: Probe) -> Finding:
    """Check the setting for compact hashes: a waiting one-shot is compact while all its values are shorter."""
    name = "hash-max-listpack-value" if probe.server.release >= (7,) else "hash-max-ziplist-value"
    bound = probe.setting(name)
    said = f"{name} is {bound}"
    if bound is None:
        return skipped(f"this server has no {name}")
    elif int(bound) < COMPACT_BYTES:
        larger = "a schedule with a longer payload takes about 1,000 bytes instead of 620"
        return note(f"{said}: {larger}", *config_set(name, COMPACT_BYTES))
    return fine(said)


# -- files ------------------------------------------------------------------------------------------


@health_check("persistence", Probe)
def check_persistence(probe: Probe) -> Iterator[Finding]:
    """Check that an append-only file is kept, and that the last writes succeeded."""
    failed = [
        f"its last {what} failed ({name} is {probe.server.info[name]})"
        for name, what in (
            ("aof_last_write_status", "write to the append-only file"),
            ("aof_last_bgrewrite_status", "rewrite of the append-only file"),
            ("rdb_last_bgsave_status", "snapshot"),
        )
        if probe.server.info.get(name, "ok") != "ok"
    ]
    for said in failed:
        yield problem(said, "look at Redis' log and at its disk: while it cannot save, it may refuse all writes")
    if probe.server.info.get("aof_enabled") != "1":
        yield warning(
            "appendonly is no: a crash loses all writes since the last snapshot, except those that an archive has",
            *config_set("appendonly", "yes"),
        )
    elif not failed:
        yield fine("an append-only file is kept, and its last write succeeded")


@health_check("append_only_file", Probe, "append-only file")
def check_append_only_file(probe: Probe) -> Iterator[Finding]:
    """Check the append-only file: its fsync, the rights of its reader, and the handling of a truncated file."""
    if probe.server.info.get("aof_enabled") != "1":
        if not probe.setting("save"):
            said = "neither an append-only file nor snapshots are kept: a restart loses everything"
            yield problem(said, *config_set("appendonly", "yes"))
        else:
            yield fine("no append-only file is kept, but snapshots are")
        return
    if not (reads_all := _default_may_all(probe)):
        said = "Redis reads it as its user default, which lacks rights: a restart drops what scripts wrote"
        yield problem(said, "it may stay off and without a password", "redis-cli", *_ALL_RIGHTS)
    fsync, truncates = probe.setting("appendfsync"), probe.setting("aof-load-truncated")
    if fsync == "no":
        said = "appendfsync is no: a power failure loses the writes that the system still buffers"
        yield warning(said, *config_set("appendfsync", "everysec"))
    if truncates == "yes":
        yield warning(
            "aof-load-truncated is yes: of a file torn at its end, half of a script may be executed a restart later, "
            "and a run pushed twice; else Redis does not start, and redis-check-aof --fix repairs the file",
            *config_set("aof-load-truncated", "no"),
        )
    if fsync != "no" and truncates != "yes" and reads_all:
        yield fine(f"appendfsync is {fsync}, aof-load-truncated is {truncates}")


def _default_may_all(probe: Probe) -> bool:
    """Return True if the user ``default``, as which 7.0.15 reads the file, has all rights, or we may not ask."""
    with suppress(RedisRefused):
        flat = probe.ask("ACL", "GETUSER", "default")
        rights = {text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
        return rights["commands"] == b"+@all" and rights["keys"] in (b"~*", [b"*"])  # 7.0, and 6.2
    return True


# -- clocks -----------------------------------------------------------------------------------------


@health_check("clock", Probe)
def check_clock(probe: Probe) -> Finding:
    """
    Compare the server's TIME with this machine's clock. The server read its clock between command and reply, so half of
    the round trip is uncertain.
    """
    round_trip_ms, offset_ms = _fastest_look(probe)
    uncertain_ms = round_trip_ms / 2 + _GRAIN_MS
    said = f"the server's clock is {offset_ms:+,.0f} ms from this machine's, to within {uncertain_ms:.1f} ms"
    remedy = "run an NTP client on both: schedules fire by the server's clock, workers beat by their machines'"
    least_ms = abs(offset_ms) - uncertain_ms
    if least_ms > CLOCK_WRONG_MS:
        return problem(said, remedy)
    elif least_ms > CLOCK_FAR_MS:
        return warning(said, remedy)
    return fine(said)


@health_check("test_clock", Probe, "test clock")
def check_test_clock(probe: Probe) -> Finding:
    """Report a test clock that a test left in the namespace."""
    names, key = ("offset_ms", "frozen_ms"), probe.keys.meta()
    values = probe.ask("HMGET", key, *names)
    found = [f"{name} = {text(value)}" for name, value in zip(names, values, strict=True) if value is not None]
    if found:
        said = f"the namespace's clock is a test's: {some(found)}; no daemon leads by it"
        return problem(said, "if no test is running", "redis-cli", "HDEL", key, *names, "frozen_by")
    return fine("the namespace goes by the server's clock")


@health_check("zone_rules", Probe, "tzdata")
def check_zone_rules(probe: Probe) -> Finding:
    """Compare the namespace's version of the time zone rules with this machine's."""
    version = probe.ask("HGET", probe.keys.meta(), "tzdata")
    planned, here = text(version) if version else None, installed()
    if here.version is None:
        return warning(f"this machine's zones are {here}", "install them: apt install tzdata, or pip install tzdata")
    elif planned is not None and planned != here.version:
        said = f"schedules are planned by tzdata {planned}, and this machine has {here}: clients here may differ"
        return warning(said, "install the same version on both; a daemon that begins to lead plans again by its own")
    return fine(f"tzdata {here}" + ("" if planned else "; no daemon has planned by any yet"))


def _fastest_look(probe: Probe) -> tuple[float, float]:
    """Return the fastest of some round trips in ms, and the server's clock minus this machine's then."""
    return min(_compare(probe) for _ in range(_ASKED))


def _compare(probe: Probe) -> tuple[float, float]:
    began_ms, sent_ms = probe.clock.now_ms(), probe.clock.monotonic_ms()
    seconds, micros = probe.ask("TIME")
    round_trip_ms = probe.clock.monotonic_ms() - sent_ms
    return round_trip_ms, int(seconds) * 1000 + int(micros) / 1000 - (began_ms + round_trip_ms / 2)
