"""RQ's workers: as processes, in the process of a test, and steps that have different names in its versions."""

import os
import signal
import subprocess
import sys
from inspect import signature
from pathlib import Path

import redis
from rq import Queue, SimpleWorker, Worker
from rq.executions import Execution
from rq.job import Job

from tests.documents import PROJECT
from tests.waiting import ENDS_S
from zsched.embedded.guard import Guard


class RqWorkers:
    """
    Processes of ``rq worker``, which end with *guard*. They import the modules of *folder*, where *tasks* is the module
    ``tasks``, and those of the tests. Their output is in ``worker.log`` there.
    """

    def __init__(self, guard: Guard, url: str, folder: Path, tasks: str = "", python: str = sys.executable) -> None:
        self._guard, self._url, self.folder, self._python = guard, url, folder, python
        if tasks:
            (folder / "tasks.py").write_text(tasks)

    def start(self, *arguments: str, module: str = "rq.cli", **settings: str) -> subprocess.Popen[bytes]:
        """
        Start a worker of the queues in *arguments*, or of the queue default, with *settings* in its environment.
        *module* has the command.
        """
        path = os.pathsep.join([str(self.folder), str(PROJECT), os.environ.get("PYTHONPATH", "")])
        env = os.environ | {"RQ_REDIS_URL": self._url, "TASKS_REDIS": self._url, "PYTHONPATH": path} | settings
        command = [self._python, "-m", module, "worker", *arguments]
        with (self.folder / "worker.log").open("ab") as log:
            return self._guard.spawn(command, cwd=self.folder, env=env, stdout=log, stderr=log)

    def work(self, *arguments: str, **settings: str) -> None:
        """Let a worker execute all that waits."""
        assert 0 == self.start("--burst", *arguments, **settings).wait(ENDS_S), self.log

    @property
    def log(self) -> str:
        """The output of all workers."""
        return (self.folder / "worker.log").read_text()


def work_off(queue: Queue, client: redis.Redis, *more: Queue, most: int | None = None) -> None:
    """Execute all jobs (*most*: at most so many) in *queue*, and in *more* of the same serializer, in this process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    try:
        SimpleWorker([queue, *more], connection=client, serializer=queue.serializer).work(burst=True, max_jobs=most)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def perform(worker: Worker, job: Job, queue: Queue, execution: Execution) -> None:
    """Perform *job*; RQ 3's ``perform_job`` also takes the execution, which RQ 2's worker knows by itself."""
    arguments = (job, queue, execution)
    worker.perform_job(*arguments[: len(signature(worker.perform_job).parameters)])
