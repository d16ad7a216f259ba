"""Redis lost data that an archive has: it is restored, the new history followed, and nothing fires twice unmarked."""

import os
import shutil
import signal
from pathlib import Path

import redis
from rq import Queue

from tests.builders.daemons import Start
from tests.builders.redises import connect, own_server, put_back
from tests.builders.workers import work_off
from tests.clocks import now_ms
from tests.faults.archives import (
    KEYS,
    assert_state_is_redis_own,
    await_caught_up,
    fact,
    history,
    log_in,
    repeated,
    stop_standby_first,
)
from tests.faults.overdue import become_due
from tests.faults.setbacks import archiving_daemons, put_back_by
from tests.ledger import doubles, queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.archive import START, History
from zsched.core.occurrences.outcomes import What


def whats_of(path: Path, id: str) -> list[What]:
    """Return the outcomes of schedule *id* in the history at *path*."""
    with History(path) as told:
        return [change.what for change in told.of_schedule(id, 50)[0]]


def await_doubt_over(watch: redis.Redis) -> None:
    """Wait until a term has begun after the loss, and what is due from now on is in no doubt."""
    eventually(lambda: (doubt_ms := watch.hget(KEYS.meta(), "doubt")) and now_ms(watch) > int(doubt_ms))


def test_an_emptied_redis_is_restored_and_both_histories_are_kept(start_daemon: Start, tmp_path: Path) -> None:
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    with own_server() as server, connect(server.url) as watch:
        daemons, client = archiving_daemons(start_daemon, server.url, paths), Client.from_url(server.url)
        client.schedule("app.task", id="fired", after=0)
        client.schedule("app.task", id="lost", after=3600)
        eventually(lambda: queued(watch))
        await_caught_up(server.url, *paths)
        old_log = log_in(server.url)

        watch.flushall()
        lost = [daemon.wait_for("redis_history_lost") for daemon in daemons]
        await_doubt_over(watch)
        client.schedule("app.task", id="new", after=0)

        together = put_back_by(watch, daemons)
        eventually(lambda: len(queued(watch)) == 2)
        await_caught_up(server.url, *paths)
        stop_standby_first(daemons, watch)
        again, new = sorted(queued(watch))  # in Redis in either order: whether one of them was held longer is chance
        assert ["fired", "new"] == [run.rpartition("-")[0] for run in (again, new)]
        assert [b"1", None] == [watch.hget(f"{RQ}:job:{run}", "zs_uncertain") for run in (again, new)]
        assert {"restored": 1, "pushed_again": 1, "skipped": 0, "taken_out": 0} == together
        new_log = log_in(server.url)
        for path, daemon, told in zip(paths, daemons, lost, strict=True):
            assert (old_log[-1].position.id, None) == (told["had"], told["common"])
            assert 1 == len(daemon.of("redis_history_lost"))
            assert [] == daemon.of("archive_failed")
            assert [*old_log, *new_log] == history(path)
            assert START == fact(path, "complete_since")
            assert [What.PUT, What.FIRED, What.PUSHED_AGAIN] == whats_of(path, "fired")
            assert [What.PUT, What.RESTORED] == whats_of(path, "lost")
            assert {"fired", "lost", "new"} == {id for id, _ in assert_state_is_redis_own(server.url, path)}


