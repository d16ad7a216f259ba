"""The doctor's checks of a user's rights, with real users of a real Redis that lack rights."""

from collections.abc import Iterator

import pytest
import redis

from tests.integration.doctor.examining import KEYS, command_of, examined, only
from tests.prefix import RQ
from zsched.embedded import EmbeddedRedis, ServerBinary, find_server, packaged_server
from zsched.health.checks_rights import form_of, rehearsed
from zsched.health.facts import Severity
from zsched.storage.connection import Link
from zsched.storage.rights import Role, acl_file, rights_of

PASSWORD = "secret"
OK, PROBLEM, SKIPPED = Severity.OK, Severity.PROBLEM, Severity.SKIPPED
SERVERS = {"older": packaged_server(), "usual": find_server()}


@pytest.fixture(scope="module", params=SERVERS)
def any_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedRedis]:
    """A server from before users' rights could be queried, and the usual one."""
    binary: ServerBinary | None = SERVERS[request.param]
    assert binary is not None
    with EmbeddedRedis(tcp=True, server=binary) as server:
        yield server


@pytest.fixture
def admin(any_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A client with all rights; users are deleted after the test."""
    with redis.Redis.from_url(any_server.url, protocol=2) as client:
        client.flushall()
        yield client
        for user in client.acl_users():
            if user != "default":
                client.acl_deluser(user)


def user(admin: redis.Redis, server: EmbeddedRedis, role: Role, *more: str) -> str:
    """Make a user with the rights of *role*, changed by *more*, and return its URL."""
    words = rights_of([role], KEYS).rule.split()
    admin.execute_command("ACL", "SETUSER", "somebody", "reset", "on", f">{PASSWORD}", *words, *more)
    return server.tcp_url.replace("redis://", f"redis://somebody:{PASSWORD}@")


@pytest.mark.parametrize("role", Role)
def test_a_user_with_the_rights_of_its_role_is_ok(admin: redis.Redis, any_server: EmbeddedRedis, role: Role) -> None:
    url = user(admin, any_server, role)

    assert f"user somebody has all rights of the role {role}" in only(examined(url, roles=(role,))["rights"], OK).text


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("zsched-client", (Role.CLIENT,)),
        ("zsched-daemon", (Role.DAEMON,)),
        ("zsched-worker", (Role.WORKER,)),
        ("zsched-scheduling-worker", (Role.WORKER, Role.CLIENT)),
        ("zsched-web", (Role.WEB,)),
    ],
)
def test_the_users_of_users_acl_are_ok(
    admin: redis.Redis, any_server: EmbeddedRedis, name: str, roles: tuple[Role, ...]
) -> None:
    [line] = [line for line in acl_file(KEYS).splitlines() if line.startswith(f"user {name} ")]
    words = [word for word in line.split()[2:] if not word.startswith("#")]
    admin.execute_command("ACL", "SETUSER", name, *words, f">{PASSWORD}")
    url = any_server.tcp_url.replace("redis://", f"redis://{name}:{PASSWORD}@")

    assert OK is only(examined(url, roles=roles)["rights"], OK).severity


@pytest.mark.parametrize("right", ["copy", "rpush", "memory|usage", "evalsha", "get"])
def test_a_missing_command_right_has_its_remedy(admin: redis.Redis, any_server: EmbeddedRedis, right: str) -> None:
    command = right.partition("|")[0]  # 6.2 takes away whole commands only
    url = user(admin, any_server, Role.DAEMON, "+multi", "+discard", f"-{command}")  # without scripts, by a rehearsal

    found = examined(url)["rights"]

    assert ["ACL", "SETUSER", "somebody", f"+{right}"] == command_of(only(found, PROBLEM))


@pytest.mark.parametrize("lacking", [f"{RQ}:queue:*", f"{RQ}:job:*", KEYS.prefix + "*"])
def test_a_missing_key_right_is_named(admin: redis.Redis, any_server: EmbeddedRedis, lacking: str) -> None:
    kept = [f"~{key}" for key in rights_of([Role.DAEMON], KEYS).keys if key != lacking]
    url = user(admin, any_server, Role.DAEMON, "resetkeys", *kept)

    assert ["ACL", "SETUSER", "somebody", f"~{lacking}"] == command_of(only(examined(url)["rights"], PROBLEM))


def test_a_missing_channel_right_is_named_and_granting_all_that_is_missing_helps(
    admin: redis.Redis, any_server: EmbeddedRedis
) -> None:
    url = user(admin, any_server, Role.DAEMON, "resetchannels", f"&{RQ}:pubsub:*")

    assert ["ACL", "SETUSER", "somebody", f"&{KEYS.wake()}"] == command_of(only(examined(url)["rights"], PROBLEM))

    url = user(admin, any_server, Role.DAEMON, "-copy", "-xadd", "-lpos", "resetchannels")

    admin.execute_command(*command_of(only(examined(url)["rights"], PROBLEM)))

    assert OK is only(examined(url)["rights"], OK).severity


def test_the_rights_check_writes_nothing(admin: redis.Redis, any_server: EmbeddedRedis) -> None:
    admin.set("something", "else")

    examined(any_server.url)
    with Link.from_url(any_server.url, 5.0).wire() as wire:
        wire.execute("MULTI")
        asked = rehearsed(wire)
        may = [asked(*form_of(name, "something", "c")) for name in rights_of([Role.WORKER], KEYS).commands]
        wire.execute("DISCARD")

    assert all(may)
    assert [b"something"] == admin.keys("*")
    assert b"else" == admin.get("something")


@pytest.mark.parametrize("role", Role)
def test_rights_are_asked_for_commands_in_valid_form(admin: redis.Redis, any_server: EmbeddedRedis, role: Role) -> None:
    at_once = {"multi", "exec", "discard", "watch", "unwatch"}
    commands = [name for name in rights_of([role], KEYS).commands if name not in at_once]

    with Link.from_url(any_server.url, 5.0).wire() as wire:
        wire.execute("MULTI")
        replies = {name: wire.execute(*form_of(name, "key", "channel")) for name in commands}
        wire.execute("DISCARD")

    assert {b"QUEUED"} == set(replies.values())


def test_the_rights_check_is_skipped_if_redis_refuses_writes(admin: redis.Redis, any_server: EmbeddedRedis) -> None:
    admin.config_set("min-replicas-to-write", 1)
    try:
        found = examined(any_server.url)
    finally:
        admin.config_set("min-replicas-to-write", 0)

    assert (OK if any_server.server.release >= (7,) else SKIPPED) is found["rights"][0].severity
    assert OK is only(found["rq's cron"], OK).severity


def test_a_user_who_may_not_check_its_rights_gets_a_remedy(admin: redis.Redis, any_server: EmbeddedRedis) -> None:
    url = user(admin, any_server, Role.DAEMON, "-evalsha", "-multi")

    finding = only(examined(url)["rights"], SKIPPED)

    assert "user somebody may not query its own rights: " in finding.text
    assert ("--user NAME" if any_server.server.release >= (7,) else "+multi +discard") in finding.remedy


def test_the_rights_of_another_user_are_checked_by_a_dry_run(sound: redis.Redis, sound_server: EmbeddedRedis) -> None:
    if sound_server.server.release < (7,):
        assert "before Redis 7" in only(examined(sound_server.url, user="somebody")["rights"], SKIPPED).text
        return
    user(sound, sound_server, Role.CLIENT, "-rpush")
    try:
        finding = only(examined(sound_server.url, roles=(Role.CLIENT,), user="somebody")["rights"], PROBLEM)
        assert ["ACL", "SETUSER", "somebody", "+rpush"] == command_of(finding)

        nobody = only(examined(sound_server.url, user="nobody")["rights"], PROBLEM)
        assert "there is no user nobody" == nobody.text
        assert ["ACL", "USERS"] == command_of(nobody)
    finally:
        sound.acl_deluser("somebody")


def test_a_user_with_only_the_right_to_info_gets_skipped_checks(admin: redis.Redis, any_server: EmbeddedRedis) -> None:
    admin.execute_command("ACL", "SETUSER", "somebody", "reset", "on", f">{PASSWORD}", "+info", "+ping", "+select")
    url = any_server.tcp_url.replace("redis://", f"redis://somebody:{PASSWORD}@")

    found = examined(url)

    silent = [check for check, findings in found.items() if not findings]
    assert [] == silent
    assert "config" in only(found["hashes"], SKIPPED).text
    assert "hlen" in only(found["quarantine"], SKIPPED).text
    assert OK is only(found["eviction"], OK).severity  # INFO tells it


def test_a_check_that_may_not_read_its_keys_is_skipped_not_ok(admin: redis.Redis, any_server: EmbeddedRedis) -> None:
    admin.execute_command("ACL", "SETUSER", "somebody", "reset", "on", f">{PASSWORD}", "+@all", "~zsched:*")
    url = any_server.tcp_url.replace("redis://", f"redis://somebody:{PASSWORD}@")

    found = examined(url)

    for check in ("queues", "rq's scheduler", "rq-scheduler", "rq's cron"):
        assert SKIPPED is only(found[check], SKIPPED).severity
    assert [OK, SKIPPED] == sorted((one.severity for one in found["key types"]), key=lambda severity: severity.value)
