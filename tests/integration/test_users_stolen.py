"""Actions that a stolen password of a user of deploy/redis/users.acl permits, and commands that each is denied."""

import base64
import pickle
import subprocess
import threading
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis
from rq import Queue
from rq.command import send_shutdown_command
from rq.job import Job
from rq.serializers import JSONSerializer

from tests.builders.bombs import Bomb
from tests.builders.leaders import know
from tests.builders.workers import RqWorkers
from tests.integration.users import GuardedRedis
from tests.prefix import RQ
from tests.waiting import WITHIN_S, eventually
from zsched import Client, RedisRefused
from zsched.embedded.guard import Guard
from zsched.storage.keys import Keys
from zsched.storage.rights import USERS, rights_of

pytestmark = pytest.mark.redis
FAR = datetime(2031, 7, 1, tzinfo=UTC)
NAMESPACE = "zsched:{default}:"
RUN = f"{RQ}:job:waiting-1940716800000"


Start = Callable[..., subprocess.Popen[bytes]]
KEYS = Keys("default")


@pytest.fixture
def stocked(guarded_server: GuardedRedis) -> GuardedRedis:
    """The server, with a one-shot and a recurring schedule waiting, and a job in a queue."""
    guarded_server.empty()
    client = Client.from_url(guarded_server.url("zsched-client"))
    with guarded_server.connect("operator") as operator:
        know(operator)
    client.schedule("tasks.note", args=("argument",), id="waiting", at=FAR)
    client.schedule("tasks.note", id="daily", cron="0 9 * * *")
    client.enqueue("tasks.note", id="queued")
    return guarded_server


@pytest.fixture
def worker_of(stocked: GuardedRedis, tmp_path: Path, guard: Guard) -> Start:
    """A function that starts an RQ worker of the user zsched-worker."""
    return RqWorkers(guard, stocked.url("zsched-worker"), tmp_path).start


WRITERS = pytest.mark.parametrize("user", ["zsched-client", "zsched-daemon", "zsched-worker", "zsched-web"])
CAN = {
    "zsched-client": [
        f"HGETALL {RUN}", f"HSET {RUN} data another", f"DEL {RUN}",  # the jobs of all
        f"LPUSH {RQ}:queue:default x", f"DEL {RQ}:queue:default", f"PUBLISH {RQ}:pubsub:worker x",
        f"HSET {RQ}:worker:w zs_guard enforce", f"HGETALL {RQ}:worker:w",
        f"HSET {NAMESPACE}meta seq 1", f"SET {NAMESPACE}lease mine", f"XADD {NAMESPACE}log 99999-1 kind put",
        f"ZADD {NAMESPACE}due:high 1 made-up", f"DEL {NAMESPACE}recurring", f"XREVRANGE {NAMESPACE}log + -",
    ],
    "zsched-daemon": [
        f"HGETALL {RUN}", f"HSET {RUN} data another", f"DEL {RQ}:queue:default", f"PUBLISH {RQ}:pubsub:worker x",
        f"SET {NAMESPACE}lease mine", f"XTRIM {NAMESPACE}log MAXLEN 0",
        f"ZREM {RQ}:finished:default x", f"ZREM {RQ}:failed:default x", f"DEL {NAMESPACE}waiting:x",
    ],
    "zsched-worker": [
        f"HGETALL {RUN}", f"HSET {RUN} data another", f"DEL {RUN}", f"DEL {RQ}:queue:default", f"SET {RQ}:suspended 1",
        f"PUBLISH {RQ}:pubsub:worker x", f"PUBLISH {NAMESPACE}wake 0", "EVAL return(1) 0",
    ],
    "zsched-scheduling-worker": [f"DEL {NAMESPACE}recurring", f"SET {RQ}:suspended 1", f"DEL {RQ}:queue:default"],
    "zsched-web": [
        f"HGETALL {RUN}", f"XRANGE {NAMESPACE}log - +", f"LRANGE {RQ}:queue:default 0 -1", f"SMEMBERS {RQ}:workers",
        f"DEL {RQ}:queue:default", f"SET {RQ}:suspended 1", f"HSET {NAMESPACE}meta seq 1",
    ],
    "operator": ["KEYS *", "CONFIG GET *", "ACL LIST", "FLUSHALL"],
}  # fmt: skip


