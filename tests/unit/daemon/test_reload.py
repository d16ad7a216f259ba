"""SIGHUP: the settings that change, and the event about settings that need a restart."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from structlog.testing import capture_logs

from zsched.config.parsing import QueueSettings
from zsched.config.settings import ArchiveSettings, DaemonSettings, LogSettings, RedisSettings, Settings
from zsched.daemon.reload import reload
from zsched.errors import ConfigError

BEFORE = Settings()


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Levels and formats of the log that came into force; structlog is unchanged."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr("zsched.daemon.reload.configure", lambda *given: found.append(given))
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
        ({"queues": {"email": QueueSettings(5)}}, ["queues"]),
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
    limits = {"email": QueueSettings(5)}

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
        raise ConfigError("/etc/zsched/zsched.toml: [deamon] is no section; did you mean daemon?")

    with capture_logs() as said:
        now = reload(BEFORE, read)

    assert now is BEFORE
    assert [] == configured
    assert ["reload_failed"] == [one["event"] for one in said]
    assert "[deamon] is no section" in said[0]["reason"]
