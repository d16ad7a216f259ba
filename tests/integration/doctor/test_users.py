"""The doctor's checks of the isolation of the users in deploy/redis/users.acl: Lua sandbox and databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.integration.doctor.examining import KEYS, examined, only
from tests.prefix import RQ
from zsched.config.settings import Settings
from zsched.core.clock import SystemClock
from zsched.embedded import EmbeddedRedis, find_server, packaged_server
from zsched.health import checks_users
from zsched.health.check import Finding, Severity
from zsched.health.facts import Probe
from zsched.storage.connection import Link
from zsched.storage.rights import Role, rights_of
from zsched.storage.server import Server

pytestmark = pytest.mark.redis
OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM
PASSWORD = "secret"
ATTACK = "getmetatable('').__index = function(text, name) redis.call('SET', 'other', 'by ' .. name) end"
VICTIM = "return tostring(('x').whatever)"


@pytest.fixture(scope="module")
def unpatched() -> Iterator[EmbeddedRedis]:
    """The server of the extra ``embedded``: Redis 6.2.14."""
    binary = packaged_server()
    assert binary is not None
    with EmbeddedRedis(tcp=True, server=binary) as server:
        yield server


@pytest.fixture(scope="module")
def patched() -> Iterator[EmbeddedRedis]:
    """A server with a closed sandbox."""
    binary = find_server()
    with EmbeddedRedis(tcp=True, server=binary) as server:
        if is_open(server):
            pytest.skip(f"the sandbox of {binary.path} does not hold")
        yield server


def is_open(server: EmbeddedRedis) -> bool:
    """Try CVE-2025-46818: True if a script of one user runs code in a script of another one."""
    with redis.Redis.from_url(server.url, protocol=2) as admin:
        admin.execute_command("ACL", "SETUSER", "thief", "reset", "on", f">{PASSWORD}", "~mine", "+eval")
        with redis.Redis.from_url(server.url, username="thief", password=PASSWORD, protocol=2) as thief:
            with pytest.raises(redis.exceptions.NoPermissionError):
                thief.set("other", "by hand")
            try:
                thief.eval(ATTACK, 0)
            except redis.ResponseError:
                return False
            finally:
                admin.acl_deluser("thief")
        admin.eval(VICTIM, 0)
        wrote = admin.get("other")
        admin.script_flush()  # 6.2 makes a new interpreter
        admin.flushall()
        return wrote is not None


def as_user(server: EmbeddedRedis, role: Role, *changes: str) -> str:
    """Return the URL of a user with the rights of *role*, and *changes* in them."""
    with redis.Redis.from_url(server.url, protocol=2) as admin:
        words = [*rights_of([role], KEYS).rule.split(), *changes]
        admin.execute_command("ACL", "SETUSER", "somebody", "reset", "on", f">{PASSWORD}", *words)
    return server.tcp_url.replace("redis://", f"redis://somebody:{PASSWORD}@")


def looked_at(url: str, **info: str) -> Finding:
    """Return the findings for the server at *url*, with its INFO replaced by *info*."""
    link = Link.from_url(url, 5.0)
    try:
        with link.wire() as wire:
            probe = Probe(Settings(), link, wire, KEYS, SystemClock(), Server(info))
            [finding] = checks_users.check_sandbox.findings(probe)
    finally:
        link.pool.disconnect()
    return finding


def test_a_script_runs_as_another_user_on_an_unpatched_redis_but_the_check_changes_nothing(
    unpatched: EmbeddedRedis,
) -> None:
    assert is_open(unpatched)

    examined(unpatched.url)

    with redis.Redis.from_url(unpatched.url, protocol=2) as admin:
        assert 1 == admin.eval("return getmetatable('').__index == string and ('x'):len()", 0)
        assert b"nil" == admin.eval(VICTIM, 0)
        assert [] == admin.keys("*")


def test_an_open_sandbox_is_a_problem_for_restricted_users_and_else_a_warning(unpatched: EmbeddedRedis) -> None:
    for role in (Role.CLIENT, Role.DAEMON, Role.WORKER):
        finding = only(examined(as_user(unpatched, role), roles=(role,))["sandbox"], PROBLEM)

        assert f"Redis {unpatched.server.version} lets a script change what other users' scripts do" in finding.text
        assert "6.2.20, 7.2.11, 7.4.6, 8.0.4, 8.2.2" in finding.remedy

    finding = only(examined(unpatched.url)["sandbox"], WARNING)

    assert "CVE-2025-46818" in finding.text


def test_a_closed_sandbox_is_ok_for_every_user_also_by_a_backport(patched: EmbeddedRedis) -> None:
    urls = [patched.url, *(as_user(patched, role) for role in (Role.CLIENT, Role.DAEMON, Role.WORKER))]

    for url in urls:
        assert "scripts cannot change" in only(examined(url)["sandbox"], OK).text

    assert "has the fixes by a backport" in looked_at(patched.url, redis_version="7.0.15").text
    assert "backport" not in looked_at(patched.url, redis_version="7.2.11").text


# By whether they are patched: of Redis, and of Valkey, which also says which Redis it is like.
VERSIONS = {
    False: ("6.2.19 7.0.15 7.2.10 7.4.5 8.0.3 8.2.1", "7.2.10 8.0.5 8.1.3"),
    True: ("6.2.20 6.2.22 7.2.11 7.4.6 8.0.4 8.2.2 8.4.0 10.0.0", "7.2.11 8.0.6 8.1.4 9.0.0"),
}
INFOS: list[tuple[dict[str, str], bool]] = [({}, False)]
for is_patched, (of_redis, of_valkey) in VERSIONS.items():
    INFOS += [({"redis_version": version}, is_patched) for version in of_redis.split()]
    INFOS += [({"redis_version": "7.2.4", "valkey_version": version}, is_patched) for version in of_valkey.split()]


@pytest.mark.parametrize(("info", "is_patched"), INFOS, ids=str)
def test_the_sandbox_check_uses_the_version_for_a_user_without_scripts(
    unpatched: EmbeddedRedis, info: dict[str, str], is_patched: bool
) -> None:
    finding = looked_at(as_user(unpatched, Role.CLIENT, "-evalsha", "-script"), **info)

    assert (OK if is_patched else WARNING) is finding.severity
    assert is_patched or "ask as a user who may run scripts" in finding.remedy


@pytest.fixture
def empty(redis_server: EmbeddedRedis) -> Iterator[EmbeddedRedis]:
    """The session's server, empty and without users before and after."""
    with redis.Redis.from_url(redis_server.url, protocol=2) as admin:
        admin.flushall()
        yield redis_server
        admin.flushall()
        admin.acl_deluser("somebody")


