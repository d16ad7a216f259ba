import io
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest
import structlog

from tests.waiting import ENDS_S
from zsched import events
from zsched.core.clock import ManualClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stream() -> io.StringIO:
    """The stream that receives events."""
    stream = io.StringIO()
    events.configure(stream=stream)
    return stream


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_outside_of_a_terminal_is_one_json_object_with_a_utc_timestamp(stream: io.StringIO) -> None:
    structlog.get_logger().info("run_fired", schedule_id="reminder-42", late_ms=3)

    (event,) = lines_of(stream)
    timestamp = str(event.pop("timestamp"))
    assert {"event": "run_fired", "level": "info", "schedule_id": "reminder-42", "late_ms": 3} == event
    assert timestamp.endswith("Z")
    assert datetime.fromisoformat(timestamp).tzinfo == UTC


@pytest.mark.parametrize("no_color", ["1", ""])
def test_an_event_on_a_terminal_is_a_line_for_people_in_colours(monkeypatch: pytest.MonkeyPatch, no_color: str) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    stream = Terminal()
    events.configure(stream=stream)

    structlog.get_logger().info("run_fired", late_ms=3)

    plain = re.sub(r"\x1b\[\d*m", "", stream.getvalue())
    assert "run_fired" in plain
    assert "late_ms=3" in plain
    assert ("\x1b[" in stream.getvalue()) == (no_color == "")


def test_the_format_can_be_forced_either_way() -> None:
    terminal, pipe = Terminal(), io.StringIO()

    events.configure(format="json", stream=terminal)
    structlog.get_logger().info("lease_taken")
    events.configure(format="console", stream=pipe)
    structlog.get_logger().info("lease_taken")

    assert json.loads(terminal.getvalue())["event"] == "lease_taken"
    assert not pipe.getvalue().startswith("{")


def test_events_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    events.configure(level="warning", stream=stream)
    log = structlog.get_logger()

    log.info("tick_done")
    log.warning("clock_jumped")

    assert ["clock_jumped"] == [event["event"] for event in lines_of(stream)]


def test_a_later_setup_reaches_loggers_that_were_used_already() -> None:
    first, second = io.StringIO(), io.StringIO()
    log = structlog.get_logger()

    events.configure(stream=first)
    log.info("daemon_started")
    events.configure(stream=second)
    log.info("daemon_stopped")

    assert (["daemon_started"], ["daemon_stopped"]) == tuple([e["event"] for e in lines_of(s)] for s in (first, second))


def burst(name: str, id: str, number: int = 1) -> None:
    for _ in range(number):
        structlog.get_logger().info(name, schedule_id=id)


def test_an_event_of_a_schedule_is_one_line_a_second_and_the_next_says_how_many_were_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, stream = ManualClock(), io.StringIO()
    monkeypatch.setattr(events, "SystemClock", lambda: clock)
    events.configure(stream=stream)

    burst("run_skipped", "a", 700)
    burst("run_skipped", "b", 2)
    burst("run_expired", "a")
    clock.advance(999)
    burst("run_skipped", "a")
    clock.advance(1)
    burst("run_skipped", "a", 2)
    clock.advance(1000)
    burst("run_skipped", "a")
    clock.advance(1000)
    burst("run_skipped", "a")

    lines = [(line["event"], line["schedule_id"], line.get("left_out")) for line in lines_of(stream)]
    assert [
        ("run_skipped", "a", None), ("run_skipped", "b", None), ("run_expired", "a", None),
        ("run_skipped", "a", 700), ("run_skipped", "a", 1), ("run_skipped", "a", None),
    ] == lines  # fmt: skip


def test_events_without_a_schedule_are_all_written(stream: io.StringIO) -> None:
    for _ in range(3):
        structlog.get_logger().info("lease_taken")

    assert 3 == len(lines_of(stream))


def test_the_memory_of_thinned_events_is_bounded() -> None:
    thinned = events._Thinned(ManualClock())
    for number in range(events._REMEMBERED + 5):
        thinned(None, "info", {"event": "run_skipped", "schedule_id": str(number)})

    assert 5 == len(thinned._told)


@pytest.mark.parametrize("format", ["json", "console"])
def test_an_exception_is_rendered_with_its_traceback(format: str) -> None:
    stream = io.StringIO()
    events.configure(format=format, stream=stream)

    try:
        raise ZeroDivisionError("by nothing")
    except ZeroDivisionError:
        structlog.get_logger().exception("schedule_quarantined", schedule_id="x")

    assert "Traceback (most recent call last)" in stream.getvalue()
    assert "ZeroDivisionError: by nothing" in stream.getvalue()


def test_a_value_without_a_json_form_is_written_as_its_repr(stream: io.StringIO) -> None:
    structlog.get_logger().info("job_encoded", data=b"\xff", at=datetime(2026, 1, 1, tzinfo=UTC))

    assert lines_of(stream)[0]["data"] == repr(b"\xff")


def test_a_closed_stream_loses_events_and_nothing_else(stream: io.StringIO) -> None:
    stream.close()

    structlog.get_logger().info("run_fired")
    events.configure(stream=stream)


def test_a_broken_pipe_loses_events_and_nothing_else() -> None:
    script = (
        "import sys, structlog; from zsched import events; events.configure(); sys.stdin.readline();"
        "[structlog.get_logger().info('run_fired', n=n) for n in range(1000)]; print('done')"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert program.stderr is not None

    program.stderr.close()  # nobody reads its events any more
    told, _ = program.communicate(b"go\n", timeout=ENDS_S)

    assert (b"done\n", 0) == (told, program.returncode)


def test_a_long_text_of_another_program_is_cut_in_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    events.configure(format="json")
    huge = "A" * 30_000_000

    structlog.get_logger().error(
        "run_cancelled", reason=huge, runs=[huge] * 200, about={huge: [huge]}, raw=huge.encode()
    )
    try:
        raise ValueError(huge)
    except ValueError:
        structlog.get_logger().exception("failed")

    first, second = capsys.readouterr().err.splitlines()
    told = json.loads(first)
    assert "A" * 2000 + "… (30,000,000 characters)" == told["reason"]
    assert 100 == len(told["runs"])
    assert 300_000 > len(first)
    assert 30_000 > len(second)
