"""Output of commands in a terminal's width, with short times, colours and progress; whole elsewhere."""

import sys
from io import StringIO

import pytest

from zsched.cli.output import Progress, Shown, Style, StyledLine, Table, TableRow, Terminal, say
from zsched.cli.program import Invocation
from zsched.core.clock import ManualClock

NOW_MS = 1_795_500_000_000  # 2026-11-24 06:00:00 UTC
PIPE = Terminal()
SCREEN = Terminal(width=80, now_ms=NOW_MS)
HISTORY = Table(
    ("DECIDED", "SCHEDULE", "STATUS", "LATE", "STATE", "WHY", "RUN"),
    [
        ("05:59:51.502", "reminder-of-a-customer-in-seoul", "fired", "1.2 ms", "failed, attempt 2", "E" * 30, "r-1"),
        ("05:59:50.001", "b", "skipped", "", "", "overlap: the run before it was not over, and waits", ""),
    ],
)


def shown(*lines: Shown, terminal: Terminal = SCREEN, tz: str | None = None) -> list[str]:
    return list(terminal.shown(lines, tz))


WHOLE = f"2026-11-24 05:59:51.502+00:00  fired {'word ' * 40}".rstrip()
FIRED_AT = ["2026-11-24 05:59:51+00:00  fired", "2026-11-24 05:59:52+00:00  fired"]
COLUMNS, ROWS = ("ID", "STATE"), [("a", "active")]
SHOWN: dict[str, tuple[list[Shown], Terminal, str | None, list[str]]] = {
    "a line for another program": ([StyledLine(WHOLE, Style.BAD)], PIPE, "UTC", [WHOLE]),
    "a word longer than the terminal": ([f"run {'x' * 128} ended"], SCREEN, None, ["run", "  " + "x" * 128, "  ended"]),
    "the zone of short times": ([*FIRED_AT], SCREEN, "UTC", ["05:59:51  fired", "05:59:52  fired", "times in UTC"]),
    "no time": (["no time"], SCREEN, "UTC", ["no time"]),
    "no empty line below a row": (
        [Table(("A", "B"), [("a" * 50, "b" * 39), ("a", "")])],
        SCREEN,
        None,
        ["A", "    B", "a" * 50, "    " + "b" * 39, "a"],
    ),
    "a table that fits": ([Table(COLUMNS, ROWS)], SCREEN, None, ["ID  STATE", "a   active"]),
    "an indented table": ([Table(COLUMNS, ROWS, indent=2)], SCREEN, None, ["  ID  STATE", "  a   active"]),
}


@pytest.mark.parametrize(("lines", "terminal", "tz", "expected"), SHOWN.values(), ids=SHOWN)
def test_lines_and_tables_fit_the_terminal(
    lines: list[Shown], terminal: Terminal, tz: str | None, expected: list[str]
) -> None:
    assert expected == shown(*lines, terminal=terminal, tz=tz)


def test_a_long_line_is_wrapped_below_its_second_column() -> None:
    found = shown(f"05:59:51.502  fired {'word ' * 30}")

    assert max(map(len, found)) <= 80
    assert {" " * 14} == {line[:14] for line in found[1:]}
    assert 30 == " ".join(found).count("word")


def test_errors_and_remarks_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Terminal, "of", lambda *_: SCREEN)

    Invocation().tell_error("word " * 40 + "\nanother line", ValueError())
    say("word " * 40)

    told = capsys.readouterr().err.splitlines()
    assert max(map(len, told)) <= 80
    assert ["zsched: word", "another line", "zsched: word"] == [line[:12] for line in told if line[0] != " "]


def test_a_long_line_without_columns_is_wrapped_with_an_indent() -> None:
    assert {"  "} == {line[:2] for line in shown("UNHEALTHY: " + "word " * 30)[1:]}
    assert {" " * 4} == {line[:4] for line in shown("  → " + "word " * 30)[1:]}


@pytest.mark.parametrize(
    ("given", "tz", "expected"),
    [
        ("2026-11-24 05:59:51.502+00:00", "UTC", "05:59:51.502"),
        ("2026-11-23 23:59:59+00:00", "UTC", "2026-11-23 23:59:59"),
        ("2026-11-24 14:59:51+09:00", "Asia/Seoul", "14:59:51"),
        ("2026-11-24 14:59:51+09:00", "UTC", "14:59:51+09:00"),
        ("2026-11-24 14:59:51+09:00", None, "14:59:51+09:00"),
        ("2026-07-01 09:00:00-04:00", "America/New_York", "2026-07-01 09:00:00"),
        ("2026-11-23 23:00:00-05:00", "America/New_York", "2026-11-23 23:00:00"),
        ("2026-11-24 00:30:00-05:00", "America/New_York", "00:30:00"),
    ],
)
def test_a_time_is_shown_without_todays_date_and_the_known_offset(given: str, tz: str | None, expected: str) -> None:
    assert f"due {expected}, soon" == shown(f"due {given}, soon", tz=tz)[0]


def test_columns_that_do_not_fit_continue_below_in_the_same_place() -> None:
    found = shown(HISTORY)

    assert max(map(len, found)) <= 80
    header, below = found[:2]
    assert ["DECIDED", "SCHEDULE", "STATUS", "LATE"] == header.split()
    assert ["STATE", "WHY", "RUN"] == below.split()
    failed = next(line for line in found if "failed, attempt 2" in line)
    assert below.index("WHY") == failed.index("E" * 30)


def test_a_text_in_the_last_column_is_wrapped_within_it() -> None:
    found = shown(Table(("VERDICT", "CHECK", "FOUND"), [("ok", "redis", "word " * 30)]))

    assert {" " * 16} == {line[:16] for line in found[2:]}
    assert max(map(len, found)) <= 80


def test_a_control_character_in_a_cell_is_not_printed() -> None:
    assert "\x1b" not in "".join(shown(Table(("ID",), [("\x1b[31mred",)])))


def test_a_style_is_a_colour_on_a_terminal_that_has_colours() -> None:
    colours = Terminal(width=80, has_colour=True, now_ms=NOW_MS)

    [_, row] = shown(Table(("ID",), [TableRow(("mail",), Style.BAD)]), terminal=colours)
    assert row.startswith("\x1b[")
    assert "mail" in row
    assert ["plain"] == shown("plain", terminal=colours)
    assert ["bad"] == shown(StyledLine("bad", Style.BAD))


class ColourScreen(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("env", "expected"), [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_the_setting_no_color_ends_colours(
    env: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")

    found = Terminal.of(ColourScreen(), {"TERM": "xterm"} | env)
    assert (100, expected) == (found.width, found.has_colour)
    assert Terminal() == Terminal.of(StringIO(), {"TERM": "xterm"} | env)


def shown_on(monkeypatch: pytest.MonkeyPatch) -> ColourScreen:
    """
    Replace stderr by a terminal, and return it. It is no fixture, as pytest sets stderr anew when the test begins.
    """
    terminal = ColourScreen()
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
