"""
The processes of the benchmark: ``python -m bench.children ROLE URL [NUMBER …]``.

A daemon here is what ``zsched daemon`` runs, with default settings and without the environment's; its archive is
in a folder of its own, which goes when it ends.
"""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import redis
from rq.defaults import DEFAULT_RESULT_TTL
from rq.scheduler import RQScheduler

from bench.arena import Arena, Ground
from bench.load import FUNC, QUEUE_KEY, RQ
from bench.results import Broken
from zsched.client import Client
from zsched.config.settings import load_settings
from zsched.core.clock import SystemClock
from zsched.core.runs.job import rq_time
from zsched.daemon import archivist, process
from zsched.daemon.archiver import Archiver
from zsched.daemon.chores import ChoreThread
from zsched.embedded.guard import Guard

CHECKOUT = Path(__file__).resolve().parents[1]  # where ``bench`` and ``zsched`` are
_STOP_S = 10.0  # from SIGTERM to exit
_NICE = -5  # of the units in deploy/systemd
_ENDS = 100  # runs that end at the same moment
TIMER_KEY = "bench:timer"  # where the role timer tells its lateness
HTTP_KEY = "bench:http"  # is there when the role http has begun to put
_FAR_S = 86_400  # when the puts beside a measurement are due: after it


def spawn(arena: Arena, told: IO[bytes], state: Path, role: str, url: str, *numbers: int) -> subprocess.Popen[bytes]:
    """Start a process in *role*, which logs to *told* and keeps files in *state*."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHECKOUT), environment.get("PYTHONPATH"))))
    environment["STATE_DIRECTORY"] = str(state)
    command = [sys.executable, "-m", "bench.children", role, url, *map(str, numbers)]
    return arena.guard.spawn(command, stdout=subprocess.DEVNULL, stderr=told, env=environment)


def end(child: subprocess.Popen[bytes]) -> None:
    """
    Stop *child* in order and wait for it.

    Raises:
        Broken: it did not end by itself.
    """
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    try:
        child.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        raise Broken(f"a process was still there {_STOP_S:.0f} s after SIGTERM") from None


@contextmanager
def folder(arena: Arena) -> Iterator[Path]:
    """An empty folder, which goes at the block's end, or with the benchmark."""
    with tempfile.TemporaryDirectory(prefix="zsched-") as made:
        arena.guard.remove_at_end(Path(made))
        yield Path(made)


