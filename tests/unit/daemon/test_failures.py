"""Failures of a daemon's threads, and failures of another process that are shown with them."""

from __future__ import annotations

from zsched.daemon.failures import Failures
from zsched.errors import ArchiveFailed

ERROR = ArchiveFailed("the disk is full")


def test_failures_of_another_process_are_shown_until_they_end() -> None:
    failures = Failures()
    failures.begin("thread", "waker", ERROR)

    failures.show_others({"thread archiver": "a bug", "chore auditor": "another"})
    failures.show_others({"thread archiver": "a bug"})

    assert {"thread waker": "the disk is full", "thread archiver": "a bug"} == failures.shown
    assert {"thread waker": "the disk is full"} == failures.own
    failures.show_others({})
    assert failures.own == failures.shown


def test_an_ended_failure_is_not_shown() -> None:
    shown: dict[str, str] = {}
    failures = Failures(shown)
    failures.begin("chore", "auditor", ERROR)

    failures.end("chore", "auditor")

    assert {} == shown == failures.own
