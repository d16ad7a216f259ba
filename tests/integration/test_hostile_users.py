"""
Hostile writers of jobs under deploy/redis/users.acl: a worker, and a client of another namespace. They cannot move,
lose or repeat schedules of others.
"""

import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from tests.builders.daemons import DaemonProcess
from tests.builders.namespaces import TERM
from tests.builders.workers import RqWorkers
from tests.faults.overdue import become_due
from tests.integration.users import GuardedRedis
from tests.ledger import entries
from tests.prefix import RQ
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.daemon.auditor import Auditor
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.rights import Role, rights_of

pytestmark = pytest.mark.redis
KEYS, FAR = Keys("default"), datetime(2031, 7, 1, tzinfo=UTC)
FORGED = "q\ndaily normal 1900000000000 pwned"
OTHER = "zsched-client of another namespace"
HOSTILE = ("zsched-worker", OTHER)


@pytest.fixture
def client(guarded_server: GuardedRedis, operator: redis.Redis) -> Client:
    return Client.from_url(guarded_server.url("zsched-client"), durable_timeout_s=WITHIN_S)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "archive.db"


@pytest.fixture
def leader(guarded_server: GuardedRedis, client: Client, guard: Guard, archive: Path) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(guard, guarded_server.url("zsched-daemon"), ARCHIVE_PATH=str(archive))
    daemon.wait_for("term_began")
    eventually(lambda: any(report.is_alive(client._overview().now_ms) for report in client._overview().archives))
    yield daemon
    daemon.stop()


@pytest.fixture(params=HOSTILE)
def hostile(
    request: pytest.FixtureRequest, guarded_server: GuardedRedis, operator: redis.Redis
) -> Iterator[redis.Redis]:
    """A client of a user without any right on this namespace's keys."""
    user = request.param
    if user == OTHER:
        words = rights_of([Role.CLIENT], Keys("other")).rule.split()
        operator.execute_command("ACL", "SETUSER", "zsched-other", "reset", "on", *words, ">secret")
        connected = redis.Redis.from_url(
            guarded_server.server.tcp_url.replace("://", "://zsched-other:secret@"), protocol=2
        )
    else:
        connected = guarded_server.connect(user)
    with connected:
        with pytest.raises(redis.exceptions.NoPermissionError):
            connected.zrange(KEYS.due_normal(), 0, -1)
        yield connected


def bait(client: Client, leader: DaemonProcess, *ids: str) -> list[str]:
    """Suspend the leader, until ``fire``, and put one-shots *ids* that are due. Return the keys of their jobs."""
    leader.send(signal.SIGSTOP)
    return [f"{RQ}:job:{client.schedule('tasks.note', id=id, after=0).run_id}" for id in ids]


def fire(leader: DaemonProcess, operator: redis.Redis, *ids: str) -> None:
    """Let the leader fire *ids*."""
    leader.send(signal.SIGCONT)
    eventually(lambda: all(operator.zscore(KEYS.due_normal(), id) is None for id in ids))


class ByHand:
    """An auditor beside the leader's, on its *archive*: it makes a pass on request. The leader's makes one a minute."""

    def __init__(self, wire: Wire, archive: Path) -> None:
        self.path, self.audit = archive, dict[str, int]()
        self._auditor = Auditor(self, KEYS).over(wire)  # type: ignore[arg-type]  # it stands in for the archiver
        self._auditor.step(TERM)  # the first one of a term makes no pass

    def puts_back(self, client: Client, *ids: str) -> None:
        """Make passes until schedules *ids* were quarantined, put back as the archive knows them, and fired."""
        wanted = ["quarantined", "restored", "fired"]

        def are_back() -> bool:
            self._auditor.step(TERM)
            return all(wanted == [one.what.value for one in client.why(id).changes][1:4] for id in ids)

        eventually(are_back)


@pytest.fixture
def auditor(guarded_server: GuardedRedis, archive: Path) -> Iterator[ByHand]:
    link = Link.from_url(guarded_server.url("zsched-daemon"), WITHIN_S)
    with closing(link.open()) as wire:
        yield ByHand(wire, archive)
    link.pool.disconnect()


def archived(client: Client) -> None:
    """Wait until the archive has the whole log, and check that none of it is unknown."""
    [report] = eventually(lambda: [one for one in client._overview().archives if client._overview().behind(one) == 0])
    assert (0, 0) == (report.about["unknown_entries"], report.about["unreadable_entries"])


def test_a_writer_of_jobs_cannot_quarantine_cancel_or_lose_a_foreign_schedule(
    guarded_server: GuardedRedis, client: Client, leader: DaemonProcess, operator: redis.Redis, hostile: redis.Redis,
    auditor: ByHand,
) -> None:  # fmt: skip
    client.schedule("tasks.note", id="daily", cron="0 9 * * *", durable=True)
    far = client.schedule("tasks.note", id="far", at=FAR, durable=True).run_id
    forged = [("origin", FORGED), ("origin", "q\n!"), ("status", f"x {far}=canceled"), ("status", f"x\n{far}=canceled")]
    ids = [f"bait{number}" for number, _ in enumerate(forged)]
    for job, (field, text) in zip(bait(client, leader, *ids), forged, strict=True):
        hostile.hset(job, field, text)
        hostile.set(f"{RQ}:queue:{text}", "x")
    fire(leader, operator, *ids)
    auditor.puts_back(client, "bait0", "bait1")
    archived(client)
    for told in (client.why("daily"), client.why("far")):
        assert {"put"} == {change.what.value for change in told.changes}

    operator.flushall()

    leader.wait_for("recovery_done")
    assert ("active", "active") == (client.get("daily").state.value, client.get("far").state.value)


