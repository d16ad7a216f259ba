"""Times and functions in commands; runs as cells of a table, and one-line summaries of log entries."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import click
import pytest
from rq.job import Callback

from zsched.cli.formats import run_table
from zsched.cli.functions import is_roots_alone, tell_unchecked
from zsched.cli.log import summary
from zsched.cli.output import Terminal
from zsched.cli.parameters import instant, moment
from zsched.client.put_checks import check_allowed
from zsched.core.entry import Entry, Position
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.cells import cells, remark, with_short_workers
from zsched.core.runs.run import Run, RunStatus
from zsched.core.story.sentences import sentence
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


def test_ten_of_many_missing_functions_are_named_and_nothing_if_all_exist(capsys: pytest.CaptureFixture[str]) -> None:
    tell_unchecked({}, "so it goes")
    assert ("", "") == capsys.readouterr()
    tell_unchecked({f"gone.f{n}": "gone" for n in range(1012)}, "so it goes")

    out, err = capsys.readouterr()
    assert ("", 10, True) == (out, err.count("(no module 'gone')"), err.endswith(", and 1,002 more; so it goes\n"))


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


AT = Position(1, 7, 1_767_225_600_000_000)


def entry(kind: str, *body: str) -> Entry:
    return Entry(AT, kind, [text.encode() for text in body])


def many(what: What, number: int = 5, **more: object) -> list[Change]:
    """Return a change of each of schedules s0, s1, …"""
    return [Change(f"s{n}", what, AT.t_us, AT.id, run_id=f"s{n}-1", **more) for n in range(number)]  # type: ignore[arg-type]


def ends(*statuses: str) -> list[Change]:
    return [Change(f"s{n}", What.RUN_ENDED, AT.t_us, AT.id, run_id=f"s{n}-1", why=w) for n, w in enumerate(statuses)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (many(What.PUT), "put 5 schedules: s0, s1, s2, …"),
        (many(What.FIRED, 3), "fired 3 runs: s0-1, s1-1, s2-1"),
        (many(What.RESTORED), "restored 5 schedules that Redis had lost: s0, s1, s2, …"),
        (many(What.HELD, 2), "found 2 runs in RQ that Redis had lost, not pushed again: s0-1, s1-1"),
        (many(What.PUSHED_AGAIN, 2), "pushed 2 runs again that Redis had lost, marked uncertain: s0-1, s1-1"),
        (many(What.RUN_AGAIN, 2), "pushed 2 runs again after their workers died: s0-1, s1-1"),
        (many(What.COALESCED, 2, count=600), "left out 1,200 occurrences in favour of later ones: s0, s1"),
        (many(What.SKIPPED, 2), "skipped 2 occurrences: s0, s1"),
        (ends("succeeded", "succeeded"), "2 runs succeeded: s0-1, s1-1"),
        (ends("failed", "lost", "failed", "lost"), "2 runs failed: s0-1, s2-1; 2 runs are lost: s1-1, s3-1"),
        (ends("enchanted", "enchanted"), "2 runs ended: s0-1, s1-1"),
    ],
)
def test_a_summary_counts_many_changes_and_names_the_first(found: Sequence[Change], expected: str) -> None:
    assert expected == summary(entry("any"), list(found), "UTC")


def test_a_summary_has_the_whole_sentence_of_a_single_change_and_counts_many_of_every_kind() -> None:
    paused = Change("a", What.PAUSED, AT.t_us, AT.id)

    told = summary(entry("any"), [paused, *many(What.CANCELLED, 2)], "UTC")

    assert f"a: {sentence(paused, 'UTC')}; cancelled 2 schedules: s0, s1" == told
    assert all(summary(entry("any"), many(what, 2), "UTC") for what in What)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (entry("term", "daemon", "d1", "server", "s"), "daemon d1 leads"),
        (entry("merged", "archive", "x7", "rows", "1", "1-9", "5"), "all that archive x7 knows is in Redis"),
        (entry("fire"), "nothing of any schedule"),
    ],
)
def test_an_entry_without_changes_has_a_summary(told: Entry, expected: str) -> None:
    assert expected == summary(told, [], "UTC")


WORKER = "b5958f3c" + "0" * 24
LOST = Run(
    "a-1", RunStatus.LOST, 1, 1, 2, 92_000, worker=WORKER, error=f"its worker {WORKER} died", heartbeat_ms=3002
)  # fmt: skip


def test_a_lost_run_shows_its_least_duration() -> None:
    assert ("lost", "1 ms", "≥ 3.0 s") == cells(LOST)
    assert ("lost", "", "") == cells(Run("a-1", RunStatus.LOST))


def test_an_unnamed_worker_is_shown_by_its_first_digits() -> None:
    assert "run a is on worker b5958f3c…, now" == with_short_workers(f"run a is on worker {WORKER}, now")
    assert "its worker b5958f3c… died" == remark(LOST)
    assert WORKER not in "".join(Terminal().shown([run_table([LOST], "UTC")]))
    for text in (f"digest {WORKER}", f"worker {WORKER}0", "worker mail-1"):  # names that RQ did not generate
        assert text == with_short_workers(text)