def put(server: EmbeddedRedis, database: int, key: str) -> None:
    with redis.Redis.from_url(server.url.replace("db=0", f"db={database}"), protocol=2) as admin:
        admin.sadd(key, "x")


@pytest.mark.parametrize("role", [Role.CLIENT, Role.DAEMON])
@pytest.mark.parametrize("key", [KEYS.meta(), f"{RQ}:queues"])
def test_zsched_or_rq_keys_in_another_database_are_a_warning(empty: EmbeddedRedis, key: str, role: Role) -> None:
    put(empty, 0, f"{RQ}:queues")
    put(empty, 3, key)

    finding = only(examined(as_user(empty, role), roles=(role,))["databases"], WARNING)

    assert "in database 3, and users are not held to one" in finding.text


def test_a_user_can_write_its_keys_in_another_database(empty: EmbeddedRedis) -> None:
    put(empty, 3, KEYS.meta())

    with redis.Redis.from_url(as_user(empty, Role.CLIENT).replace("/0", "/3"), protocol=2) as client:
        assert 1 == client.delete(KEYS.meta())


def test_unrelated_keys_in_another_database_are_ok_and_unreadable_ones_skipped(empty: EmbeddedRedis) -> None:
    put(empty, 3, "zsched:{mail}:meta")

    assert "no other database" in only(examined(as_user(empty, Role.CLIENT))["databases"], OK).text

    put(empty, 3, "another")

    found = examined(as_user(empty, Role.WORKER), roles=(Role.WORKER,))["databases"]

    assert "may not look into database 3" in only(found, Severity.SKIPPED).text


def test_databases_of_a_redis_without_users_are_no_warning(empty: EmbeddedRedis) -> None:
    put(empty, 3, KEYS.meta())

    assert OK is only(examined(empty.url)["databases"], OK).severity