def test_a_writer_of_jobs_cannot_remove_a_foreign_rule_from_its_lane(
    client: Client, leader: DaemonProcess, operator: redis.Redis, hostile: redis.Redis
) -> None:
    leader.send(signal.SIGSTOP)
    client.schedule("tasks.note", id="payroll", every=3600)
    [run] = become_due(operator, "payroll")

    hostile.hset(f"{RQ}:job:{run}", mapping={"status": "scheduled", "origin": "evil", "data": "mine", "zs": "1"})
    leader.send(signal.SIGCONT)

    eventually(lambda: operator.lrange(f"{RQ}:queue:default", 0, 0) == [run.encode()])
    assert b"mine" != operator.hget(f"{RQ}:job:{run}", "data")
    assert 0 == operator.exists(f"{RQ}:queue:evil")
    told = client.get("payroll")
    assert ("active", True) == (told.state.value, int(run.removeprefix("payroll-")) < (told.next_ms or 0))


def test_a_writer_of_jobs_cannot_make_ended_runs_run_again(
    guarded_server: GuardedRedis, client: Client, leader: DaemonProcess, operator: redis.Redis, hostile: redis.Redis,
    guard: Guard, tmp_path: Path, auditor: ByHand,
) -> None:  # fmt: skip
    job, *paid = bait(client, leader, "bait", *(f"pay-{n}" for n in range(20)))
    hostile.hset(job, "origin", "q\n!")
    hostile.set(f"{RQ}:queue:q\n!", "x")
    with guarded_server.connect("zsched-client") as by_hand:  # a client of this namespace, too, can cost itself no more
        by_hand.zadd(KEYS.due_normal(), {"a\nb": 1})
    fire(leader, operator, *(f"pay-{n}" for n in range(20)))
    auditor.puts_back(client, "bait")
    workers = RqWorkers(guard, guarded_server.url("zsched-worker"), tmp_path, "def note():\n    pass\n")
    workers.work("-w", "rq.SimpleWorker")
    eventually(lambda: 21 == sum(len(entry.rows) for entry in entries(operator, "end")))  # client.runs also asks RQ
    archived(client)

    operator.flushall()

    leader.wait_for("recovery_done")
    assert 0 == operator.exists(job, *paid)
    assert 0 == operator.llen(f"{RQ}:queue:default")


def test_a_text_of_30_mb_in_a_job_stays_small_in_log_journal_and_archive(
    guarded_server: GuardedRedis, client: Client, leader: DaemonProcess, operator: redis.Redis, archive: Path,
    auditor: ByHand,
) -> None:  # fmt: skip
    fields = ("status", "origin", "worker_name", "zs_note", "zs_attempts", "enqueued_at", "zs_expires")
    before_kb = _peak_kb(*leader.pids)
    jobs = bait(client, leader, *(f"big{n}" for n, _ in enumerate(fields)))
    with guarded_server.connect("zsched-worker") as worker:
        for job, field in zip(jobs, fields, strict=True):
            worker.hset(job, field, b"A" * 30_000_000)
    fire(leader, operator, *(f"big{n}" for n, _ in enumerate(fields)))
    auditor.puts_back(client, "big1")
    for job in jobs[1:]:  # the first one counts as cancelled, with that status
        operator.hset(job, mapping={"status": "finished", "ended_at": "2026-01-01T00:00:01.000001Z"})
    eventually(lambda: 6 == sum(len(entry.rows) for entry in entries(operator, "end")))
    archived(client)

    assert 100_000 > len(repr(operator.execute_command("XRANGE", KEYS.log(), "-", "+")))
    assert 20_000 > max(len(str(event)) for event in leader.events)
    assert 2_000_000 > sum(file.stat().st_size for file in archive.parent.glob("archive.db*"))
    assert 60_000 > _peak_kb(*leader.pids) - before_kb


def test_names_of_megabytes_among_rqs_queues_stop_no_schedule_and_are_cut_in_events(
    guarded_server: GuardedRedis, client: Client, leader: DaemonProcess, operator: redis.Redis
) -> None:
    before_kb = _peak_kb(*leader.pids)
    with guarded_server.connect("zsched-worker") as worker:
        for letter in b"ABC":
            worker.sadd(f"{RQ}:queues", f"{RQ}:queue:".encode() + bytes([letter]) * 1_000_000)
    eventually(lambda: leader.of("native_queue_served") or leader.of("native_queue_left"))  # it has the names

    client.schedule("tasks.note", id="rule", every=0.2, overlap="allow")

    eventually(lambda: operator.llen(f"{RQ}:queue:default") >= 5)
    assert 60_000 > _peak_kb(*leader.pids) - before_kb  # twenty times the names
    assert 20_000 > max(len(str(event)) for event in leader.events)


def _peak_kb(*pids: int) -> int:
    """Return the sum of the peak memory of the processes."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
