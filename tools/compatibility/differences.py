"""
Differences between servers, and between RQs, that zsched or its users meet. Each answer was given by the real program.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import redis

from zsched import Client
from zsched.config.settings import Settings
from zsched.core.clock import SystemClock
from zsched.embedded import EmbeddedRedis, ServerBinary
from zsched.health.checks_rights import check_sandbox
from zsched.health.facts import Probe
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.server import Server

Question = Callable[[EmbeddedRedis, redis.Redis], str]
PUTS: Final = 5_000  # waiting one-shots, whose memory is divided by their number
_YES, _NO = "yes", "no"


def _version(server: EmbeddedRedis, client: redis.Redis) -> str:
    """
    Return the version that INFO reports. Valkey's ``redis_version`` is the version of the Redis that it is compatible
    with.
    """
    info = client.info("server")
    names = ("redis_version", "valkey_version")
    return ", ".join(f"{name} {info[name]}" for name in names if name in info)


def _sandbox(server: EmbeddedRedis, client: redis.Redis) -> str:
    link = Link.from_url(server.url, 5.0)
    with link.wire() as wire:
        info = {name: str(value) for name, value in client.info().items()}
        probe = Probe(Settings(), link, wire, Keys("default"), SystemClock(), Server(info))
        [finding] = check_sandbox.findings(probe)
    return "open" if "CVE" in finding.text else "closed"


def _dry_run(server: EmbeddedRedis, client: redis.Redis) -> str:
    return _may(client, "ACL", "DRYRUN", "default", "PING")


def _subcommands(server: EmbeddedRedis, client: redis.Redis) -> str:
    return _may(client, "ACL", "SETUSER", "somebody", "+@all", "-client|list")


def _databases(server: EmbeddedRedis, client: redis.Redis) -> str:
    return _may(client, "ACL", "SETUSER", "somebody", "db=0")


def _compact(server: EmbeddedRedis, client: redis.Redis) -> str:
    names = ("hash-max-listpack-value", "hash-max-ziplist-value")
    return next(name for name in names if client.config_get(name))


def _script_error(server: EmbeddedRedis, client: redis.Redis) -> str:
    client.rpush("list", 1)
    try:
        client.eval("return redis.call('GET', 'list')", 0)
    except redis.ResponseError as error:
        return f"`{str(error).split()[0]} …`" if str(error).startswith("WRONGTYPE") else "`ERR Error running script …`"
    return "none"


def _tls(server: EmbeddedRedis, client: redis.Redis) -> str:
    return _YES if b"SSL_CTX_new" in server.server.path.read_bytes() else _NO  # CONFIG has tls-port in either case


def _memory(server: EmbeddedRedis, client: redis.Redis) -> str:
    client.flushall()
    before = client.info("memory")["used_memory"]
    zsched = Client.from_url(server.url)
    zsched.schedule_many({"func": "app.tasks.remind", "id": f"reminder-{n}", "after": 3600} for n in range(PUTS))
    return f"{(client.info('memory')['used_memory'] - before) / PUTS:.0f} bytes ({client.info()['mem_allocator']})"


QUESTIONS: Final[dict[str, Question]] = {
    "`INFO` tells": _version,
    "Lua sandbox (CVE-2025-46818)": _sandbox,
    "rights of another user can be asked for (`zsched doctor --user`)": _dry_run,
    "a right to one subcommand can be taken away": _subcommands,
    "a user can be held to databases": _databases,
    "the setting of compact hashes": _compact,
    "a script that meets a wrong type": _script_error,
    "this binary speaks TLS": _tls,
    "a waiting one-shot takes": _memory,
}

# Run by a Python that has the RQ in question: prints what zsched or its users meet.
_OF_RQ: Final = """
import inspect, json, pathlib, rq, rq.job, rq.worker
text = "".join(file.read_text() for file in pathlib.Path(rq.__file__).parent.rglob("*.py"))
says = lambda words: "yes" if words in text else "no"
print(json.dumps({
    "version": rq.VERSION,
    "statuses `rate_limited` and `ready_to_enqueue`": says("'rate_limited'"),
    "`perform_job` takes": ", ".join(list(inspect.signature(rq.worker.Worker.perform_job).parameters)[1:]),
    "a worker asks `CLIENT INFO`, not `CLIENT LIST`": says("client_info()"),
    "rate limits of RQ's own": says("rate_limit_key"),
    "`RQ_KEY_PREFIX`": says("RQ_KEY_PREFIX"),
    "`rq cron`": says("CronScheduler"),
    "`rq cron` reads its fields in the machine's zone": says("astimezone()"),
}))
"""


def ask(binary: ServerBinary) -> dict[str, str]:
    """Return the answers of a server."""
    with EmbeddedRedis(server=binary) as server, redis.Redis.from_url(server.url, protocol=2) as client:
        return {question: answer(server, client) for question, answer in QUESTIONS.items()}


def ask_rq(python: Path) -> dict[str, str]:
    """Return the answers of the RQ that *python* has installed."""
    told = subprocess.run([str(python), "-c", _OF_RQ], check=True, capture_output=True, text=True).stdout
    return dict(json.loads(told))


def _may(client: redis.Redis, *command: str) -> str:
    try:
        client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py has no types here
    except redis.ResponseError:
        return _NO
    return _YES
