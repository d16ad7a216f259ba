"""
The processes of a campaign and operations on them: Redis, two daemons, workers, and the networks between.

Clients and daemons reach Redis through a proxy each, which faults disturb. Workers use a proxy that is never disturbed,
since RQ's handling of a pushed run is not under test. All three proxies follow when Redis moves.
"""

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import redis

from tests.builders.daemons import DaemonProcess
from tests.builders.machines import slim_machine
from tests.builders.proxies import Proxy
from tests.builders.receivers import Receiver
from tests.builders.redises import connect
from tests.faults.archives import has_caught_up, history, is_leader
from tests.waiting import eventually
from tools.campaign.calls import Ledger, now_us
from tools.campaign.server import Server
from tools.campaign.witnesses import Loss
from tools.campaign.workers import QuickHand, Workers
from zsched.core.entry import Entry, UnknownEntry
from zsched.core.log.kinds import changes
from zsched.core.occurrences.outcomes import What
from zsched.daemon.running import UNUSABLE
from zsched.embedded import Guard

LEASE_MS = 1_000
_SETTINGS = {"DAEMON_LEASE_MS": str(LEASE_MS), "DAEMON_RENEW_MS": "200", "REDIS_TIMEOUT_S": "2"}
_SINK = '[notify.hook]\nkind = "webhook"\nurl = "{}"\nevery_s = 0.5\non = ["failed", "lost", "expired"]\n'
_STOP_S = 20.0


@dataclass
class Seat:
    """A daemon's place: its archive, its present process, and its earlier processes."""

    name: str
    archive: Path
    processes: list[DaemonProcess] = field(default_factory=list)
    is_running: bool = False

    @property
    def process(self) -> DaemonProcess:
        """The process that was started here last."""
        return self.processes[-1]


