"""
Runs that take longer than their interval, with a real daemon and real ``rq worker`` processes. The runs themselves
record when they ran.

``python -m tests.faults.overlap`` is the long form: a run of 5 s each second for a minute, 4 workers, under each
policy, and a table of figures.
"""

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import redis

from tests.builders.daemons import DaemonProcess
from tests.builders.leaders import know
from tests.builders.workers import RqWorkers
from tests.prefix import RQ
from tests.waiting import ENDS_S, WITHIN_S, eventually
from zsched import Client
from zsched.core.log.fires import AdvanceEntry
from zsched.core.log.kinds import changes
from zsched.core.log.rows import Advanced
from zsched.core.occurrences.changes import Change
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log

KEYS = Keys("default")
_OVER = ("finished", "failed", "stopped", "canceled", "")  # also when its job is gone
MODES = ("skip", "queue", "allow", "cancel_previous")
LIMIT = 3  # runs that wait, with overlap="queue"
TASKS = '''
import os, redis
from rq import get_current_job

client = redis.Redis.from_url(os.environ["TASKS_REDIS"], socket_timeout=None)

def now():
    seconds, micros = client.time()
    return f"{seconds}.{micros:06}"

def work(name, seconds, gate="never"):
    """For so many *seconds*, or until something is in the list *gate*."""
    run_id = get_current_job().id
    client.set("pid:" + run_id, os.getpid())
    client.rpush(name, f"began {run_id} {now()}")
    if seconds:
        client.blmove(gate, gate, seconds)
    client.rpush(name, f"ended {run_id} {now()}")
'''


@dataclass
class Span:
    """
    The time of a run, in seconds of the server. ``ended_s`` is None for an unfinished run. ``over_s`` is its end by RQ,
    also if it was stopped.
    """

    run_id: str
    began_s: float
    over_s: float
    ended_s: float | None = None


