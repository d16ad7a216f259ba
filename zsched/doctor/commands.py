"""Commands to copy into a shell, as remedies name them: each reaches the Redis that was looked at."""

from __future__ import annotations

import shlex
from typing import Final

import redis

from zsched.doctor.patient import Patient

_HOSTS: Final = ("localhost", "127.0.0.1")  # where redis-cli and RQ go without being told
_PORT: Final = 6379


def redis_cli(patient: Patient, *command: object) -> str:
    """
    *command* by redis-cli. Who it is sent as stands not in it: whom the settings name may seldom do what a remedy
    needs. Behind Sentinels it says MASTER, as that is another host tomorrow.
    """
    told = patient.link.pool.connection_kwargs
    host, port, path, db = (told.get(name) for name in ("host", "port", "path", "db"))
    words = ["redis-cli"]
    if path:
        words += ["-s", path]
    elif patient.link.finds_master:
        words += ["-h", "MASTER"]
    else:
        words += ["-h", host] if host and host not in _HOSTS else []
        words += ["-p", port] if port and port != _PORT else []
    words += ["--tls"] if issubclass(patient.link.pool.connection_class, redis.SSLConnection) else []
    words += ["-n", db] if db else []
    return shlex.join(map(str, (*words, *command)))


def config_set(patient: Patient, name: str, value: object) -> str:
    """What to do about a setting of Redis; the command stands at the end."""
    return f"in redis.conf, and at once: {redis_cli(patient, 'CONFIG', 'SET', name, value)}"


def rq_worker(patient: Patient, *queues: str) -> str:
    """
    That starts a worker of RQ, which reads what the namespace's clients write. RQ takes Sentinels from a module alone,
    so then it says nothing of where.
    """
    told = patient.link.pool.connection_kwargs
    is_usual = told.get("host") in _HOSTS and told.get("port", _PORT) == _PORT and not told.get("db")
    is_usual = is_usual or patient.link.finds_master
    words = ["rq", "worker"] if is_usual else ["rq", "worker", "--url", patient.wire.where]
    if patient.settings.rq.serializer == "json":
        words += ["--serializer", "json"]
    return shlex.join([*words, *queues])