def test_a_redis_with_an_older_rdb_is_restored_and_repeated_runs_are_marked(
    start_daemon: Start, tmp_path: Path
) -> None:
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    with own_server() as server, connect(server.url) as watch:
        daemons, client = archiving_daemons(start_daemon, server.url, paths), Client.from_url(server.url)
        client.schedule("app.task", id="before", after=3600)
        client.schedule("app.task", id="skipped", after=3600, on_uncertain="skip")
        client.schedule("app.task", id="marked", after=3600, on_uncertain="refire")
        for daemon in daemons:
            daemon.send(signal.SIGSTOP)  # not its archivist
        become_due(watch, "skipped", "marked")
        await_caught_up(server.url, *paths)
        watch.save()
        saved = tmp_path / "old.rdb"
        shutil.copy(server.folder / "dump.rdb", saved)
        common = log_in(server.url)
        for daemon in daemons:
            daemon.send(signal.SIGCONT)
        eventually(lambda: len(queued(watch)) == 2)
        pushed = queued(watch)
        client.schedule("app.task", id="lost", after=3600)
        await_caught_up(server.url, *paths)
        old_log = log_in(server.url)

        put_back(server, saved)
        lost = [daemon.wait_for("redis_history_lost") for daemon in daemons]
        together = put_back_by(watch, daemons)
        eventually(lambda: queued(watch))
        await_doubt_over(watch)
        client.schedule("app.task", id="new", after=0)
        eventually(lambda: len(queued(watch)) == 2)

        await_caught_up(server.url, *paths)
        stop_standby_first(daemons, watch)
        new_log, now_queued = log_in(server.url), queued(watch)
        assert ["marked", "new"] == [run.rpartition("-")[0] for run in now_queued]
        again = [run for run in now_queued if run in pushed]
        assert [b"1"] == [watch.hget(f"{RQ}:job:{run}", "zs_uncertain") for run in again]
        assert common == new_log[: len(common)]
        assert {"restored": 1, "pushed_again": 0, "skipped": 0, "taken_out": 0} == together
        for path, daemon, told in zip(paths, daemons, lost, strict=True):
            assert (old_log[-1].position.id, common[-1].position.id) == (told["had"], told["common"])
            assert 1 == len(daemon.of("redis_history_lost"))
            assert [*old_log, *new_log[len(common) :]] == history(path)
            assert [] == repeated(history(path)) + doubles(queued(watch))
            assert [What.PUT, What.RESTORED] == whats_of(path, "lost")
            assert {"before", "lost", "marked", "new"} == {id for id, _ in assert_state_is_redis_own(server.url, path)}


def test_finished_runs_in_an_older_rdb_are_withdrawn_or_listed(start_daemon: Start, tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    with own_server() as server, connect(server.url) as watch:
        daemon, client = start_daemon(server.url, ARCHIVE_PATH=str(path)), Client.from_url(server.url)
        daemon.wait_for("term_began")
        twice, once = (str(client.enqueue("platform.node", id=id).run_id) for id in ("twice", "once"))
        await_caught_up(server.url, path)
        watch.save()
        saved = tmp_path / "old.rdb"
        shutil.copy(server.folder / "dump.rdb", saved)
        work_off(Queue("default", connection=watch), watch)
        eventually(lambda: all(What.RUN_ENDED in whats_of(path, id) for id in ("twice", "once")))
        before = len(daemon.of("recovery_done"))
        os.kill(daemon.archivist_pid, signal.SIGSTOP)

        put_back(server, saved)
        eventually(lambda: queued(watch) == [twice, once])
        work_off(Queue("default", connection=watch), watch, most=1)  # before the archive has compared
        os.kill(daemon.archivist_pid, signal.SIGCONT)

        done = daemon.wait_for("recovery_done", before + 1)
        assert (1, 1, []) == (done["ran_again"], done["taken_out"], queued(watch))
        for status, run_id in (("ran_again", twice), ("withdrawn", once)):
            assert [run_id] == [one.run_id for one in client.history(status=status)]
        told = "\n".join(text for _, text in client.why("twice").lines)
        assert f"run {twice} ran again; Redis had gone back to a time before it was over" in told


def test_a_cancelled_schedule_in_an_older_rdb_does_not_fire_before_the_archive_has_compared(
    start_daemon: Start, tmp_path: Path
) -> None:
    path = tmp_path / "one.db"
    with own_server() as server, connect(server.url) as watch:
        daemon, client = start_daemon(server.url, ARCHIVE_PATH=str(path)), Client.from_url(server.url)
        daemon.wait_for("term_began")
        daemon.send(signal.SIGSTOP)
        client.schedule("app.task", id="cancelled", after=0)
        watch.save()
        saved = tmp_path / "old.rdb"
        shutil.copy(server.folder / "dump.rdb", saved)
        assert "cancelled" == client.cancel("cancelled")
        await_caught_up(server.url, path)
        server.kill()
        daemon.send(signal.SIGCONT)
        daemon.wait_for("redis_lost")
        before = len(daemon.of("recovery_done"))  # of the empty Redis at first
        os.kill(daemon.archivist_pid, signal.SIGSTOP)

        put_back(server, saved)
        daemon.wait_for("term_began", 2)
        watch.hset(KEYS.meta(), "hold", 0)  # it ends before the archive has compared
        eventually(lambda: watch.incr("looks") > 100)
        assert [] == queued(watch)
        os.kill(daemon.archivist_pid, signal.SIGCONT)

        assert 1 == daemon.wait_for("recovery_done", before + 1)["taken_out"]
        assert [] == queued(watch)