class Stage:
    """One Redis with workers and daemons, which live as long as *guard*. The workers find the tasks in *folder*."""

    def __init__(self, guard: Guard, url: str, folder: Path) -> None:
        self._guard, self._url, self._folder = guard, url, folder
        self.redis = redis.Redis.from_url(url, socket_timeout=WITHIN_S)
        self.client, self.link = Client.from_url(url), Link.from_url(url, WITHIN_S)
        know(self.redis)
        (folder / "overlap_tasks.py").write_text(TASKS)

    def close(self) -> None:
        self.redis.close()
        self.link.pool.disconnect()

    def daemon(self, **settings: str) -> DaemonProcess:
        """Start a daemon, and wait until it leads."""
        daemon = DaemonProcess(self._guard, self._url, **settings)
        daemon.wait_for("term_began")
        return daemon

    def worker(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker of the queue default."""
        return RqWorkers(self._guard, self._url, self._folder).start("--name", name, *options)

    def workers(self, number: int) -> list[subprocess.Popen[bytes]]:
        """Start workers w0, w1, …, and wait until all of them listen."""
        started = [self.worker(f"w{n}") for n in range(number)]
        eventually(lambda: all(self.listeners(f"w{n}") for n in range(number)))
        return started

    def listeners(self, worker: str) -> int:
        """Return the number of connections that listen to the channel of *worker*."""
        return int(self.redis.execute_command("PUBSUB", "NUMSUB", f"{RQ}:pubsub:{worker}")[1])

    def schedule(self, id: str, mode: str, every: float, seconds: float, gate: str = "never", **more: Any) -> None:
        """Schedule *id* with runs that take *seconds*, or that last until something is in the list *gate*."""
        args = (f"spans:{id}", seconds, gate)
        self.client.schedule("overlap_tasks.work", args=args, id=id, every=every, overlap=mode, **more)

    def spans(self, id: str) -> list[Span]:
        """Return the runs of *id* in the order in which they began; a run that was executed twice is listed twice."""
        spans: list[Span] = []
        for line in self.redis.lrange(f"spans:{id}", 0, -1):
            what, run_id, at_s = line.decode().split(" ")
            if what == "began":
                ended_at = self.redis.hget(KEYS.rq.job(run_id), "ended_at")
                over_s = datetime.fromisoformat(ended_at.decode()).timestamp() if ended_at else float(at_s)
                spans.append(Span(run_id, float(at_s), over_s))
            else:
                next(span for span in reversed(spans) if span.run_id == run_id).ended_s = float(at_s)
        return spans

    def moves(self, id: str) -> list[Advanced]:
        """Return the outcomes of the occurrences of *id*."""
        entries = [entry for entry in Log(self.link, KEYS).entries() if entry.kind == "advance"]
        return [move for entry in entries for move in AdvanceEntry(entry).moves if move.id == id]

    def words(self, id: str) -> Counter[str]:
        """Count the occurrences of *id* by outcome."""
        return Counter(move.word for move in self.moves(id))

    def runs(self, id: str) -> list[str]:
        """Return the pushed or waiting runs of *id*, the oldest first."""
        return [KEYS.run_id(id, move.nominal_ms or 0) for move in self.moves(id) if move.outcome.is_pushed]

    def released(self, id: str) -> list[Change]:
        """Return the runs of *id* that a leader released."""
        entries = [entry for entry in Log(self.link, KEYS).entries() if entry.kind == "unblock"]
        return [change for entry in entries for change in changes(entry) if change.id == id]

    def status(self, run_id: str) -> str:
        """Return RQ's status of a run; "" for a deleted run."""
        return (self.redis.hget(KEYS.rq.job(run_id), "status") or b"").decode()

    def pid(self, run_id: str) -> int:
        """Return the pid of the process that executes *run_id*."""
        return int(eventually(lambda: self.redis.get(f"pid:{run_id}")))

    def now_s(self) -> float:
        """Return the server's time."""
        seconds, micros = self.redis.time()
        return float(seconds + micros / 1_000_000)

    def waiting(self) -> int:
        """Return the number of runs, of all schedules, that wait for others."""
        return sum(self.redis.llen(key) for key in self.redis.keys(f"{KEYS.waiting_prefix()}*"))


@dataclass(frozen=True)
class Figures:
    """The figures of *seconds* under a policy. ``gap_s``: the longest time between two runs that ran in a row."""

    mode: str
    fired: int
    deferred: int
    skipped: int
    began: int
    finished: int
    peak: int
    most_waiting: int
    gap_s: float
    is_last_finished: bool


def peak(spans: Sequence[Span]) -> int:
    """Return the largest number of runs at one time."""
    steps = [(span.began_s, 1) for span in spans] + [(span.ended_s or span.over_s, -1) for span in spans]
    now = most = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most


def play(
    stage: Stage,
    mode: str,
    every: float,
    seconds: float,
    duration_s: float = 0.0,
    is_enough: Callable[[int], bool] = lambda _: True,
) -> Figures:
    """
    Run a schedule for *duration_s*, and until *is_enough*, called with the largest number of waiting runs, returns
    True; its runs take *seconds*. Then execute all waiting runs.
    """
    stage.schedule(mode, mode, every, seconds, **({"overlap_limit": LIMIT} if mode == "queue" else {}))
    most = 0
    until_s = stage.now_s() + every + duration_s

    def is_over() -> bool:
        nonlocal most
        most = max(most, stage.waiting())
        return stage.now_s() >= until_s and is_enough(most)

    eventually(is_over, duration_s + ENDS_S)
    stage.client.pause(mode)
    eventually(lambda: all(stage.status(run) in _OVER for run in stage.runs(mode)), ENDS_S)
    words, spans = stage.words(mode), stage.spans(mode)
    gaps = [after.began_s - (before.ended_s or before.over_s) for before, after in pairwise(spans)]
    return Figures(
        mode,
        words["fired"],
        words["deferred"],
        words["overlap"],
        len(spans),
        sum(span.ended_s is not None for span in spans),
        peak(spans),
        most,
        max(gaps, default=0.0),
        bool(spans) and spans[-1].ended_s is not None,
    )


@contextmanager
def stage_of_its_own() -> Iterator[Stage]:
    """A separate stage: a Redis, four workers and a daemon."""
    with EmbeddedRedis() as server, Guard() as guard, tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        stage = Stage(guard, server.url, Path(folder))
        stage.workers(4)
        stage.daemon()
        yield stage
        stage.close()


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long each schedule is active.")
@click.option("--only", multiple=True, type=click.Choice(MODES), help="This policy; repeatable.")
def main(seconds: float, only: tuple[str, ...]) -> None:
    """Measure a run of 5 s each second, with 4 workers, under each policy; print a table of figures."""
    click.echo(f"a run of 5 s each second for {seconds:g} s, 4 workers; overlap_limit={LIMIT}")
    click.echo("policy           fired deferred skipped  began finished  peak  waiting  gap s  last finished")
    for mode in only or MODES:
        with stage_of_its_own() as stage:
            told = play(stage, mode, 1, 5, seconds)
        click.echo(
            f"{told.mode:<16} {told.fired:>5} {told.deferred:>8} {told.skipped:>7} {told.began:>6} {told.finished:>8}"
            f" {told.peak:>5} {told.most_waiting:>8} {told.gap_s:>6.2f}  {told.is_last_finished}"
        )


if __name__ == "__main__":
    main()