@contextmanager
def running(
    arena: Arena, role: str, url: str, *numbers: int, state: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """
    A process in *role* during the block, with its files in *state*, else in a folder of its own. If the block
    breaks, its last words are in the error.
    """
    with ExitStack() as stack:
        told = stack.enter_context(tempfile.TemporaryFile())
        child = spawn(arena, told, state or stack.enter_context(folder(arena)), role, url, *numbers)
        try:
            yield child
        except Broken as error:
            told.seek(0)
            last = b"".join(told.readlines()[-1:]).decode(errors="replace").strip()
            raise Broken(f"{error}; the {role} said: {last or 'nothing'}") from error
        finally:
            end(child)


@contextmanager
def leader(
    arena: Arena, ground: Ground, role: str = "daemon", state: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon during the block, which begins when it leads. *state*: as of ``running``."""
    with running(arena, role, ground.url, state=state) as child:
        arena.wait_for("a daemon leads", lambda: ground.redis.exists(ground.keys.lease()))
        yield child


def _daemon(url: str) -> int:
    return process.run_daemon(partial(load_settings, env={}, flags={"redis.url": url, "log.level": "warning"}))


def _daemon_of_unit(url: str) -> int:
    """A daemon with the priority that its unit of systemd gives it, where this user may."""
    with suppress(PermissionError):
        os.nice(_NICE)
    return _daemon(url)


CHORES_TID = "chores.tid"  # in the state's folder of a daemon in the role daemon-told


class _TellingChores(ChoreThread):
    """Writes down which thread it is."""

    def _serve_once(self) -> None:
        (Path(os.environ["STATE_DIRECTORY"]) / CHORES_TID).write_text(str(threading.get_native_id()))
        super()._serve_once()


def _daemon_told(url: str) -> int:
    """A whole daemon, of which one thread's processor time can be told."""
    with patch.object(archivist, "ChoreThread", _TellingChores):
        return _daemon(url)


class _NoArchiver(Archiver):
    """Opens no archive and follows nothing: what a daemon would be without one."""

    def open(self) -> None:
        """No file."""

    def start(self) -> None:
        """No thread."""


def _daemon_alone(url: str) -> int:
    """Only a yardstick: no setting makes a daemon like this."""
    with patch.object(archivist, "Archiver", _NoArchiver):
        return _daemon(url)


def _rq_scheduler(url: str) -> int:
    scheduler: Any = RQScheduler(["default"], redis.Redis.from_url(url), interval=1, logging_level=logging.WARNING)
    scheduler.work()
    return 0


def _puts(url: str, per_s: int, seconds: int) -> int:
    """Put *per_s* one-shots a second, one call each, evenly, for *seconds*."""
    client, clock = Client.from_url(url), SystemClock()
    started_ms = clock.monotonic_ms()
    for number in range(per_s * seconds):
        left_ms = started_ms + number * 1000 / per_s - clock.monotonic_ms()
        if left_ms > 0:
            time.sleep(left_ms / 1000)
        client.schedule(FUNC, id=f"beside-{number}", after=_FAR_S, args=(number, "email"))
    return 0


def _bulk(url: str) -> int:
    """Put one-shots with ``schedule_many``, as fast as it goes, until this process is ended."""
    Client.from_url(url).schedule_many(
        {"func": FUNC, "id": f"beside-{number}", "after": _FAR_S, "args": (number, "email")} for number in count()
    )
    return 0


def _http(url: str, per_s: int, streams: int, seconds: int) -> int:
    """Put *per_s* one-shots a second over HTTP, evenly, and read *streams* of events, for *seconds*."""
    from bench.web import drive  # it starts processes by this module

    commands: Any = redis.Redis.from_url(url, protocol=2)
    with Guard() as guard:
        arena = Arena(guard, lambda _: None)
        body = {"func": FUNC, "after": _FAR_S, "args": (1, "email")}
        drive(arena, url, per_s, streams, seconds, body, begun=lambda: commands.set(HTTP_KEY, 1))
    return 0


def _timer(url: str, per_s: int, seconds: int) -> int:
    """Ask the server for its time at *per_s* times a second, evenly; tell what it says behind each, in µs."""
    clock, late_us = SystemClock(), []
    commands: Any = redis.Redis.from_url(url, protocol=2)
    first_ms = clock.now_ms() + 100
    for number in range(per_s * seconds):
        at_ms = first_ms + number * 1000 // per_s
        left_ms = at_ms - clock.now_ms()
        if left_ms > 0:
            time.sleep(left_ms / 1000)
        s, us = commands.time()
        late_us.append(s * 1_000_000 + us - at_ms * 1000)
    commands.rpush(TIMER_KEY, *late_us)
    return 0


def _ends(url: str, per_s: int, seconds: int) -> int:
    """End *per_s* runs of the queue default a second, evenly, as RQ's worker writes it, for *seconds*."""
    clock = SystemClock()
    commands: Any = redis.Redis.from_url(url, protocol=2)
    run_ids = [run.decode() for run in commands.lrange(QUEUE_KEY, 0, per_s * seconds - 1)]
    started_ms = clock.monotonic_ms()
    for first in range(0, len(run_ids), _ENDS):
        left_ms = started_ms + first * 1000 / per_s - clock.monotonic_ms()
        if left_ms > 0:
            time.sleep(left_ms / 1000)
        now_ms = clock.now_ms()
        at = rq_time(now_ms)
        ended = {"status": "finished", "started_at": at, "ended_at": at, "last_heartbeat": at, "worker_name": "bench"}
        part = run_ids[first : first + _ENDS]
        with commands.pipeline() as pipeline:
            pipeline.lpop(QUEUE_KEY, len(part))
            pipeline.zadd(RQ.registry("finished", "default"), dict.fromkeys(part, now_ms // 1000 + DEFAULT_RESULT_TTL))
            for run in part:
                pipeline.hset(RQ.job(run), mapping=ended)
            pipeline.execute()
    return 0


if __name__ == "__main__":
    roles: dict[str, Callable[..., int]] = {
        "daemon": _daemon, "daemon-of-unit": _daemon_of_unit,
        "daemon-alone": _daemon_alone, "daemon-told": _daemon_told, "rq-scheduler": _rq_scheduler,
        "puts": _puts, "bulk": _bulk, "http": _http, "ends": _ends, "timer": _timer,
    }  # fmt: skip
    sys.exit(roles[sys.argv[1]](sys.argv[2], *map(int, sys.argv[3:])))
