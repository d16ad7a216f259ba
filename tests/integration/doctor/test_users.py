"""The doctor's checks of the isolation of the users in deploy/redis/users.acl: Lua sandbox and databases."""

from collections.abc import Iterator

import pytest
import redis

from tests.integration.doctor.examining import KEYS, examined, only
from tests.prefix import RQ
from zsched.embedded import EmbeddedRedis, find_server, packaged_server
from zsched.health.facts import Severity
from zsched.storage.rights import Role, rights_of

pytestmark = pytest.mark.redis
OK, WARNING, PROBLEM, SKIPPED = Severity.OK, Severity.WARNING, Severity.PROBLEM, Severity.SKIPPED
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
        assert "October 2025" in finding.remedy

    finding = only(examined(unpatched.url)["sandbox"], WARNING)

    assert "CVE-2025-46818" in finding.text


def test_a_closed_sandbox_is_ok_for_every_user(patched: EmbeddedRedis) -> None:
    urls = [patched.url, *(as_user(patched, role) for role in (Role.CLIENT, Role.DAEMON, Role.WORKER))]

    for url in urls:
        assert "scripts cannot change" in only(examined(url)["sandbox"], OK).text


def test_the_sandbox_check_is_skipped_for_a_user_without_scripts(unpatched: EmbeddedRedis) -> None:
    finding = only(examined(as_user(unpatched, Role.CLIENT, "-evalsha", "-script"))["sandbox"], SKIPPED)

    assert "ask as a user who may run scripts" == finding.remedy


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

    assert "in database 3, and users are not limited to one" in finding.text


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


def test_databases_of_a_redis_without_users_cause_no_warning(empty: EmbeddedRedis) -> None:
    put(empty, 3, KEYS.meta())

    assert OK is only(examined(empty.url)["databases"], OK).severity
