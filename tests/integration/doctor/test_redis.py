"""The doctor's checks of the server: version, role, memory, files and clocks, each problem made for real."""

import re
from collections.abc import Callable, Iterator

import pytest
import redis

from tests.integration.doctor.examining import KEYS, command_of, examined, only, report, unwell
from tests.waiting import eventually
from zsched.config.settings import Settings
from zsched.core.clock import SystemClock
from zsched.embedded import EmbeddedRedis, packaged_server
from zsched.errors import RedisRefused, RedisUnavailable
from zsched.health import checks_server
from zsched.health.checks_server import check_memory, check_no_replica, check_writes
from zsched.health.facts import Probe, Severity
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.server import Server
from zsched.zone_rules import ZoneRules, installed

Configure = Callable[[str, str], None]
OK, WARNING, PROBLEM, SKIPPED = Severity.OK, Severity.WARNING, Severity.PROBLEM, Severity.SKIPPED
SETTINGS: dict[str, tuple[dict[str, str], str, Severity, str]] = {
    "schedules may be evicted": (
        {"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}, "eviction", PROBLEM,
        "maxmemory-policy allkeys-lru may drop schedules",
    ),
    "keys may be evicted without a limit": (
        {"maxmemory-policy": "allkeys-random"}, "eviction", Severity.NOTE, "as soon as maxmemory is set",
    ),
    "no fsync": ({"appendfsync": "no"}, "append-only file", WARNING, "appendfsync is no"),
    "a truncated file is loaded": ({"aof-load-truncated": "yes"}, "append-only file", WARNING, "pushed twice"),
}  # fmt: skip


@pytest.fixture
def replica(sound_server: EmbeddedRedis) -> Iterator[EmbeddedRedis]:
    """A replica of the sound server with its data."""
    with EmbeddedRedis(config={"replicaof": f"127.0.0.1 {sound_server.port}"}) as server:
        with redis.Redis.from_url(server.url) as client:
            eventually(lambda: client.info("replication")["master_link_status"] == "up")
        yield server


def test_the_doctor_shows_the_version_and_warns_of_a_slow_round_trip(url: str, sound_server: EmbeddedRedis) -> None:
    said = only(examined(url)["redis"], OK).text

    assert sound_server.server.version in said
    assert "round trip" in said

    assert "round trip 30.00 ms" in only(examined(url, clock=SlowClock())["redis"], WARNING).text


class SlowClock(SystemClock):
    """A clock by which every reply takes 30 ms."""

    def __init__(self) -> None:
        self._now_ms = 0.0

    def monotonic_ms(self) -> float:
        self._now_ms += 30.0
        return self._now_ms


def test_a_redis_without_copy_is_a_problem(url: str) -> None:
    link, keys = Link.from_url(url, 5.0), Keys("default")

    with link.wire() as wire:
        probe = Probe(Settings(), link, wire, keys, SystemClock(), Server({"redis_version": "6.0.16"}))
        finding = only(list(checks_server.check_redis.findings(probe)), PROBLEM)

    assert finding.text.startswith("Redis 6.0.16 at ")
    assert "upgrade to Redis 6.2" in finding.remedy


def test_the_doctor_fails_without_redis_or_a_password(url: str, configure: Configure) -> None:
    with pytest.raises(RedisUnavailable):
        examined("redis://127.0.0.1:1/0")

    configure("requirepass", "secret")

    with pytest.raises(RedisRefused, match=r"user (and|or) password"):
        examined(url)


def test_a_replica_is_a_problem_and_the_other_checks_still_run(replica: EmbeddedRedis) -> None:
    found = examined(replica.url)

    assert "is a replica of 127.0.0.1" in only(found["writes"], PROBLEM).text
    assert "only at the master" in only(found["rights"], SKIPPED).text
    assert OK is found["key types"][0].severity


def test_a_master_that_accepts_writes_without_replicas_is_a_warning(
    url: str, replica: EmbeddedRedis, sound: redis.Redis, configure: Configure
) -> None:
    eventually(lambda: sound.info("replication")["connected_slaves"] == 1)

    assert "min-replicas-to-write 0" in only(examined(url)["role"], WARNING).text

    configure("min-replicas-to-write", "1")
    eventually(lambda: sound.info("replication")["min_slaves_good_slaves"] == 1)
    assert "rejects writes without them" in only(examined(url)["role"], OK).text


@pytest.mark.parametrize(
    ("info", "problem", "command"),
    [
        ({}, "the master has no replica: ", "redis-cli -h REPLICA REPLICAOF "),
        ({"cluster_enabled": "1"}, "the master has no replica: ", "redis-cli --cluster add-node "),
        (
            {"connected_slaves": "1", "slave0": "ip=127.0.0.1,port=2,state=wait_bgsave,offset=0,lag=0"},
            "the master has no replica that is up to date (1 load its data)",
            "redis-cli -h REPLICA REPLICAOF ",
        ),
    ],
)
def test_a_master_that_only_a_replica_can_replace_and_that_has_none_is_a_warning(
    info: dict[str, str], problem: str, command: str
) -> None:
    found = only(list(check_no_replica.findings(Server(info, can_be_replaced=True))), WARNING)

    assert found.text.startswith(problem)
    assert command in found.remedy


@pytest.mark.parametrize(
    "server",
    [
        Server({}),  # no Sentinels, and no Cluster: nobody expects a replica
        Server({"role": "slave"}, can_be_replaced=True),
        Server({"connected_slaves": "1", "slave0": "ip=127.0.0.1,port=2,state=online,lag=0"}, can_be_replaced=True),
    ],
)
def test_a_server_that_needs_no_replica_or_has_one_causes_no_warning(server: Server) -> None:
    assert [] == list(check_no_replica.findings(server))


def test_a_single_node_of_a_cluster_is_a_problem_and_ends_the_checks() -> None:
    with EmbeddedRedis(tcp=True, config={"cluster-enabled": "yes"}) as server:  # a port for its bus, too
        found = examined(server.url)

    assert ["redis", "role"] == list(found)
    assert "one node of a Redis Cluster" in only(found["role"], PROBLEM).text


def test_an_older_redis_has_the_same_checks() -> None:
    older = packaged_server()
    assert older is not None

    with EmbeddedRedis(server=older) as server:
        found = examined(server.url)

    assert older.version in only(found["redis"], OK).text
    assert OK is only(found["rights"], OK).severity
    assert "hash-max-ziplist-value is 512" == only(found["hashes"], OK).text


def test_a_master_without_required_replicas_is_a_problem(url: str, sound: redis.Redis, configure: Configure) -> None:
    configure("min-replicas-to-write", "1")

    finding = only(examined(url)["writes"], PROBLEM)

    assert "Redis refuses writes: min-replicas-to-write is 1, but only 0 of its replicas are in sync" == finding.text
    sound.execute_command(*command_of(finding))
    assert OK is only(examined(url)["writes"], OK).severity


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting_that_risks_data_is_found_and_its_remedy_ends_it(
    url: str, sound: redis.Redis, configure: Configure, case: str
) -> None:
    given, check, severity, text = SETTINGS[case]
    for name, value in given.items():
        configure(name, value)

    finding = only(examined(url)[check], severity)

    assert text in finding.text
    sound.execute_command(*command_of(finding))
    assert OK is only(examined(url)[check], OK).severity


def test_eviction_that_the_settings_allow_is_a_warning(url: str, configure: Configure) -> None:
    configure("maxmemory", "100mb")
    configure("maxmemory-policy", "volatile-ttl")

    assert "allow_eviction" in only(examined(url, daemon={"allow_eviction": True})["eviction"], WARNING).text


@pytest.mark.parametrize(("share", "severity"), [(0.5, OK), (0.9, WARNING), (0.99, PROBLEM)])
def test_memory_close_to_maxmemory_is_reported(
    url: str, sound: redis.Redis, configure: Configure, share: float, severity: Severity
) -> None:
    # The server makes the ballast: what came through a connection would stay in its buffer (Valkey: for ten seconds).
    sound.setrange("ballast", 20_000_000, "x")
    configure("maxmemory", str(int(sound.info("memory")["used_memory"] / share)))

    assert "of maxmemory" in only(examined(url)["memory"], severity).text


@pytest.mark.parametrize(
    ("policy", "more", "is_refused"),
    [
        ("noeviction", {}, True),
        ("allkeys-lru", {"errorstat_OOM": "count=1"}, False),
        ("volatile-lru", {}, False),
        ("volatile-lru", {"errorstat_OOM": "count=1"}, True),  # there was no key with a time to live
    ],
)
def test_a_full_redis_refuses_writes_unless_it_evicts(policy: str, more: dict[str, str], is_refused: bool) -> None:
    server = Server({"maxmemory": "1000000", "used_memory": "1000500", "maxmemory_policy": policy} | more)

    [writes], memory = list(check_writes.findings(server)), list(check_memory.findings(server))

    assert ([PROBLEM, []] if is_refused else [OK, [OK]]) == [writes.severity, [one.severity for one in memory]]


def test_a_small_bound_of_compact_hashes_is_advice(url: str, configure: Configure, sound: redis.Redis) -> None:
    name = next(name for name in ("hash-max-listpack-value", "hash-max-ziplist-value") if sound.config_get(name))
    configure(name, "64")

    finding = only(examined(url)["hashes"], Severity.NOTE)

    assert f"{name} is 64" in finding.text
    assert ["CONFIG", "SET", name, "512"] == command_of(finding)


def test_a_missing_append_only_file_is_a_warning_and_no_persistence_a_problem(url: str, configure: Configure) -> None:
    configure("save", "3600 1")
    configure("appendonly", "no")

    found = examined(url)
    assert "appendonly is no" in only(found["persistence"], WARNING).text
    assert "snapshots are" in only(found["append-only file"], OK).text

    configure("save", "")
    assert "a restart loses everything" in only(examined(url)["append-only file"], PROBLEM).text


def test_a_snapshot_that_failed_is_a_problem(sound_server: EmbeddedRedis, url: str, sound: redis.Redis) -> None:
    eventually(lambda: not sound.info("persistence")["rdb_bgsave_in_progress"])  # for a replica of another test
    obstacle = sound_server.folder / "dump.rdb"
    obstacle.unlink(missing_ok=True)
    obstacle.mkdir()
    (obstacle / "in the way").touch()
    try:
        sound.bgsave()
        eventually(lambda: sound.info("persistence")["rdb_last_bgsave_status"] == "err")

        assert "its last snapshot failed" in only(examined(url)["persistence"], PROBLEM).text
    finally:
        (obstacle / "in the way").unlink()
        obstacle.rmdir()
        sound.bgsave()
        eventually(lambda: sound.info("persistence")["rdb_last_bgsave_status"] == "ok")


def test_an_append_only_file_loaded_by_a_restricted_user_is_a_problem(
    url: str, sound: redis.Redis, request: pytest.FixtureRequest
) -> None:
    sound.execute_command("ACL", "SETUSER", "default", "-flushall")
    request.addfinalizer(lambda: sound.execute_command("ACL", "SETUSER", "default", "+@all"))

    finding = only(examined(url)["append-only file"], PROBLEM)

    assert "a restart drops what scripts wrote" in finding.text
    assert ["ACL", "SETUSER", "default", "~*", "&*", "+@all"] == command_of(finding)


class WrongClock(SystemClock):
    """A clock of this machine with an error."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._by_ms


@pytest.mark.parametrize(
    ("by_ms", "severity"), [(0, Severity.OK), (-5_000, Severity.WARNING), (90_000, Severity.PROBLEM)]
)
def test_a_wrong_clock_is_reported_with_its_offset(url: str, by_ms: int, severity: Severity) -> None:
    said = only(examined(url, clock=WrongClock(by_ms))["clock"], severity).text

    told = re.search(r"is ([+-][\d,]+) ms from this machine's, to within", said)
    assert told is not None
    assert -by_ms == pytest.approx(int(told[1].replace(",", "")), abs=4000)


@pytest.mark.parametrize("field", ["offset_ms", "frozen_ms"])
def test_a_leftover_test_clock_is_a_problem(url: str, sound: redis.Redis, field: str) -> None:
    sound.hset(KEYS.meta(), field, 5000)

    finding = only(examined(url)["test clock"], Severity.PROBLEM)

    assert f"{field} = 5000" in finding.text
    assert 1 == sound.execute_command(*command_of(finding))
    assert "test clock" not in unwell(examined(url))


@pytest.mark.parametrize(
    ("tzdata", "severity", "text"),
    [
        (installed().version or "", Severity.OK, str(installed())),
        ("2001a", Severity.WARNING, "schedules are planned by tzdata 2001a"),
    ],
)
def test_another_tzdata_is_a_warning(url: str, sound: redis.Redis, tzdata: str, severity: Severity, text: str) -> None:
    sound.hset(KEYS.meta(), "tzdata", tzdata)

    assert text in only(examined(url)["tzdata"], severity).text


def test_tzdata_of_an_unknown_version_is_a_warning(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_server, "installed", lambda: ZoneRules(None, "nowhere"))

    assert "of an unknown version, from nowhere" in only(examined(url)["tzdata"], Severity.WARNING).text


def test_daemons_that_report_different_tzdata_are_a_warning(url: str, sound: redis.Redis) -> None:
    report(sound, "b", daemon="d2", host="south", tzdata="2025b")
    report(sound, "c", daemon="d3", host="west")
    assert "tzdata" not in unwell(examined(url))

    report(sound, "a", daemon="d1", host="north", tzdata="2025a")

    [said] = unwell(examined(url))["tzdata"]

    assert "daemons plan by different time zone rules: 2025a (north, pid ?), 2025b (south, pid ?)" == said
