"""
Client, daemon and command line behind real Sentinels: they follow the master wherever it goes.

The tests print the time without dispatch (``-rA``). Short by default; ``ZSCHED_TEST_LONG=1`` makes it 20,000 one-shots.
"""

import json
import os
import sys
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.sentinel import Sentinel
from rq import Queue
from rq.job import JobStatus

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonProcess, Start
from tests.builders.leaders import know
from tests.builders.redises import connect, replicate
from tests.builders.sentinels import NAME, Sentinels
from tests.documents import PROJECT
from tests.faults.leases import await_listeners, eventually_without_hold
from tests.faults.streams import schedule_stream
from tests.ledger import assert_dense, doubles, entries, fired, longest_pause_ms, queued
from tests.prefix import RQ
from tests.waiting import WITHIN_S, eventually
from zsched import Client, NotArchived, RedisUnavailable
from zsched.core.clock import from_ms
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

RUNS = 20_000 if os.environ.get("ZSCHED_TEST_LONG") == "1" else 4_000  # one a millisecond
DURABLE = 200  # put when no replica hears of them: only the archive has them
QUEUE = f"{RQ}:queue:default"
UNSAFE = {"min-replicas-to-write": "0"}


def server_now_ms(server: EmbeddedRedis) -> int:
    with connect(server.tcp_url) as client:
        return int(client.time()[0]) * 1000


def schedule_replicated(url: str, server: EmbeddedRedis, number: int = RUNS) -> list[str]:
    """Schedule one-shots, one a millisecond; return their run ids. They are on every replica when this returns."""
    with connect(server.tcp_url) as watch:
        runs = schedule_stream(Client.from_url(url), watch, number, start_ms=1_500)
    replicate(server)
    return runs


def schedule_durable(url: str, at_ms: int) -> list[str]:
    """Schedule DURABLE one-shots; return their run ids. An archive has them when this returns."""
    options = {"func": "app.run", "at": from_ms(at_ms), "durable": True, "allow_past": True}
    rows = [{"id": f"d{n:05d}", **options} for n in range(DURABLE)]
    assert DURABLE == Client.from_url(url).schedule_many(rows).created
    return [f"d{n:05d}-{at_ms}" for n in range(DURABLE)]


def lead(sentinels: Sentinels, start_daemon: Start) -> DaemonProcess:
    """Start a daemon; return it when it leads, without a hold."""
    with connect(sentinels.master().tcp_url) as client:
        know(client)
    daemon = start_daemon(sentinels.url)
    daemon.wait_for("term_began")
    return daemon


def schedules(client: Client, id: str, **options: Any) -> bool:
    """Return True if the schedule was accepted; a running failover refuses it."""
    try:
        return bool(client.schedule("app.run", id=id, **options).id)
    except (RedisUnavailable, NotArchived):
        return False


def role(server: EmbeddedRedis) -> str:
    """
    Return the role of *server*; "" if Sentinel closed our connection just then, which it does to all when it changes a
    role.
    """
    with connect(server.tcp_url) as client, suppress(redis.ConnectionError):
        return str(client.info("replication")["role"])
    return ""


def adopted(sentinels: Sentinels) -> redis.Redis:
    hosts = [("127.0.0.1", port) for port in sentinels.ports]
    return Sentinel(hosts, socket_timeout=WITHIN_S).master_for(NAME)  # type: ignore[no-untyped-call,no-any-return]  # redis-py's


def test_a_client_continues_on_the_new_master_after_a_failover(guard: Guard) -> None:
    sentinels = Sentinels(guard, hurry=False)  # in a hurry two of them fail over at once, now and then
    by_url, by_client = Client.from_url(sentinels.url), Client(adopted(sentinels))
    soon = datetime.now().astimezone() + timedelta(hours=1)
    by_url.schedule("app.run", id="a", at=soon)
    by_client.schedule("app.run", id="b", at=soon)
    replicate(sentinels.master())

    new = sentinels.fail_over()

    eventually(lambda: schedules(by_url, "c", at=soon))
    eventually(lambda: schedules(by_client, "d", at=soon))
    assert ["a", "b", "c", "d"] == sorted(one.id for one in by_client.list())
    assert ["a", "b", "c", "d"] == sorted(one.id for one in Client.from_url(new.tcp_url).list())