@pytest.mark.parametrize(("user", "command"), [(user, command) for user, can in CAN.items() for command in can])
def test_redis_allows_each_action_in_the_can_column(stocked: GuardedRedis, user: str, command: str) -> None:
    with stocked.connect(user) as thief:
        thief.execute_command(*command.split(" "))

    assert [] == stocked.refused()


@WRITERS
def test_a_user_who_writes_a_queue_can_run_code_in_its_workers(
    stocked: GuardedRedis, worker_of: Start, tmp_path: Path, user: str
) -> None:
    ran = tmp_path / "ran"

    with stocked.connect(user) as thief:
        job = f"{RQ}:job:made-up".encode()
        data = zlib.compress(pickle.dumps(("builtins.len", None, (Bomb(Path.touch, ran),), {})))
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        times = {"created_at": now, "enqueued_at": now}
        thief.hset(job, mapping={"data": data, "origin": "default", "status": ""} | times)
        thief.lpush(f"{RQ}:queue:default", "made-up")
    assert 0 == worker_of("--burst", "default").wait(WITHIN_S)

    assert ran.exists()


def test_the_json_serializer_does_not_restrict_functions(
    stocked: GuardedRedis, worker_of: Start, tmp_path: Path
) -> None:
    with stocked.connect("zsched-worker") as thief:
        Queue("json", connection=thief, serializer=JSONSerializer).enqueue("os.system", f"touch {tmp_path / 'ran'}")
    assert 0 == worker_of("--burst", "--serializer", "rq.serializers.JSONSerializer", "json").wait(WITHIN_S)

    assert (tmp_path / "ran").exists()


@pytest.fixture
def result_key(stocked: GuardedRedis, worker_of: Start) -> str:
    """The key of the results of a job that an RQ worker has executed: the result is the number 8."""
    with stocked.connect("zsched-worker") as service:
        job = Queue("done", connection=service).enqueue("builtins.len", "argument")
    assert 0 == worker_of("--burst", "done").wait(WITHIN_S)
    return f"{RQ}:results:{job.id}"


def result_of(stocked: GuardedRedis, result_key: str) -> object:
    """Return what RQ tells the service that waits for the job."""
    with stocked.connect("operator") as operator:
        return Job.fetch(result_key.removeprefix(f"{RQ}:results:"), connection=operator).return_value(refresh=True)


@WRITERS
def test_a_user_who_writes_jobs_reads_and_changes_their_results(
    stocked: GuardedRedis, result_key: str, user: str
) -> None:
    assert 8 == result_of(stocked, result_key)

    with stocked.connect(user) as thief:
        [[_, fields]] = thief.execute_command("XREVRANGE", result_key, "+", "-")
        forged = base64.b64encode(pickle.dumps("forged")).decode()
        thief.xadd(result_key, fields | {b"return_value": forged})

    assert 8 == pickle.loads(base64.b64decode(fields[b"return_value"]))
    assert "forged" == result_of(stocked, result_key)
    assert [] == stocked.refused()


@WRITERS
def test_a_script_keeps_redis_busy_until_the_operator_ends_it(stocked: GuardedRedis, user: str) -> None:
    with stocked.connect("operator") as operator, stocked.connect(user) as thief:
        operator.config_set("lua-time-limit", 10)  # ms, from when on Redis answers that it is busy
        sha = thief.script_load("for _ = 1, 1e10 do end")  # a minute or two, if nobody ends it
        busy = threading.Thread(target=ended_by_error, args=(thief, sha))

        busy.start()

        eventually(lambda: is_busy(operator))
        assert busy.is_alive()
        operator.script_kill()
        busy.join(WITHIN_S)
        assert not busy.is_alive()
        assert not is_busy(operator)


def ended_by_error(thief: redis.Redis, sha: str) -> None:
    """Run the script *sha*, which another client kills."""
    with pytest.raises(redis.ResponseError, match=r"(?i)script killed by user"):
        thief.evalsha(sha, 0)


def is_busy(other: redis.Redis) -> bool:
    """Return True if Redis executes nothing for *other*."""
    try:
        other.ping()
    except redis.ResponseError as error:
        if "is busy running a script" not in str(error):  # Redis or Valkey
            raise
        return True
    return False


