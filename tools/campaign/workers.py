"""
The receivers of runs: ordinary RQ workers, and a quick thread for queues that would keep workers busy for minutes.

A worker forks for each run, which is a few dozen a second on a small machine. Runs by the thousand go to separate
queues, which a thread here empties; to zsched it looks the same.
"""

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import redis
from rq.utils import now, utcformat

from tests.builders.redises import connect
from tests.prefix import RQ
from tools.campaign import receipts
from zsched.embedded import Guard

QUEUE, BULK, ODD = "default", "bulk", "odd"  # of the workers; of the quick hand; of the quick hand, and broken at times
_MODULE = "tools.campaign.receipts"
_PAGE = 500
_IDLE_S = 0.02
_KEPT_S = 500  # as RQ keeps results
# Of a job that was lost meanwhile nothing is made.
_FINISH = f"""
local kept_s, registry, began, ended = tonumber(ARGV[1]), unpack(ARGV, 2, 4)
local until_s = redis.call('TIME')[1] + kept_s
for i = 5, #ARGV do
  local key = '{RQ}:job:' .. ARGV[i]
  if redis.call('EXISTS', key) == 1 then
    redis.call('HSET', key, 'status', 'finished', 'started_at', began, 'ended_at', ended)
    redis.call('EXPIRE', key, kept_s)
    redis.call('ZADD', registry, until_s, ARGV[i])
  end
end
"""


class Workers:
    """RQ workers (``rq worker``); ``look_after`` restarts a worker that ended."""

    def __init__(self, guard: Guard, url: str, folder: Path, number: int = 2) -> None:
        self._guard, self._url, self._folder = guard, url, folder
        self._running: list[subprocess.Popen[bytes] | None] = [None] * number
        self.starts = 0

    def look_after(self) -> None:
        """Start the workers that do not run."""
        for n, process in enumerate(self._running):
            if process is None or process.poll() is not None:
                self._running[n] = self._start()

    def stop(self) -> None:
        """End the workers like a service manager: each finishes its run."""
        processes = [process for process in self._running if process is not None]
        for process in processes:
            process.terminate()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
        self._running = [None] * len(self._running)

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        command = [sys.executable, "-m", "rq.cli", "worker", "--url", self._url, "--config", _MODULE, "--quiet", QUEUE]
        env = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
        env |= {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            receipts.PATH_VARIABLE: str(self._folder / "receipts.txt"),
        }
        with (self._folder / f"worker-{self.starts}.txt").open("wb") as output:
            return self._guard.spawn(command, stdout=output, stderr=output, env=env)


class QuickHand:
    """
    A thread that takes runs by the hundred from separate queues, and leaves them like RQ: finished, and in the
    registry.
    """

    def __init__(self, url: str, path: Path) -> None:
        self._url, self._path = url, path
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop taking runs."""
        self._stopping.set()
        self._thread.join(10)

    def _work(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(redis.RedisError, OSError), connect(self._url) as client:
                while not self._stopping.is_set():
                    if not sum(self._take(client, queue) for queue in (BULK, ODD)):
                        self._stopping.wait(_IDLE_S)
            self._stopping.wait(_IDLE_S)

    def _take(self, client: Any, queue: str) -> int:
        """Take a page of *queue*; return 0 for a key that is not a list."""
        try:
            runs = [run.decode() for run in client.lpop(f"{RQ}:queue:{queue}", _PAGE) or []]
        except redis.ResponseError:
            return 0
        if runs:
            began = utcformat(now())
            receipts.write(self._path, runs)
            client.eval(_FINISH, 0, _KEPT_S, f"{RQ}:finished:{queue}", began, utcformat(now()), *runs)
        return len(runs)