def test_dispatch_continues_after_kill_9_of_the_master_and_repeated_runs_are_marked(
    guard: Guard, start_daemon: Start
) -> None:
    sentinels = Sentinels(guard, hurry=False, **UNSAFE)  # in a hurry two of them fail over at once, now and then
    old = sentinels.master()
    lead(sentinels, start_daemon)
    expected = schedule_replicated(sentinels.url, old)
    with connect(old.tcp_url) as client:
        eventually(lambda: client.llen(QUEUE) > RUNS // 6)
        for replica in sentinels.servers[1:]:  # what is pushed from now on is lost
            replica.suspend()
        client.execute_command("CLIENT", "KILL", "TYPE", "replica")
        kept = client.llen(QUEUE)
        expected += schedule_durable(sentinels.url, server_now_ms(old) + 2_000)
        eventually(lambda: client.llen(QUEUE) > kept + 100)
        pushed, had = set(queued(client)), {entry.id for entry in entries(client)}
    old.kill()
    for replica in sentinels.servers[1:]:
        replica.resume()

    with connect(sentinels.lose(old).tcp_url, retries=3) as client:
        eventually_without_hold(sentinels.master, lambda: client.llen(QUEUE) >= len(expected))
        assert set(expected) == set(queued(client))
        assert [] == doubles(queued(client))
        assert [] == doubles([run for run, _ in fired(client)])
        assert_dense(client)
        kept_log = [entry for entry in entries(client) if entry.id in had]
        survived = {run for entry in kept_log for run in entry.fields.get("runs", "").split()}
        marked = {run for run in expected if client.hexists(f"{RQ}:job:{run}", "zs_uncertain")}
        pause_ms = longest_pause_ms(client)
    again = pushed - survived
    assert len(again) >= 100
    assert again <= marked
    assert not marked & survived
    sys.stdout.write(f"measured: {pause_ms / 1000:.2f} s without dispatching, {len(again)} runs pushed again\n")


def test_every_connection_of_a_daemon_moves_to_the_new_master_after_a_failover(
    guard: Guard, start_daemon: Start
) -> None:
    sentinels = Sentinels(guard)
    old = sentinels.master()
    daemon, client = lead(sentinels, start_daemon), Client.from_url(sentinels.url)
    expected = schedule_replicated(sentinels.url, old)
    with connect(old.tcp_url) as watch:
        eventually(lambda: watch.llen(QUEUE) > RUNS // 6)

    new = sentinels.fail_over()

    with connect(new.tcp_url, retries=3) as watch:  # a second Sentinel may disconnect the clients once more
        eventually_without_hold(sentinels.master, lambda: watch.llen(QUEUE) >= RUNS)
        assert set(expected) == set(queued(watch))
        assert [] == doubles(queued(watch))
        assert_dense(watch)
        pause_ms = longest_pause_ms(watch)
        await_listeners(watch, 1)
        eventually(lambda: schedules(client, "durable", after=0, durable=True))
        eventually(lambda: client.why("durable").source.archive is not None)
        eventually(lambda: role(old) == "slave")
        eventually(lambda: schedules(client, "later", after=0, durable=True))
        eventually_without_hold(sentinels.master, lambda: any(run.startswith("later-") for run in queued(watch)))
        assert 0 == len(daemon.of("archive_failed"))
    sys.stdout.write(f"measured: {pause_ms / 1000:.2f} s without dispatching\n")


def test_a_daemon_leaves_a_replaced_master_that_still_accepts_writes(guard: Guard, start_daemon: Start) -> None:
    sentinels = Sentinels(guard, 1, hurry=False, **UNSAFE)
    old = sentinels.master()
    with connect(old.tcp_url) as watch:
        watch.execute_command("ACL", "SETUSER", "default", "-replicaof", "-slaveof")  # so that it stays a master
        lead(sentinels, start_daemon)

        new = sentinels.fail_over()

        eventually(lambda: watch.pubsub_numsub("zsched:{default}:wake")[0][1] == 0)
        assert ("master", "master") == (role(new), role(old))
    with connect(new.tcp_url) as watch:
        watch.delete("zsched:{default}:archivers")
        eventually(lambda: watch.hlen("zsched:{default}:archivers") == 1)


@pytest.mark.parametrize(
    "command",
    [["zsched.cli", "worker"], ["rq.cli", "worker", "-c", "rq_settings", "--worker-class", "zsched.rq.Worker"]],
    ids=["zsched worker", "rq worker"],
)
def test_a_forking_worker_executes_jobs_while_no_sentinel_answers(
    guard: Guard, tmp_path: Path, command: list[str]
) -> None:
    sentinels = Sentinels(guard, 1)
    hosts = [("127.0.0.1", port) for port in sentinels.ports]
    (tmp_path / "rq_settings.py").write_text(f"SENTINEL = {{'INSTANCES': {hosts}, 'MASTER_NAME': {NAME!r}}}\n")
    env = os.environ | {"ZSCHED_REDIS_URL": sentinels.url, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(PROJECT)])}
    with (tmp_path / "worker.log").open("wb") as log:
        guard.spawn([sys.executable, "-m", *command], cwd=tmp_path, env=env, stdout=log, stderr=log)
    queue = Queue(connection=redis.Redis.from_url(sentinels.master().tcp_url))
    before = queue.enqueue("operator.add", 1, 2)
    eventually(lambda: before.get_status() is JobStatus.FINISHED)

    sentinels.stop_watching()
    jobs = [queue.enqueue("operator.add", n, 2) for n in range(2)]

    eventually(lambda: all(job.get_status() in (JobStatus.FINISHED, JobStatus.FAILED) for job in jobs))
    assert [JobStatus.FINISHED] * 2 == [job.get_status() for job in jobs], (tmp_path / "worker.log").read_text()


