"""Known failures: by function and error, until a time."""

from typing import Any

import pytest

from zsched.core.known import Known, known_as
from zsched.core.runs.run import Run, RunStatus
from zsched.errors import InvalidSchedule

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


def known(func: str | None = None, error: str | None = None, for_: str = "1h", note: str = "") -> Known:
    return Known.of(func, error, for_, note, "ann", NOW_MS)


@pytest.mark.parametrize(
    ("func", "error", "is_known"),
    [
        ("app.mail.*", None, True),
        ("app.mail", None, False),
        ("APP.*", None, False),
        (None, "*timed out*", True),
        (None, "timed out", False),
        ("app.mail.send", "OSError: *", True),
        ("app.mail.send", "ValueError: *", False),
        ("app.sms.*", "OSError: *", False),
    ],
)
def test_a_failure_is_known_if_both_globs_match_it(func: str | None, error: str | None, is_known: bool) -> None:
    one = known(func, error)

    assert is_known == one.matches("app.mail.send", "OSError: timed out", NOW_MS)


def test_a_failure_is_known_until_its_time_and_before_somebody_said_so() -> None:
    one = known("app.*")

    assert [True, True, False] == [one.matches("app.f", "", at) for at in (0, one.until_ms - 1, one.until_ms)]
    assert NOW_MS + HOUR_MS == one.until_ms


def test_the_function_decides_while_the_error_is_not_known() -> None:
    globs = [("app.*", "E*"), ("other.*", "E*"), (None, "E*")]

    assert [True, False, False] == [known(*each).matches("app.f", None, NOW_MS) for each in globs]


@pytest.mark.parametrize("status", RunStatus)
def test_only_failed_lost_and_refused_runs_are_known(status: RunStatus) -> None:
    one = known(error="*")
    run = Run("a-1", status, error="E")

    assert (one if status in ("failed", "lost", "refused") else None) == known_as(run, [one], NOW_MS)


def test_the_name_follows_from_both_globs() -> None:
    one, again, other = known("a", "E", "1h"), known("a", "E", "2d", "later"), known("a")

    assert (one.name, 8) == (again.name, len(one.name))
    assert one.name != other.name


def test_a_stored_text_has_all_of_it() -> None:
    one = known("app.*", "E: [x]*", note="the vendor mends it, é")

    assert one == Known.parse(one.name, one.text)


@pytest.mark.parametrize(
    "stored",
    ["", "{}", "7", "[]", '["a", null, "x", "", "", 0]', '[1, null, 9, "", "", 0]', '["", null, 9, "", "", 0]'],
)
def test_a_text_that_another_program_broke_is_left_out(stored: str) -> None:
    assert Known.parse("a", stored) is None


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({}, "func", "give func, error or both"),
        ({"func": ""}, "func", "not a text to search for"),
        ({"error": "a\nb"}, "error", "not a text to search for"),
        ({"func": 7}, "func", "not a text to search for"),
        ({"func": "a", "note": "a\nb"}, "note", "not a short line of text"),
        ({"func": "a", "for_": "soon"}, "for", "not a duration"),
        ({"func": "a", "for_": "91d"}, "for", "give 1s to 90d"),
        ({"func": "a", "for_": "0s"}, "for", "give 1s to 90d"),
    ],
)
def test_a_bad_argument_is_refused_with_its_field_and_remedy(given: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says) as caught:
        known(**given)

    assert field == caught.value.field
