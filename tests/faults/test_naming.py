"""Naming of data sets: a new one gets a name, and a flushed one gets its own back if an archive knows it."""

import signal
from pathlib import Path

import redis

from tests.builders.command_line import Zsched
from tests.builders.daemons import Start
from tests.faults.archives import KEYS, await_caught_up, report_of, stop
from tests.faults.disks import LimitedFiles
from tests.faults.identities import BRIEF, PATIENT, begin, fill_held, gen, ids, path_of
from tests.ledger import queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.storage.archivers import ArchiveState


def test_a_data_set_keeps_its_name_if_the_disk_fails_during_a_flush(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, tmp_path: Path
) -> None:
    path, disk = tmp_path / "archive.db", LimitedFiles(tmp_path)
    daemon = begin(start_daemon, server.url, ARCHIVE_PATH=str(path), **BRIEF)
    fill_held(server.url)
    await_caught_up(server.url, path)
    before = gen(watch)
    disk.fill(daemon.archivist_pid)
    Client.from_url(server.url).schedule("app.mail", id="poke", after=3600)
    daemon.wait_for("archive_failed")

    watch.flushall()
    eventually(lambda: gen(watch))
    disk.free(daemon.archivist_pid)

    assert before == gen(watch)
    daemon.wait_for("recovery_done")
    assert {"mail-bob", "mail-cron"} == ids(server.url)
    assert [] == daemon.of("archive_refused")
    stop(daemon)


def test_a_new_daemon_leading_after_a_flush_keeps_the_name_of_the_data_set(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, tmp_path: Path
) -> None:
    knows = begin(start_daemon, server.url, ARCHIVE_PATH=str(tmp_path / "knows.db"))
    fill_held(server.url)
    await_caught_up(server.url, path_of(knows))
    before = gen(watch)

    knows.send_to_all(signal.SIGSTOP)
    watch.flushall()
    fresh = start_daemon(server.url, ARCHIVE_PATH=str(tmp_path / "fresh.db"), **PATIENT)
    fresh.wait_for("term_began")
    knows.send_to_all(signal.SIGCONT)

    named = fresh.wait_for("data_set_named")
    assert (before.decode(), False) == (named["name"], named["is_new"])
    knows.wait_for("recovery_done")
    assert {"mail-bob", "mail-cron"} == ids(server.url)
    assert [] == knows.of("archive_refused")
    assert watch.hget(KEYS.meta(), "doubt") is not None
    stop(fresh, knows)


def test_an_archive_absent_while_the_data_set_was_renamed_is_refused_until_recover(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, tmp_path: Path
) -> None:
    path = tmp_path / "silent.db"
    silent = begin(start_daemon, server.url, ARCHIVE_PATH=str(path))
    fill_held(server.url)
    await_caught_up(server.url, path)
    before = gen(watch)
    silent.send_to_all(signal.SIGSTOP)
    watch.flushall()
    fresh = start_daemon(server.url, ARCHIVE_PATH=str(tmp_path / "fresh.db"), **BRIEF)
    fresh.wait_for("data_set_named")
    assert before != gen(watch)

    silent.send_to_all(signal.SIGCONT)

    said = silent.wait_for("archive_refused")["reason"]
    assert f"zsched archive recover --from {path}" in said
    assert set() == ids(server.url)
    assert not silent.has_ended
    eventually(lambda: (report := report_of(server.url, path)) and report.state is ArchiveState.REFUSED)
    assert 0 == Zsched(server.url)("archive", "recover", "--from", str(path), "--force").exit_code
    assert {"mail-bob", "mail-cron"} == ids(server.url)
    eventually(lambda: (report := report_of(server.url, path)) and report.state is ArchiveState.FOLLOWING)
    stop(fresh, silent)


def test_the_first_run_of_new_data_is_certain(start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis) -> None:
    watch.flushall()
    Client.from_url(server.url).schedule("app.mail", id="first", after=0, on_uncertain="skip")
    Client.from_url(server.url).schedule("app.mail", id="second", after=0)

    daemons = [start_daemon(server.url, ARCHIVE_PATH="", **BRIEF) for _ in range(2)]

    runs = eventually(lambda: len(found := queued(watch)) == 2 and found)
    assert [None, None] == [watch.hget(f"{RQ}:job:{run}", "zs_uncertain") for run in runs]
    assert watch.hget(KEYS.meta(), "doubt") is None
    stop(*daemons)
    assert [True] == [event["is_new"] for daemon in daemons for event in daemon.of("data_set_named")]


def test_the_first_run_after_a_flush_is_uncertain_if_an_archive_had_entries(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, tmp_path: Path
) -> None:
    path = tmp_path / "archive.db"
    first = begin(start_daemon, server.url, ARCHIVE_PATH=str(path))
    stop(first)
    watch.flushall()
    Client.from_url(server.url).schedule("app.mail", id="again", after=0)

    second = start_daemon(server.url, ARCHIVE_PATH=str(path), **BRIEF)

    [run] = eventually(lambda: queued(watch))
    assert b"1" == watch.hget(f"{RQ}:job:{run}", "zs_uncertain")
    stop(second)
