"""Work of a daemon at the end of a pass: a reload by SIGHUP; of its archiver at a report. Without Redis."""

import dataclasses
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from tests.builders.entries import entry, put
from tests.builders.records import DUE_MS
from tests.unit.archive.contents import rows
from zsched.archive import Archive
from zsched.config.settings import ArchiveSettings, DaemonSettings, LogSettings, RedisSettings, Settings
from zsched.core.clock import ManualClock
from zsched.daemon.archiver import Archiver
from zsched.daemon.daemon import Daemon
from zsched.daemon.process import reload
from zsched.errors import ConfigError
from zsched.storage.connection import Link

DAY_US = 86_400_000_000
HOUR_MS = 3_600_000
NOW_MS = 1_767_225_600_000
LINK = Link.from_url("redis://127.0.0.1:1", 1)


def test_history_older_than_the_retention_is_pruned(tmp_path: Path) -> None:
    settings = Settings(archive=ArchiveSettings(path=str(tmp_path / "a.db"), retention_days=30))
    archiver, archive = Archiver(settings, LINK, ManualClock(), {"daemon": "daemon"}), Mock(prune=lambda: False)

    archiver._prune(archive, NOW_MS)

    archive.begin_pruning.assert_called_once_with(NOW_MS * 1000 - 30 * DAY_US)


def test_arguments_of_ended_runs_are_pruned_once_an_hour(tmp_path: Path) -> None:
    path, clock = tmp_path / "a.db", ManualClock()
    archiver = Archiver(
        Settings(archive=ArchiveSettings(path=str(path), keep_args=False)), LINK, clock, {"daemon": "daemon"}
    )

    def at_a_few_reports() -> list[int]:
        """Return the numbers of the entries whose arguments are stored."""
        for _ in range(5):
            archiver._prune(archive, NOW_MS)
        return [number for (number,) in rows(path, "SELECT n FROM argument ORDER BY n")]

    with closing(Archive(path, "default", keep_args=False)) as archive:
        archive.append([put(1, "ends"), put(2, "waits")])
        assert [1, 2] == at_a_few_reports()
        archive.append([entry(3, "cancel", "rows", 1, "ends", DUE_MS)])
        archive.commit()

        clock.advance(HOUR_MS - 1)
        assert [1, 2] == at_a_few_reports()
        clock.advance(1)
        assert [2] == at_a_few_reports()


def test_a_reload_starts_from_the_settings_of_the_previous_reload(tmp_path: Path) -> None:
    first = Settings(archive=ArchiveSettings(path=str(tmp_path / "a.db")))
    second = replace(first, queues={"email": {"max_per_second": 5}})
    given: list[Settings] = []

    def read(before: Settings) -> Settings:
        given.append(before)
        return second

    daemon = Daemon(first, LINK, ManualClock(), reload=read)
    for _ in range(2):
        daemon.reload()
        daemon._end_pass()

    assert [first, second] == given


BEFORE = Settings()


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Levels and formats of the log that came into force; structlog is unchanged."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr("zsched.daemon.process.configure", lambda *given: found.append(given))
    return found


def reloaded(**given: Any) -> tuple[Settings, list[Any]]:
    """Return the settings in force when a file has *given*, and the events of the reload."""
    with capture_logs() as said:
        now = reload(BEFORE, lambda: dataclasses.replace(BEFORE, **given))
    return now, said


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({}, []),
        ({"queues": {"email": {"max_per_second": 5}}}, ["queues"]),
        ({"log": LogSettings(level="debug", format="json")}, ["log.level", "log.format"]),
        ({"urgencies": {"slow": {"jitter": 60.0}}}, ["urgencies"]),
    ],
)
def test_a_reload_changes_log_and_queues_at_once(
    given: dict[str, Any], changed: list[str], configured: list[tuple[str, str]]
) -> None:
    now, said = reloaded(**given)

    assert dataclasses.replace(BEFORE, **given) == now
    assert [(now.log.level, now.log.format)] == configured
    assert [("settings_reloaded", changed)] == [(one["event"], one["changed"]) for one in said]


def test_a_reload_names_settings_that_need_a_restart_and_keeps_them() -> None:
    limits = {"email": {"max_per_second": 5}}

    now, said = reloaded(
        namespace="other",
        redis=RedisSettings(url="redis://:secret@elsewhere/0"),
        daemon=DaemonSettings(idle_ms=10, batch_max=7),
        archive=ArchiveSettings(path="/elsewhere.db"),
        queues=limits,
    )

    assert dataclasses.replace(BEFORE, queues=limits) == now
    assert ["settings_reloaded", "restart_needed"] == [one["event"] for one in said]
    keys = ["namespace", "redis.url", "daemon.idle_ms", "daemon.batch_max", "archive.path"]
    assert keys == said[1]["keys"]
    assert "secret" not in str(said)


def test_a_reload_with_wrong_settings_changes_nothing(configured: list[tuple[str, str]]) -> None:
    def read() -> Settings:
        raise ConfigError("/etc/zsched/zsched.toml: [deamon] is not a section; did you mean daemon?")

    with capture_logs() as said:
        now = reload(BEFORE, read)

    assert now is BEFORE
    assert [] == configured
    assert ["reload_failed"] == [one["event"] for one in said]
    assert "[deamon] is not a section" in said[0]["reason"]
