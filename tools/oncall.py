"""
On call: break a running system, and see how soon ``zsched status`` names the cause: ``python -m tools.oncall``.

The system is real: Redis, two daemons with archives, RQ workers, schedules every few seconds. The faults come in an
order by chance. A fault counts as named when one screen of ``zsched status`` has its cause and its remedy.
"""

import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from tests.builders.daemons import DaemonProcess
from tests.builders.proxies import Proxy
from tests.builders.workers import RqWorkers
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

SCREEN = 24  # lines
QUEUES = ("default", "money", "push", "reports", "mail")
TASKS = {
    "shop": "def stock(): pass\ndef charge(): pass\ndef report(): pass\ndef mail(number): pass\n",
    "news": "def send(): pass\n",
}


class System:
    """A small shop: its Redis, daemons, workers, schedules and files. The leader reaches Redis through ``proxy``."""

    def __init__(self, stack: ExitStack) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zsched-oncall-")))
        os.environ["XDG_STATE_HOME"] = str(self.folder)  # the daemons' other files
        self.guard = stack.enter_context(Guard())
        self.redis = stack.enter_context(EmbeddedRedis(tcp=True))
        self.proxy = stack.enter_context(closing(Proxy(self.redis.port or 0)))
        self.client = Client.from_url(self.redis.tcp_url).acting_as("ann")
        (self.folder / "zsched.toml").write_text("[queues.mail]\nmax_per_second = 0.5\n")
        for name, text in TASKS.items():
            (self.folder / f"{name}.py").write_text(text)
        self.leader = self._daemon(self.proxy.url, "leader")
        self.leader.wait_for("term_began")
        self.standby = self._daemon(self.redis.tcp_url, "standby")
        self.standby.wait_for("archive_bootstrapped")
        self.workers = {queue: self.work(queue) for queue in QUEUES}
        for id, func, queue in (("stock", "shop.stock", "default"), ("charges", "shop.charge", "money"),
                                ("push", "news.send", "push")):  # fmt: skip
            self.client.schedule(func, id=id, every=2, queue=queue)
        self.client.schedule("shop.report", id="report", cron="0 9 * * *", tz="Asia/Seoul", queue="reports")
        self.client.schedule("shop.stock", id="digest", every=3)

    def _daemon(self, url: str, name: str) -> DaemonProcess:
        archive, config = str(self.folder / f"{name}.db"), str(self.folder / "zsched.toml")
        return DaemonProcess(self.guard, url, CONFIG=config, ARCHIVE_PATH=archive, DAEMON_LEASE_MS="5000")

    def work(self, *queues: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a worker of *queues* in *folder*, which has the modules of its tasks."""
        return RqWorkers(self.guard, self.redis.tcp_url, folder or self.folder).start(*queues)

    def stop_worker(self, queue: str) -> None:
        """Stop the worker of *queue* in order."""
        self.workers[queue].terminate()
        self.workers[queue].wait()

    def zsched(self, *words: str) -> list[str]:
        """Return the lines of a command."""
        env = os.environ | {"ZSCHED_REDIS_URL": self.redis.tcp_url}
        command = [sys.executable, "-m", "zsched.cli", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout.splitlines()


def fill_the_disk(system: System) -> None:
    resource.prlimit(system.leader.archivist_pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def stop_a_worker(system: System) -> None:
    system.stop_worker("money")


def remove_a_function(system: System) -> None:
    (system.folder / "shop.py").write_text(TASKS["shop"].replace("charge", "charge_all"))


def start_a_worker_elsewhere(system: System) -> None:
    system.stop_worker("push")
    elsewhere = system.folder / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(system.folder / "shop.py", elsewhere)
    system.work("push", folder=elsewhere)


def pause(system: System) -> None:
    system.client.acting_as("bob").pause("digest", "until the new templates are there")


def let_expire(system: System) -> None:
    system.stop_worker("reports")
    system.client.schedule("shop.report", id="reminder-166", after=0, queue="reports", expires_after=3)


def cut_off_the_leader(system: System) -> None:
    system.proxy.half_open = True


def hang(system: System) -> None:
    slow = TASKS["shop"].replace("def stock(): pass", "def stock():\n    import time\n    time.sleep(600)")
    (system.folder / "shop.py").write_text(slow)


def move_a_zone(system: System) -> None:
    system.client.acting_as("deploy@ci").update("report", tz="America/Los_Angeles")


def flood_a_limit(system: System) -> None:
    past = datetime.now(UTC) - timedelta(minutes=5)
    system.client.schedule_many(
        {"func": "shop.mail", "id": f"mail-{n}", "args": [n], "at": past, "queue": "mail", "allow_past": True}
        for n in range(200)
    )


REPORT = ("why", "report")


@dataclass(frozen=True)
class Fault:
    """A fault, what is complained about, the command that must name it, and patterns of cause and remedy."""

    name: str
    complaint: str
    strike: Callable[[System], None]
    cause: str
    remedy: str
    asked: tuple[str, ...] = ("status",)


FAULTS = (
    Fault("disk full", "pager", fill_the_disk, r"archive .*leader\.db.*(disk|write|full|I/O)", r"→ .*(disk|space)"),
    Fault("queue without worker", "no charges", stop_a_worker, r"no worker listens.* money", r"→ .*worker money"),
    Fault("removed function", "no charges", remove_a_function, r"charges", r"shop has no charge"),
    Fault("worker without the module", "no push", start_a_worker_elsewhere, r"push", r"cannot import news"),
    Fault("paused", "no digest", pause, r"paused.*: digest", r"→ .*zsched (why|resume)"),
    Fault("reminder expired", "no reminder 166", let_expire, r"expired", r"zsched (history|why)"),
    Fault("leader cut off", "pager", cut_off_the_leader, r"the daemon of pid \d+ .*heard of", r"→ .*its log"),
    Fault("task hangs", "stock is old", hang, r"does not end: .*stock", r"→ .*cancel-run"),
    Fault("wrong zone", "no report at nine", move_a_zone, r"Asia/Seoul → America/Los_Angeles", r"deploy@ci", REPORT),
    Fault("rate limit", "mail is very late", flood_a_limit, r"\[queues\.mail\] .* holds back", r"→ .*raise the limit"),
)
BY_NAME = {fault.name: fault for fault in FAULTS}


def named_after_s(system: System, fault: Fault, patience_s: float) -> tuple[float | None, list[str]]:
    """Return the seconds until the first screen named the fault, None if it never did; and the last screen."""
    began = time.monotonic()
    while True:
        screen = system.zsched(*fault.asked)[:SCREEN]
        took_s, text = time.monotonic() - began, "\n".join(screen)
        if re.search(fault.cause, text) and re.search(fault.remedy, text):
            return took_s, screen
        if took_s > patience_s:
            return None, screen


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--seed", type=int, help="Of the order; without it by the clock.")
@click.option("--only", multiple=True, type=click.Choice(list(BY_NAME)), help="This fault; repeatable.")
@click.option("--patience", default=90.0, show_default=True, help="Seconds to wait until a fault is named.")
@click.option("--screens", is_flag=True, help="Print the screen that named each fault.")
def main(seed: int | None, only: tuple[str, ...], patience: float, screens: bool) -> None:
    """
    Break a small running system in ten ways, each in a system of its own, and wait until zsched names the cause.

    Exit code 0: every fault was named, with its remedy; 1: not.
    """
    faults = [BY_NAME[name] for name in only] or list(FAULTS)
    seed = time.time_ns() % 10_000 if seed is None else seed
    random.Random(seed).shuffle(faults)
    click.echo(f"seed {seed}")
    missed = 0
    for fault in faults:
        with ExitStack() as stack:
            system = System(stack)
            fault.strike(system)
            took_s, screen = named_after_s(system, fault, patience)
        missed += took_s is None
        how = f"NOT NAMED within {patience:g} s" if took_s is None else f"named after {took_s:.1f} s"
        click.echo(f"{fault.name:<26} {fault.complaint!r}: {how} by zsched {' '.join(fault.asked)}")
        if screens or took_s is None:
            click.echo("".join(f"    {line}\n" for line in screen))
    click.echo(f"{len(faults) - missed} of {len(faults)} named")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