@WRITERS
def test_a_client_can_stop_workers(stocked: GuardedRedis, worker_of: Start, user: str) -> None:
    worker = worker_of("--name", "victim", "idle")
    with stocked.connect("operator") as operator:
        eventually(lambda: operator.pubsub_numsub(f"{RQ}:pubsub:victim")[0][1])

    with stocked.connect(user) as thief:
        send_shutdown_command(thief, "victim")

    assert worker.wait(WITHIN_S) is not None  # RQ's exit code depends on where the signal reaches it


@WRITERS
def test_a_user_has_the_same_rights_in_every_database(stocked: GuardedRedis, user: str) -> None:
    key = f"{RQ}:job:staging" if user == "zsched-worker" else f"{NAMESPACE}meta"

    with stocked.connect(user) as thief:
        thief.select(3)
        thief.hset(key, "x", "y")

    with stocked.connect("operator") as operator:
        operator.select(3)
        assert {b"x": b"y"} == operator.hgetall(key)


@WRITERS
def test_a_script_of_a_user_writes_lines_into_redis_own_log(stocked: GuardedRedis, user: str) -> None:
    with stocked.connect(user) as thief:
        sha = thief.script_load(f"redis.log(redis.LOG_WARNING, 'harmless\\n1:M forged by {user}')")
        thief.evalsha(sha, 0)

    log = (stocked.server.folder / "redis.log").read_text()
    assert f"\n1:M forged by {user}\n" in log


# -- denied -------------------------------------------------------------------------------------------


DENIED = {
    "zsched-client": [
        "FLUSHALL", "FLUSHDB", "CONFIG GET *", "KEYS *", "SCAN 0", "SLOWLOG RESET", "SHUTDOWN", "ACL LIST", "MONITOR",
        "CLIENT LIST", "EVAL return(1) 0", "SET other x", f"HGETALL {RQ}:execution:x",
        f"ZRANGE {RQ}:finished:default 0 -1", "HGET zsched:{mail}:meta seq", "PUBLISH elsewhere x",
        f"SORT {RQ}:queue:default", "REPLICAOF NO ONE",
    ],
    "zsched-daemon": [
        "FLUSHALL", "FLUSHDB", "CONFIG SET maxmemory 1", "CONFIG GET *", "KEYS *", "SCAN 0", "SHUTDOWN", "ACL LIST",
        "EVAL return(1) 0", "SET other x", f"HGETALL {RQ}:worker:w", "HGET zsched:{mail}:meta seq",
        "SUBSCRIBE elsewhere", "SAVE", "SWAPDB 0 1", f"ZADD {RQ}:deferred:default 1 x",
    ],
    "zsched-web": [
        "FLUSHALL", "CONFIG GET *", "KEYS *", "SCAN 0", "SET other x", "EVAL return(1) 0",
        f"SUBSCRIBE {RQ}:pubsub:w", "HGET zsched:{mail}:meta seq",
    ],
    "zsched-worker": [
        "FLUSHALL", "CONFIG GET *", "KEYS *", "SCAN 0", "SET other x", "HGET zsched:{default}:meta seq",
        "HSET zsched:{default}:meta seq 1", "DEL zsched:{default}:lease", "ZADD zsched:{default}:due:high 1 x",
        "XADD zsched:{default}:log * kind put", "SUBSCRIBE zsched:{mail}:wake", "CLIENT KILL ID 1",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("user", "command"), [(user, each) for user, denied in DENIED.items() for each in denied])
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
    """Redis 7.0.15 reads its AOF as its user ``default``, and leaves out what this user may not execute."""
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
    wrong = Client.from_url(guarded.url("zsched-client", with_password=False), password="wrong")
    with pytest.raises(RedisRefused, match=r"check the URL"):
        wrong.schedule("tasks.note", after=5)


def test_a_refusal_names_the_command_or_key(guarded: GuardedRedis) -> None:
    with pytest.raises(RedisRefused, match=r"(?i)no permissions to access (a|one of the) key"):
        Client.from_url(guarded.url("zsched-worker")).schedule("tasks.note", after=5)


def test_users_get_only_info_and_role_of_the_dangerous_commands(operator: redis.Redis) -> None:
    dangerous = set(operator.acl_cat("dangerous"))

    assert {"flushall", "keys", "config"} <= {command.partition("|")[0] for command in dangerous}
    for roles in USERS.values():
        assert {"info", "role"} >= dangerous & set(rights_of(roles, KEYS).commands)
