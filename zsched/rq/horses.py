"""
The start of RQ's SpawnWorker's processes, one for each task, without secrets that all users of the machine can read.

RQ writes the arguments of the connection into the command line of ``python -c``, which ``ps`` shows. Here each text
among them, such as user and password, is given by the environment, which only the process's own user and root can read.
The process takes it out again before the task begins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import redis
import rq
from rq.worker import BaseWorker

_VARIABLE: Final = "_ZSCHED_{}"  # of an argument of the connection; settings begin with ZSCHED_


class HidesSecrets(BaseWorker):
    """A part of a worker class, before one of RQ's: if that spawns a process for each task, ``ps`` shows no secret."""

    def fork_work_horse(self, *args: Any) -> None:
        """Start the process of a task."""
        if not isinstance(self, rq.SpawnWorker):
            super().fork_work_horse(*args)  # type: ignore[misc]  # of all classes that have processes for tasks
            return
        with _hidden(self.connection):
            super().fork_work_horse(*args)  # type: ignore[misc]


@contextmanager
def _hidden(connection: redis.Redis) -> Iterator[None]:
    """Let Python's source of the arguments of *connection* be that of their reading from the environment."""
    given = connection.connection_pool.connection_kwargs
    texts = {name: value for name, value in given.items() if isinstance(value, str | bytes)}
    variables = {_VARIABLE.format(name): ascii(value) for name, value in texts.items()}
    os.environ |= variables
    given |= {name: _from_environment(name, value) for name, value in texts.items()}
    try:
        yield
    finally:
        given |= texts
        for variable in variables:
            del os.environ[variable]


def _from_environment(name: str, value: str | bytes) -> Any:
    """Return a text equal to *value*, for the threads that connect meanwhile, with another source."""
    source = f"__import__('ast').literal_eval(__import__('os').environ.pop({_VARIABLE.format(name)!r}))"
    kind = type(value)
    return type("Hidden", (kind,), {"__repr__": lambda _: source})(value)
