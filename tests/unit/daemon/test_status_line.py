from __future__ import annotations

from typing import Any

import pytest

from zsched.core.choices import Priority
from zsched.core.clock import ManualClock
from zsched.daemon.status_line import text_of
from zsched.health.facts import DaemonHealth
from zsched.storage.archivers import ArchiveState, Report
from zsched.storage.overview import Overview

NOW_MS = 1_767_225_600_000
NONE = dict.fromkeys(Priority, 0)


def overview(**changes: Any) -> Overview:
    quiet: dict[str, Any] = {
        "now_ms": NOW_MS,
        "waiting": NONE,
        "overdue": NONE,
        "oldest_due_ms": None,
        "recurring": 0,
        "paused": 0,
        "quarantined": 0,
        "leader": "me",
        "lease_ms": 15_000,
        "led_since_ms": None,
        "epoch": 7,
        "log_length": 0,
        "log_last": None,
        "hold_ms": 0,
        "archives": [Report("a", None, NOW_MS, ArchiveState.FOLLOWING, {})],
        "held_back": [],
    }
    return Overview(**quiet | changes)


def health(trouble: str | None) -> DaemonHealth:
    health = DaemonHealth(ManualClock())
    health.trouble = trouble
    return health


@pytest.mark.parametrize(
    ("changes", "trouble", "text"),
    [
        ({}, None, "leading in epoch 7; 0 due; 0 waiting"),
        ({"leader": "other"}, None, "standing by for other; 0 due; 0 waiting"),
        ({"leader": None}, None, "nobody leads; 0 due; 0 waiting"),
        ({"hold_ms": NOW_MS + 1500}, None, "leading in epoch 7, held for 1s500ms; 0 due; 0 waiting"),
        ({"hold_ms": NOW_MS}, None, "leading in epoch 7; 0 due; 0 waiting"),
        (
            {"waiting": NONE | {Priority.LOW: 1200, Priority.HIGH: 34}, "oldest_due_ms": NOW_MS + 5000},
            None,
            "leading in epoch 7; 0 due; 1,234 waiting",
        ),
        (
            {
                "waiting": NONE | {Priority.LOW: 1200},
                "overdue": NONE | {Priority.LOW: 1000, Priority.NORMAL: 5},
                "oldest_due_ms": NOW_MS - 62_000,
            },
            None,
            "leading in epoch 7; 1,005 due, the oldest 1m2s late; 1,200 waiting",
        ),
        ({"leader": "other"}, "may not lead: it is a slave", "may not lead: it is a slave; 0 due; 0 waiting"),
        ({"leader": None}, "may not lead: it is a slave", "may not lead: it is a slave; 0 due; 0 waiting"),
        ({}, "Redis refused: OOM", "leading in epoch 7, but Redis refused: OOM; 0 due; 0 waiting"),
    ],
)
def test_the_status_line_has_leader_due_runs_and_lateness(
    changes: dict[str, Any], trouble: str | None, text: str
) -> None:
    assert text == text_of(overview(**changes), "me", health(trouble))


def test_the_status_line_ends_with_the_worst_problem_not_yet_named() -> None:
    ill = overview(archives=[], leader="other", oldest_due_ms=NOW_MS - 62_000)

    assert "standing by for other; 0 due; 0 waiting; no archive follows the log" == text_of(ill, "me", health(None))
