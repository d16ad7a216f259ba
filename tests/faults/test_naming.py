"""A data set that lost its name gets it back although something else fails at that moment."""

from __future__ import annotations

from pathlib import Path

import redis

from tests.faults.archives import await_caught_up, stop
from tests.faults.disks import LimitedFiles
from tests.faults.identities import begin, fill_held, gen, ids
from tests.faults.processes import Start, eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis


def test_a_data_set_keeps_its_name_if_the_disk_fails_during_a_flush(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, tmp_path: Path
) -> None:
    path, disk = tmp_path / "archive.db", LimitedFiles(tmp_path)
    daemon = begin(start_daemon, server.url, ARCHIVE_PATH=str(path))
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
