"""Guarded workers, their keys, and jobs that are forged or altered by a program with all rights in Redis."""

from __future__ import annotations

import pickle
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import redis

from tests.builders import bombs
from tests.builders.workers import RqWorkers
from tests.integration.guard import tasks
from tests.prefix import RQ
from tests.waiting import ENDS_S, WITHIN_S
from zsched import Client
from zsched.core.runs.job import SIGNATURE_FIELD
from zsched.embedded.guard import Guard
from zsched.storage.keyfile import KeyRing, SigningKey, read_keys
from zsched.storage.keys import Keys
from zsched.storage.signing import Stamp, Subject, shared_digest

ROOT = Path(__file__).parents[3]
TASKS = "tests.integration.guard.tasks"
KEYS = Keys("default")
NOT_HERE = "0" * 64
KEY_LINES = f"""
k2 {"22" * 32}
k1 {"11" * 32}
web1 {"aa" * 32} functions={TASKS}.work queues=web
"""
Bomb = partial(bombs.Bomb, tasks.boom)  # with a name


def key_file(folder: Path, text: str = KEY_LINES, name: str = "keys") -> str:
    """Write a file of keys, and return its path."""
    file = folder / name
    file.write_text(text)
    file.chmod(0o600)
    return str(file)


def call(name: str, func: str = f"{TASKS}.work", **more: Any) -> bytes:
    """Return RQ's data of a call with one argument."""
    return pickle.dumps((func, more.get("instance"), more.get("args", (name,)), more.get("kwargs", {})), 5)


@dataclass
class Forge:
    """
    A program that writes jobs by hand. ``client`` signs with the first key of the file.
    """

    url: str
    folder: Path
    redis: redis.Redis
    client: Client
    ring: KeyRing

    @classmethod
    def of(cls, url: str, folder: Path, client_of_redis: redis.Redis) -> Forge:
        """Return a forge at *url*, with a file of keys in *folder*."""
        file = key_file(folder)
        client = Client.from_url(url, timeout_s=2 * WITHIN_S, signing_keys_file=file)
        return cls(url, folder, client_of_redis, client, read_keys(file))

    @property
    def receipts(self) -> set[str]:
        """The names of all that ran."""
        return {file.name for file in (self.folder / "receipts").glob("*")}

    # -- jobs -----------------------------------------------------------------------------------------

    def enqueue(self, name: str, func: str = f"{TASKS}.work", **options: Any) -> str:
        """Enqueue a signed run whose task leaves the receipt *name*; return its id."""
        options.setdefault("args", (name,))
        run_id = self.client.enqueue(func, id=name, **options).run_id
        assert run_id is not None
        return run_id

    def alter(self, run_id: str, **fields: Any) -> str:
        """Change *fields* of a job; None deletes one."""
        for name, value in fields.items():
            if value is None:
                self.redis.hdel(KEYS.rq.job(run_id), name)
            else:
                self.redis.hset(KEYS.rq.job(run_id), name, value)
        return run_id

    def fields(self, run_id: str) -> dict[str, Any]:
        """Return the hash of a job."""
        return {name.decode(): value for name, value in self.redis.hgetall(KEYS.rq.job(run_id)).items()}

    def push(self, run_id: str, fields: Mapping[str, Any], queue: str = "default") -> str:
        """Write a job and push it."""
        whole = {"status": "queued", "timeout": "180", "origin": queue, "description": "forged"} | dict(fields)
        self.redis.hset(KEYS.rq.job(run_id), mapping=whole)
        self.redis.rpush(f"{RQ}:queue:{queue}", run_id)
        return run_id

    def copy(self, run_id: str, to: str, **fields: Any) -> str:
        """Push the job of *run_id* under another id; take it out of its queue."""
        self.redis.lrem(f"{RQ}:queue:default", 0, run_id)
        return self.push(to, self.fields(run_id) | fields)

    def signed(
        self, fields: Mapping[str, Any], subject: Subject, name: str, *, namespace: str = "default", **more: Any
    ) -> dict[str, Any]:
        """Return *fields* with a signature by ``key`` (k2), valid ``for_s`` (an hour)."""
        whole = {"timeout": "180", "origin": "default"} | dict(fields)
        key: SigningKey = more.get("key", self.ring.keys["k2"])
        until_s = int(time.time()) + more.get("for_s", 3600)
        sig = Stamp(key, subject, shared_digest(namespace, whole), until_s).sign(name, whole["data"])
        return whole | {SIGNATURE_FIELD: sig}

    # -- workers --------------------------------------------------------------------------------------

    def settings(self, **more: str) -> dict[str, str]:
        """Return the environment of an enforcing worker."""
        own = {
            "ZSCHED_WORKER_GUARD": "enforce",
            "ZSCHED_WORKER_TASK_MODULES": TASKS,
            "ZSCHED_WORKER_ALLOW_CALLABLES": f"{TASKS}.called_back",
            "ZSCHED_SIGNING_KEYS_FILE": str(self.folder / "keys"),
        }
        return own | more

    def start(
        self, guard: Guard, kind: str, *options: str, queues: tuple[str, ...] = ("default",), **settings: str
    ) -> subprocess.Popen[bytes]:
        """Start a worker of the class *kind*."""
        (self.folder / "receipts").mkdir(exist_ok=True)
        own = {tasks.FOLDER: str(self.folder / "receipts")} | self.settings(**settings)
        workers = RqWorkers(guard, self.url, self.folder)
        return workers.start("--worker-class", kind, *options, *queues, **own)

    def burst(self, guard: Guard, kind: str = "zsched.rq.SimpleWorker", *options: str, **more: Any) -> None:
        """Let a worker empty the queues."""
        worker = self.start(guard, kind, "--burst", *options, **more)
        assert 0 == worker.wait(ENDS_S), (self.folder / "worker.log").read_text()[-3000:]

    @property
    def log(self) -> str:
        """The log of all workers."""
        return (self.folder / "worker.log").read_text()
