"""The progress of a task, on a terminal and elsewhere."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from zsched.cli.output import Progress
from zsched.core.clock import ManualClock


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def shown_on(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """
    Replace stderr by a terminal, and return it. It is no fixture, as pytest sets stderr anew when the test begins.
    """
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_a_terminal_has_a_bar_from_the_beginning_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on(monkeypatch)

    with Progress("applying", is_quiet=False) as progress:
        progress.at(0, 20)
        began = terminal.getvalue()
        progress.at(7, 20)
        progress.at(20, 20)

    assert "applying" in began
    assert "0/20" in began
    assert "7/20" in terminal.getvalue()
    assert "20/20" in terminal.getvalue()
    assert (20, 20) == (progress.done, progress.total)


def test_a_bar_appears_only_for_a_long_task(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on(monkeypatch)

    with Progress("backfilling", is_quiet=False, least=100) as progress:
        progress.at(30, 99)
        before = terminal.getvalue()
        progress.at(60, 150)
        progress.at(150, 150)

    assert "" == before
    assert "60/150" in terminal.getvalue()
    assert "150/150" in terminal.getvalue()


def test_a_quiet_progress_counts_without_printing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = shown_on(monkeypatch), ManualClock()

    with Progress("recovering", is_quiet=True, counted="schedules compared", clock=clock) as progress:
        clock.advance(10_000)
        progress.at(5, 10)

    assert "" == terminal.getvalue()
    assert (5, 10) == (progress.done, progress.total)


def test_progress_without_a_terminal_prints_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()

    with Progress("recovering", is_quiet=False, counted="schedules compared", clock=clock) as progress:
        for done in (0, 1000, 2000, 3000, 4000, 5000):
            progress.at(done, 5000)
            clock.advance(1500)

    assert ["zsched: 2,000 of 5,000 schedules compared", "zsched: 4,000 of 5,000 schedules compared"] == (
        capsys.readouterr().err.splitlines()
    )


@pytest.mark.parametrize(("is_quiet", "counted"), [(False, ""), (True, "schedules compared")])
def test_progress_without_a_terminal_prints_nothing_if_uncounted_or_quiet(
    capsys: pytest.CaptureFixture[str], is_quiet: bool, counted: str
) -> None:
    clock = ManualClock()

    with Progress("applying", is_quiet=is_quiet, counted=counted, clock=clock) as progress:
        clock.advance(10_000)
        progress.at(5, 10)

    assert ("", "") == capsys.readouterr()
