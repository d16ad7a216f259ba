"""
Two versions of zsched on one namespace, as during the upgrade of a fleet one by one.

The other version is this one with changed scripts: their SHA1s differ, so each version loads its own. If the stored
format differs too, the older version steps back as soon as the newer one has led.
"""

import shutil
import signal
from pathlib import Path

import pytest
import redis

import zsched
from tests.builders.daemons import Start, archive_of_its_own
from tests.faults.archives import fact, has_caught_up, log_in, report_of
from tests.faults.leases import await_listeners, lapse
from tests.faults.streams import schedule_stream
from tests.ledger import assert_dense, doubles, queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client, NewerFormat
from zsched.cli.program import USAGE
from zsched.core.entry import FORMAT
from zsched.embedded import EmbeddedRedis
from zsched.storage.archivers import ArchiveState, Report

pytestmark = pytest.mark.once


def another_version(folder: Path, format: int) -> Path:
    """Copy zsched into *folder* with changed texts of its scripts and with *format*."""
    being_written = shutil.ignore_patterns("*.pyc.*")  # by another process that compiles a module
    shutil.copytree(Path(zsched.__file__).parent, folder / "zsched", ignore=being_written)
    said = {
        "lua/lib/meta.lua": ("\nif format > ", "\n-- another version\nif format > "),
        "core/entry.py": (f"\nFORMAT: Final = {FORMAT}", f"\nFORMAT: Final = {format}"),
    }
    for name, (ours, theirs) in said.items():
        file = folder / "zsched" / name
        text = file.read_text()
        assert ours in text
        file.write_text(text.replace(ours, theirs))
    return folder


def test_alternating_leaders_of_two_versions_fire_each_run_once(
    server: EmbeddedRedis, watch: redis.Redis, start_daemon: Start, tmp_path: Path
) -> None:
    other = another_version(tmp_path, FORMAT)
    leader = start_daemon(server.url)
    leader.wait_for("term_began")
    runs = schedule_stream(Client.from_url(server.url), watch, 2000)

    for share, code in ((4, other), (2, None)):  # forth, and back: an upgrade that is taken back
        follower = start_daemon(server.url, code=code)
        await_listeners(watch, 2)
        eventually(lambda share=share: watch.llen(f"{RQ}:queue:default") >= len(runs) // share)
        leader.stop()
        follower.wait_for("term_began")
        leader = follower

    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= len(runs))
    leader.stop()
    assert [] == doubles(queued(watch))
    assert set(runs) == set(queued(watch))
    assert_dense(watch)


def test_older_daemons_and_clients_are_refused_after_a_newer_format_led(
    server: EmbeddedRedis, watch: redis.Redis, start_daemon: Start, tmp_path: Path
) -> None:
    old = start_daemon(server.url)
    old.wait_for("term_began")
    client = Client.from_url(server.url)
    client.schedule("app.tasks.t", id="kept", after=3600)
    new = start_daemon(server.url, code=another_version(tmp_path, FORMAT + 1))
    await_listeners(watch, 2)

    old.stop()
    new.wait_for("term_began")
    older = start_daemon(server.url)
    refusal = older.wait_for("redis_refused")

    assert f"in format {FORMAT + 1}, and this one knows {FORMAT}: upgrade zsched here" in refusal["reason"]
    with pytest.raises(NewerFormat):
        client.schedule("app.tasks.t", id="kept", after=60)
    assert watch.zcard("zsched:{default}:due:normal") == 1
    older.stop()
    new.stop()


def test_an_older_archive_stops_at_a_newer_format_and_continues_when_upgraded(
    server: EmbeddedRedis, watch: redis.Redis, start_daemon: Start, tmp_path: Path
) -> None:
    newer, path = another_version(tmp_path, FORMAT + 1), Path(archive_of_its_own())
    old = start_daemon(server.url, ARCHIVE_PATH=str(path))
    old.wait_for("term_began")
    eventually(lambda: has_caught_up(server.url, path))
    new = start_daemon(server.url, code=newer)
    new.wait_for("daemon_started")

    old.send_to_all(signal.SIGSTOP)  # both are there when the newer one takes over
    lapse(watch)
    new.wait_for("term_began")
    old.send_to_all(signal.SIGCONT)
    refusal = old.wait_for("archive_outdated")
    told = eventually(lambda: outdated(server.url, path))

    assert "upgrade zsched here" in refusal["reason"]
    term = next(entry for entry in log_in(server.url) if entry.format == FORMAT + 1)
    assert told.position is not None
    assert (1, str(told.position)) == (term.position.seq - told.position.seq, fact(path, "position"))
    old.stop()
    start_daemon(server.url, code=newer, ARCHIVE_PATH=str(path))
    eventually(lambda: has_caught_up(server.url, path))


def outdated(url: str, path: Path) -> Report | None:
    """Return the last report of the archive at *path* if it is outdated."""
    report = report_of(url, path)
    return report if report and report.state is ArchiveState.OUTDATED else None


def test_an_older_daemon_refuses_a_newer_archive(server: EmbeddedRedis, start_daemon: Start, tmp_path: Path) -> None:
    path = Path(archive_of_its_own())
    new = start_daemon(server.url, code=another_version(tmp_path, FORMAT + 1), ARCHIVE_PATH=str(path))
    new.wait_for("term_began")
    eventually(lambda: has_caught_up(server.url, path))
    new.stop()

    older = start_daemon(server.url, ARCHIVE_PATH=str(path))

    assert USAGE == older.wait()  # so that its unit does not start it again
    assert f"entries of format {FORMAT + 1}, and this one knows {FORMAT}; upgrade zsched here" in str(older.events)


def test_a_restore_by_a_newer_archive_ends_the_term_of_an_older_leader(
    server: EmbeddedRedis, watch: redis.Redis, start_daemon: Start, tmp_path: Path
) -> None:
    path, mine = Path(archive_of_its_own()), Path(archive_of_its_own())
    Client.from_url(server.url).schedule("app.tasks.t", id="kept", after=3600)
    new = start_daemon(server.url, code=another_version(tmp_path, FORMAT + 1), ARCHIVE_PATH=str(path))
    new.wait_for("term_began")
    eventually(lambda: has_caught_up(server.url, path))

    new.send_to_all(signal.SIGSTOP)
    watch.flushall()
    old = start_daemon(server.url, ARCHIVE_PATH=str(mine))
    old.wait_for("term_began")
    new.send_to_all(signal.SIGCONT)
    new.wait_for("recovery_done")
    old.wait_for("archive_outdated")
    lapse(watch)
    new.wait_for("term_began", 2)

    assert 1 == watch.zcard("zsched:{default}:due:normal")
    restore = next(entry for entry in log_in(server.url) if entry.format == FORMAT + 1)
    stopped = eventually(lambda: outdated(server.url, mine))
    assert ("restore", stopped.position.seq) == (restore.kind, restore.position.seq - 1)
    assert f"in format {FORMAT + 1}, and this one knows {FORMAT}" in old.wait_for("redis_refused")["reason"]
    old.stop()
    new.stop()
