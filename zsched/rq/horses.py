"""
The start of RQ's SpawnWorker's processes, one for each task, without secrets that all users of the machine can read.

RQ writes the arguments of the connection into the command line of ``python -c``, which ``ps`` shows. Here each text
among them, such as user and password, is given by the environment, which only the process's own user and root can read.
The process takes it out again before the task begins.
"""

from __future__ import annotations

import os
from typing import Any, Final

import rq
from rq.worker import BaseWorker

_VARIABLE: Final = "_ZSCHED_{}"  # of an argument of the connection; settings begin with ZSCHED_


class HidesSecrets(BaseWorker):
    """A part of a worker class, before one of RQ's: if that spawns a process for each task, ``ps`` shows no secret."""

    def fork_work_horse(self, *args: Any) -> None:
        """Start the process of a task. RQ writes the arguments into its source as their ``repr``."""
        is_spawned = isinstance(self, rq.SpawnWorker)  # otherwise it inherits the connection
        given = self.connection.connection_pool.connection_kwargs if is_spawned else {}
        texts = {name: value for name, value in given.items() if isinstance(value, str | bytes)}
        variables = {_VARIABLE.format(name): ascii(value) for name, value in texts.items()}
        os.environ |= variables
        given |= {name: _from_environment(name, value) for name, value in texts.items()}
        try:
            super().fork_work_horse(*args)  # type: ignore[misc]  # of all classes that start processes
        finally:
            given |= texts
            for variable in variables:
                del os.environ[variable]


def _from_environment(name: str, value: str | bytes) -> Any:
    """Return a text equal to *value*, for the threads that connect meanwhile, with another ``repr``."""
    source = f"__import__('ast').literal_eval(__import__('os').environ.pop({_VARIABLE.format(name)!r}))"
    kind = type(value)
    return type("Hidden", (kind,), {"__repr__": lambda _: source})(value)
