"""Commands that each user of deploy/redis/users.acl is denied, and the answers of Redis."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from tests.integration.users import GuardedRedis
from tests.prefix import RQ
from zsched import Client, RedisRefused
from zsched.embedded.guard import Guard
from zsched.storage.keys import Keys
from zsched.storage.rights import USERS, rights_of

pytestmark = pytest.mark.redis

KEYS = Keys("default")

FAR = datetime(2031, 7, 1, tzinfo=UTC)

DENIED = {
    "zsched-client": [
        "FLUSHALL", "FLUSHDB", "CONFIG GET *", "KEYS *", "SCAN 0", "SLOWLOG RESET", "SHUTDOWN", "ACL LIST", "MONITOR",
        "CLIENT LIST", "EVAL return(1) 0", "SET other x", f"HGETALL {RQ}:worker:w",
        f"ZRANGE {RQ}:finished:default 0 -1", "HGET zsched:{mail}:meta seq", "PUBLISH elsewhere x",
        "HSET zsched-web:{default}:tokens x y", "HGETALL zsched-web:{default}:tokens",
        "HSET zsched-web:{default}:people x y", "SET zsched-web:{default}:session:x y",
        f"SORT {RQ}:queue:default", "REPLICAOF NO ONE",
    ],
    "zsched-daemon": [
        "FLUSHALL", "FLUSHDB", "CONFIG SET maxmemory 1", "CONFIG GET *", "KEYS *", "SCAN 0", "SHUTDOWN", "ACL LIST",
        "EVAL return(1) 0", "SET other x", f"HGETALL {RQ}:worker:w", "HGET zsched:{mail}:meta seq",
        "SUBSCRIBE elsewhere", "SAVE", "SWAPDB 0 1",
    ],
    "zsched-web": [
        "FLUSHALL", "CONFIG GET *", "KEYS *", "SCAN 0", "SET other x", "HGET zsched-web:{mail}:tokens x",
        "HGET zsched-web:{mail}:people x", "SET zsched-web:{mail}:session:x y", "EVAL return(1) 0",
        f"SUBSCRIBE {RQ}:pubsub:w", "HGET zsched:{mail}:meta seq",
    ],
    "zsched-worker": [
        "FLUSHALL", "CONFIG GET *", "KEYS *", "SCAN 0", "SET other x", "HGET zsched:{default}:meta seq",
        "HSET zsched:{default}:meta seq 1", "DEL zsched:{default}:lease", "ZADD zsched:{default}:due:high 1 x",
        "XADD zsched:{default}:log * kind put", "SUBSCRIBE zsched:{default}:wake", "CLIENT KILL ID 1",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("user", "command"), [(user, command) for user, denied in DENIED.items() for command in denied]
)
def test_a_command_that_a_user_does_not_need_is_denied(guarded: GuardedRedis, user: str, command: str) -> None:
    with guarded.connect(user) as connected, pytest.raises(redis.exceptions.NoPermissionError):
        connected.execute_command(*command.split(" "))


@pytest.mark.parametrize("user", ["zsched-client", "zsched-worker"])
def test_a_user_can_write_only_the_jobs_of_another_namespace(
    guarded: GuardedRedis, operator: redis.Redis, user: str
) -> None:
    mail = Client.from_url(guarded.url("operator"), namespace="mail")
    waiting = mail.schedule("tasks.note", id="waiting", at=FAR)
    mail.schedule("tasks.note", id="daily", cron="0 9 * * *")
    held = operator.keys("zsched:{mail}:*")

    with guarded.connect(user) as connected:
        connected.hset(f"{RQ}:job:{waiting.run_id}", "description", "another")
        for key in held:
            for command in ("TTL" if user == "zsched-worker" else "PTTL", "HGETALL", "HSET", "ZADD", "XADD"):
                rest = {"HSET": ["x", "y"], "ZADD": ["1", "x"], "XADD": ["*", "x", "y"]}.get(command, [])
                with pytest.raises(redis.exceptions.NoPermissionError):
                    connected.execute_command(command, key, *rest)

    assert b"another" == operator.hget(f"{RQ}:job:{waiting.run_id}", "description")
    assert [b"zsched:{mail}:due:normal"] == [key for key in held if b":due:" in key]


@pytest.mark.parametrize("user", USERS)
def test_a_script_has_no_more_rights_than_its_user(guarded: GuardedRedis, operator: redis.Redis, user: str) -> None:
    sha = operator.script_load("return redis.call(unpack(ARGV))")

    with guarded.connect(user) as connected:
        for command in (f"GETSET {RQ}:job:x y", "LPUSH other x", "HGETALL zsched:{mail}:meta", "FLUSHALL", "KEYS *"):
            refused = r"executing the script can't (run this command|access)|^ACL failure in script: "  # 7.0, and later
            with pytest.raises(redis.ResponseError, match=refused):
                connected.evalsha(sha, 0, *command.split(" "))

    assert {b"zsched:{default}:meta"} == set(operator.keys("*"))  # by know()


def test_keys_written_by_restricted_users_survive_a_restart(tmp_path: Path, guard: Guard) -> None:
    """
    Redis (7.0.15) reads its AOF as its user ``default``, and leaves out each transaction that this user may not
    execute.
    """
    restarted = GuardedRedis(tmp_path, guard, appendonly=True)
    Client.from_url(restarted.url("zsched-client")).schedule("tasks.note", id="waits", at=FAR)
    with restarted.connect("operator") as operator:
        before = sorted(operator.keys("*"))

    restarted.restart()

    with restarted.connect("operator") as operator:
        assert before == sorted(operator.keys("*"))
    assert "waits" == Client.from_url(restarted.url("zsched-client")).get("waits").id


def test_redis_refuses_connections_without_a_password(guarded: GuardedRedis) -> None:
    stranger = redis.Redis.from_url(guarded.server.tcp_url, protocol=2)
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    for password in ("", "default"):
        with stranger, pytest.raises(redis.AuthenticationError):
            stranger.execute_command("AUTH", "default", password)
    with pytest.raises(RedisRefused, match=r"check the URL"):
        Client.from_url(guarded.url("zsched-client", with_password=False), password="wrong").schedule(
            "tasks.note", after=5
        )


def test_a_refusal_names_the_command_or_key(guarded: GuardedRedis) -> None:
    worker = Client.from_url(guarded.url("zsched-worker"))

    with pytest.raises(RedisRefused, match=r"(?i)no permissions to access (a|one of the) key"):
        worker.schedule("tasks.note", after=5)


def test_users_get_only_info_and_role_of_the_dangerous_commands(operator: redis.Redis) -> None:
    dangerous = set(operator.acl_cat("dangerous"))

    assert {"flushall", "keys", "config"} <= {command.partition("|")[0] for command in dangerous}
    for roles in USERS.values():
        assert {"info", "role"} >= dangerous & set(rights_of(roles, KEYS).commands)
