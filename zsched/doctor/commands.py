"""Commands to copy into a shell, as remedies name them: each reaches the Redis that was looked at."""

from __future__ import annotations

import re
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
    That starts a worker of RQ, which reads what the namespace's clients write. Its URL stands in the environment, as
    arguments are for all to read. RQ takes Sentinels from a module alone, so then it says nothing of where.
    """
    words = ["rq", "worker"]
    if patient.settings.rq.serializer == "json":
        words += ["--serializer", "json"]
    command = shlex.join([*words, *queues])
    if patient.link.finds_master or _is_usual(patient):
        return command
    return f"RQ_REDIS_URL={shlex.quote(_url(patient))} {command}"


def _is_usual(patient: Patient) -> bool:
    """Whether RQ goes there without being told."""
    told = patient.link.pool.connection_kwargs
    is_told = told.get("db") or told.get("password") or told.get("username")
    is_plain = not issubclass(patient.link.pool.connection_class, redis.SSLConnection)
    return is_plain and not is_told and told.get("host") in _HOSTS and told.get("port", _PORT) == _PORT


def _url(patient: Patient) -> str:
    """Of the Redis that was looked at; USER and PASSWORD stand for what is not shown, and a worker has of its own."""
    told = patient.link.pool.connection_kwargs
    who = "USER:PASSWORD@" if told.get("username") else ":PASSWORD@" if told.get("password") else ""
    return re.sub("://([^/?@]*@)?", f"://{who}", patient.link.where, count=1)