def test_the_command_line_uses_sentinels_and_reports_their_errors(guard: Guard) -> None:
    sentinels = Sentinels(guard, 1, **UNSAFE)
    connected, zsched = Client.from_url(sentinels.url), Zsched(sentinels.url)
    connected.schedule("app.run", id="a", every=60)

    status, listing = zsched("status", "--json"), zsched.json("ls")
    misnamed = Zsched(sentinels.url.replace(NAME, "other"))("ls")
    no_sentinel = Zsched(f"redis+sentinel://127.0.0.1:{sentinels.master().port}/{NAME}")("ls")
    sentinels.servers[1].kill()
    with connect(sentinels.master().tcp_url) as master:
        eventually(lambda: not master.info("replication")["connected_slaves"])
    alone = json.loads(zsched("status", "--json").stdout)
    sentinels.stop_watching()
    unwatched = zsched("ls")

    assert (4, "") == (status.exit_code, status.stderr)  # no daemon is leading
    told = json.loads(status.stdout)
    assert (1, sentinels.url) == (told["recurring"], told["redis"])
    assert "no_replica" not in {one["name"] for one in told["warnings"]}
    assert "no_replica" in {one["name"] for one in alone["warnings"]}
    assert ["a"] == [one["id"] for one in listing]
    assert (1, 1, 1) == (misnamed.exit_code, no_sentinel.exit_code, unwatched.exit_code)
    assert f"know no master 'other', but {NAME}\n  → correct its name in [redis] url; this shows" in misnamed.stderr
    assert "no Sentinel answers" in no_sentinel.stderr
    assert "  → start them, or correct their addresses or password: redis-cli -p " in unwatched.stderr
    assert "unknown command" in no_sentinel.stderr
    assert "no Sentinel answers" in unwatched.stderr
    assert all(host in unwatched.stderr for host in sentinels.hosts)
    assert "unchanged" == connected.schedule("app.run", id="a", every=60).outcome  # over the connection that it has