class Stage:
    """
    Everything that runs, under one guard. *crowd* is the number of one-shots in a crowd; *code* is the folder of a
    changed zsched for the daemons.
    """

    def __init__(self, guard: Guard, folder: Path, seed: int, *, crowd: int = 10_000, code: Path | None = None) -> None:
        self.guard, self.folder, self.crowd, self._code = guard, folder, crowd, code
        self.ledger = Ledger(folder / "calls.jsonl")
        os.environ.setdefault("XDG_STATE_HOME", str(folder))
        self.losses: list[Loss] = []
        self.kept: list[list[Entry]] = []  # histories of archives that were deleted
        self.foreign: set[str] = set()  # ids that a fault wrote past zsched
        self.deaths: list[str] = []  # daemons that ended by themselves
        self._clock = threading.Event()
        self.redis = Server(guard)
        self.redis.start()
        self.retired: list[Server] = []
        assert self.redis.port is not None
        self.clients_net, self.daemons_net = Proxy(self.redis.port, seed), Proxy(self.redis.port, seed + 1)
        self.workers_net = Proxy(self.redis.port, seed)
        self.seats = [Seat("one", folder / "one.db"), Seat("two", folder / "two.db")]
        self.workers = Workers(guard, self.workers_net.url, folder)
        self.hand = QuickHand(self.workers_net.url, folder / "receipts.txt")
        self.receiver, answers = Receiver(), count()
        self.receiver.answer = lambda request: (200, b"") if next(answers) % 2 else (503, b"every second one")
        (folder / "zsched.toml").write_text(_SINK.format(self.receiver.url))

    @property
    def nets(self) -> tuple[Proxy, Proxy]:
        """The proxies that faults disturb."""
        return self.clients_net, self.daemons_net

    def watch(self) -> redis.Redis:
        """A client of Redis itself, not through the proxies."""
        return connect(self.redis.tcp_url)

    def wait(self, seconds: float) -> None:
        """Let the campaign run for *seconds*."""
        self._clock.wait(seconds)

    def close(self) -> None:
        """End everything that the guard does not end."""
        self.receiver.close()
        self.hand.stop()
        self.workers.stop()
        for proxy in (*self.nets, self.workers_net):
            proxy.close()
        for server in (self.redis, *self.retired):
            server.kill()
        self.ledger.close()
        for seat in self.seats:
            for number, process in enumerate(seat.processes):
                told = "".join(json.dumps(event) + "\n" for event in process.events)
                (self.folder / f"daemon-{seat.name}-{number}.jsonl").write_text(told)

    # -- daemons ----------------------------------------------------------------------------------

    def start(self, seat: Seat, code: Path | None = None) -> None:
        """Start a daemon on *seat*; *code*: with this folder first in its PYTHONPATH."""
        settings = _SETTINGS | {"ARCHIVE_PATH": str(seat.archive), "CONFIG": str(self.folder / "zsched.toml")}
        seat.processes.append(DaemonProcess(self.guard, self.daemons_net.url, code=code or self._code, **settings))
        seat.is_running = True

    def start_slim(self, seat: Seat) -> None:
        """Start a daemon on *seat* whose machine knows few time zones."""
        with slim_machine(self.folder / "slim") as code:
            self.start(seat, code)

    def is_refused(self, seat: Seat) -> bool:
        """
        Start a daemon on *seat* after a loss. Return True if its archive is refused as an archive of another data set;
        then the daemon has ended. On a slow machine the data set gets its name while the daemon waits for other
        archives.
        """
        self.start(seat)
        process = seat.process
        eventually(lambda: process.has_ended or process.of("recovery_done") or process.of("archive_refused"))
        is_unusable = process.has_ended and process.wait() == UNUSABLE
        if not is_unusable and not process.of("archive_refused"):
            return False  # it knows the data set; if it ended otherwise, ``heal`` says so
        if not process.has_ended:  # the data set got its name just after it looked
            self.end(seat)
        seat.is_running = False
        seat.processes.pop()  # what it said is as it should be
        return True

    def recover_from(self, seat: Seat) -> None:
        """
        Recover like an operator: restore the archive of *seat* into Redis while another daemon leads, then start its
        daemon.
        """
        command = [sys.executable, "-m", "zsched.cli", "archive", "recover", "--from", str(seat.archive), "--force"]
        env = os.environ | {
            "ZSCHED_REDIS_URL": self.redis.tcp_url,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        with (self.folder / "recover.txt").open("ab") as said:
            code = self.guard.spawn(command, stdout=said, stderr=said, env=env).wait(_STOP_S)
        if code != 0:
            self.deaths.append(f"zsched archive recover from {seat.archive.name} ended with {code}")
        self.start(seat)

    def kill(self, seat: Seat) -> None:
        """Kill the daemon on *seat* with kill -9."""
        self.end(seat, signal.SIGKILL)

    def end(self, seat: Seat, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon on *seat*, and wait for its end."""
        if not seat.is_running:
            return
        seat.is_running = False
        seat.process.send_to_all(signal.SIGCONT)
        seat.process.send(number)
        code = seat.process.wait(_STOP_S)
        if code not in (0, -number):
            self.deaths.append(f"daemon {seat.name} ended with {code} at {number.name}")

    def leader(self) -> Seat:
        """The seat that holds the lease; any seat if none does."""
        with self.watch() as watch:
            leading = [seat for seat in self.seats if seat.is_running and is_leader(seat.process, watch)]
        return (leading or self.seats)[0]

    def standby(self) -> Seat:
        """The seat that does not lead."""
        leader = self.leader()
        return next(seat for seat in self.seats if seat is not leader)

    def keep(self, seat: Seat) -> None:
        """Remember the history in an archive that is about to be deleted."""
        if seat.archive.exists():
            self.kept.append(history(seat.archive))

    # -- Redis ------------------------------------------------------------------------------------

    def lost(self, fault: str, *, brings_back: bool = False) -> None:
        """Note that a fault took history from Redis at this moment; *brings_back*: an older state replaces it."""
        self.losses.append(Loss(fault, now_us(), brings_back))

    def move_to(self, server: Server) -> None:
        """Make *server* the Redis from now on; the old server ends."""
        assert server.port is not None
        old, self.redis = self.redis, server
        for proxy in (*self.nets, self.workers_net):
            proxy.move_to(server.port)
        old.kill()
        self.retired.append(old)

    def caught_up(self) -> list[Seat]:
        """Return the seats with an archive that follows and has reached the log's end."""
        return [seat for seat in self.seats if has_caught_up(self.redis.tcp_url, seat.archive)]

    def await_archives(self, number: int = 1, within_s: float = 20.0) -> None:
        """Wait until at least *number* archives have the log of this moment, apart from entries written meanwhile."""
        eventually(lambda: len(self.caught_up()) >= number, within_s)

    # -- the notifier -----------------------------------------------------------------------------

    def unsent(self) -> set[str]:
        """
        Return the runs that did not succeed, by every archive, and that no message names or counts. An archive that
        comes back to a Redis in which an empty one leads may have ends of before, which nobody tells any more.
        """
        bad = set.intersection(*(_ended_badly(seat.archive) for seat in self.seats))
        messages = self.receiver.messages
        named = {event["run_id"] for message in messages for event in message["events"]}
        unnamed = sum(message["count"] - len(message["events"]) for message in messages)
        return bad - named if len(bad - named) > unnamed else set()

    def unlike(self) -> list[str]:
        """Return the messages that came with two contents and one id; not each archive knows the pushes of its ends."""
        bodies: dict[str, set[str]] = {}
        for request in list(self.receiver.taken):
            told = request.json | {"events": []}
            bodies.setdefault(told["id"], set()).add(str(told))
        return ["\n".join(texts) for texts in bodies.values() if len(texts) > 1]

    # -- after a fault ----------------------------------------------------------------------------

    def heal(self) -> None:
        """Undo every remaining effect of a fault: everything runs, and nothing disturbs the network."""
        for proxy in self.nets:
            proxy.mend()
        if self.redis.is_running:
            self.redis.resume()
        self.redis.start()
        for seat in self.seats:
            self._look_after(seat)
        self.workers.look_after()

    def _look_after(self, seat: Seat) -> None:
        if seat.is_running:
            seat.process.send_to_all(signal.SIGCONT)
            if seat.process.has_ended:
                seat.is_running = False
                said = [event["event"] for event in seat.process.events[-3:]]
                self.deaths.append(f"daemon {seat.name} ended by itself ({seat.process.wait()}), saying {said}")
        if not seat.is_running:
            self.start(seat)


def _ended_badly(archive: Path) -> set[str]:
    """Return the runs that did not succeed in the end."""
    last: dict[str, str] = {}
    for entry in history(archive):
        with suppress(UnknownEntry):
            ends = (change for change in changes(entry) if change.what is What.RUN_ENDED)
            last |= {change.run_id or "": change.why for change in ends}
    return {run_id for run_id, why in last.items() if why in ("failed", "lost", "expired")}
