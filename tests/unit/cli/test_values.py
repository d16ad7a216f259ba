"""Times and functions in a command: never a guess about day and month, allowed functions, and missing ones."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import click
import pytest
from rq.job import Callback

from zsched.cli.functions import is_roots_alone, tell_unchecked
from zsched.cli.values import instant, moment
from zsched.client.allowed import check_allowed
from zsched.errors import InvalidSchedule

SEOUL = timezone(timedelta(hours=9))


SIX, ISO = datetime(2026, 12, 24, 18), ["2026-12-24T18:00", "2026-12-24 18:00", "20261224T1800"]
WRITTEN = {
    SIX: [*ISO, "2026/12/24 18:00", "24 Dec 2026 18:00", "Dec 24, 2026 6pm"],
    SIX.replace(second=30, microsecond=250_000): ["2026-12-24 18:00:30.250"],
    SIX.replace(tzinfo=UTC): ["2026-12-24T18:00Z", "24 December 2026 18:00 UTC"],
    SIX.replace(tzinfo=SEOUL): ["2026-12-24 18:00+09:00", "Thu, 24 Dec 2026 18:00:00 +0900"],
}


@pytest.mark.parametrize(("text", "expected"), [(text, at) for at, texts in WRITTEN.items() for text in texts])
def test_a_time_is_read_as_people_write_it(text: str, expected: datetime) -> None:
    found = instant(text)

    assert expected == found
    assert (expected.tzinfo is None) == (found.tzinfo is None)


def test_a_time_without_a_year_is_in_this_year() -> None:
    before, found, after = datetime.now(UTC), instant("24 Dec 18:00"), datetime.now(UTC)

    assert datetime(found.year, 12, 24, 18) == found
    assert before.year <= found.year <= after.year


UNCLEAR = {
    "no time of day": ["2026-12-24", "24 Dec 2026"],
    "no date": ["18:00", "Friday 18:00", "Dec 2026 18:00"],
    "unknown order": ["24/12/2026 18:00", "12/24 18:00", "01-02-2026 18:00", "1.2.2026 18:00"],
    "'KST' is ambiguous": ["2026-12-24 18:00 KST"],
    "is not a time; give 2026-12-24 18:00": ["soon"],
    "is not a time": ["", "9" * 400],
}


@pytest.mark.parametrize(("text", "reason"), [(text, reason) for reason, texts in UNCLEAR.items() for text in texts])
def test_an_unclear_time_is_refused_with_examples(text: str, reason: str) -> None:
    with pytest.raises(click.BadParameter, match=reason):
        instant(text)


def test_a_moment_is_a_duration_or_a_time() -> None:
    assert timedelta(hours=1, minutes=30) == moment("1h30m")
    assert datetime(2026, 12, 24, 18) == moment("2026-12-24 18:00")
    with pytest.raises(click.BadParameter, match="neither a duration nor a time; give 90s"):
        moment("yesterday")


@pytest.mark.parametrize(
    ("func", "options", "refused"),
    [
        ("app.tasks.send", {}, None),
        (None, {"on_success": "app.tasks.done"}, None),
        ("os.system", {}, "func='os.system'"),
        ("app.tasks.os.system", {}, "func='app.tasks.os.system'"),
        ("app.tasks.send", {"on_success": "os.abort"}, "on_success='os.abort'"),
        ("app.tasks.send", {"on_failure": {"func": "os.abort"}}, "on_failure='os.abort'"),
        ("app.tasks.send", {"on_failure": Callback("os.abort", timeout=9)}, "on_failure='os.abort'"),
        ("app.tasks.send", {"on_failure": 7}, None),  # for the client to refuse
    ],
)
def test_every_named_function_must_be_allowed(func: str | None, options: dict[str, Any], refused: str | None) -> None:
    told = None

    try:
        check_allowed(("app.tasks.*",), func, options)
    except InvalidSchedule as error:
        told = str(error).partition(":")[0]

    assert refused == told


def test_ten_of_many_missing_functions_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    tell_unchecked({f"gone.f{n}": "gone" for n in range(1012)}, "so it goes")

    out, err = capsys.readouterr()
    assert ("", 10, True) == (out, err.count("(no module 'gone')"), err.endswith(", and 1,002 more; so it goes\n"))


def test_a_note_is_not_printed_if_all_functions_exist(capsys: pytest.CaptureFixture[str]) -> None:
    tell_unchecked({}, "so it goes")

    assert ("", "") == capsys.readouterr()


@pytest.mark.parametrize(
    ("owner", "mode", "is_alone"),
    [
        (0, 0o040755, True),
        (0, 0o040700, True),
        (0, 0o040775, False),
        (0, 0o040757, False),
        (0, 0o041777, False),  # /tmp: others may put their files there
        (1000, 0o040700, False),
    ],
)
def test_a_folder_is_safe_for_root_if_only_root_may_write_there(owner: int, mode: int, is_alone: bool) -> None:
    assert is_alone is is_roots_alone(os.stat_result((mode, 1, 1, 2, owner, 0, 4096, 0, 0, 0)))
