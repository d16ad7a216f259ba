"""Values as TOML: a written value reads as the same value, or is refused. Results of calls, as JSON."""

import json
import tomllib
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.schedules import schedule
from zsched.core.clock import LAST_MS
from zsched.core.model import Many, Scheduled
from zsched.core.options.revision import is_same
from zsched.core.toml import json_text, key_text, toml_text
from zsched.errors import InvalidSchedule

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def has_null(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(has_null, inner))


@given(PLAIN)
def test_a_value_without_null_survives_conversion_to_toml_and_back(value: Any) -> None:
    if has_null(value):
        with pytest.raises(ValueError, match="NoneType"):
            toml_text(value)
        return

    text = toml_text(value)

    assert "\n" not in text
    assert is_same(value, tomllib.loads(f"x = {text}")["x"])


@given(TEXTS)
def test_any_text_may_be_a_key(name: str) -> None:
    assert {name: 1} == tomllib.loads(f"{key_text(name)} = 1")


HELD = [datetime(2030, 1, 1, 12, 30, 0, 5, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=timezone(-timedelta(minutes=330)))]
HELD += [datetime(2030, 1, 1, 1, 2, 3), date(2030, 1, 1), time(1, 2, 3, 4), 2**200, -0.0, {}, [[], {}]]
HELD += ["quotes \" and ' and \\ and \x7f, \x00, \r\n and \u2028 and 한국어 🎉"]


@pytest.mark.parametrize("value", HELD)
def test_a_value_that_toml_can_hold_is_written(value: Any) -> None:
    assert is_same(value, tomllib.loads(f"x = {toml_text(value)}")["x"])


REFUSED = [None, (1, 2), [(1, 2)], {1, 2}, b"bytes", {1: "a number as a key"}, time(1, tzinfo=UTC), object()]
REFUSED += [datetime(2030, 1, 1, tzinfo=ZoneInfo("Asia/Seoul"))]  # TOML keeps its offset only
REFUSED += ["half of a pair: \ud800", [10**5000]]  # Python itself does not write the number


@pytest.mark.parametrize("value", REFUSED)
def test_a_value_that_toml_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"TOML|it has no"):
        toml_text(value)


@pytest.mark.parametrize("value", [[None], {"a": None}, ["it's \ud800 null", None], ['"quotes"', None]])
def test_null_and_lone_surrogates_survive_as_json_text(value: Any) -> None:
    assert is_same(value, json.loads(tomllib.loads(f"x = {json_text(value)}")["x"]))


@pytest.mark.parametrize("value", [[(1,)], {"a": {1}}, {1: None}, [float("nan"), None]])
def test_a_value_that_json_would_reshape_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_text(value)


def test_a_cycle_is_refused() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(ValueError, match="recursion"):
        toml_text(value)


DUE_MS = 1_767_225_600_123  # 2026-01-01T00:00:00.123Z
DUE = datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("next_ms", "next_at", "cursor"), [(None, None, "active:0:a"), (DUE_MS, DUE, f"active:{DUE_MS}:a")]
)
def test_a_schedule_has_the_time_when_it_is_due(next_ms: int | None, next_at: datetime | None, cursor: str) -> None:
    found = schedule(next_ms=next_ms, queue="mail")

    assert (next_at, cursor) == (found.next_at, found.cursor)


@pytest.mark.parametrize(("next_at", "told"), [(None, None), (DUE, "2026-01-01T00:00:00.123Z")])
def test_the_answer_to_a_put_is_json(next_at: datetime | None, told: str | None) -> None:
    put = Scheduled("a", "created", next_at, f"a-{DUE_MS}")

    assert {"id": "a", "outcome": "created", "next_at": told, "run_id": f"a-{DUE_MS}", "version": None} == put.to_dict()


def test_the_answer_to_many_puts_is_json_and_names_each_error() -> None:
    error = InvalidSchedule("at", LAST_MS + 1, "too late", "give an earlier one")
    counts = {"created": 1, "updated": 2, "unchanged": 3, "kept": 4, "already_fired": 5, "done": 11}
    answer = Many(ids=["a", None], outcomes=["created", None], **counts)
    answer.errors.append((7, error))

    assert {
        "ids": ["a", None], "outcomes": ["created", None], "created": 1, "updated": 2, "unchanged": 3, "kept": 4,
        "already_fired": 5, "done": 11,
        "errors": [{"index": 7, "error": str(error), "type": "InvalidSchedule"}],
    } == answer.to_dict()  # fmt: skip


def test_the_answer_to_many_puts_is_printed_as_counts_without_its_ids() -> None:
    plain = Many(ids=["a"] * 20_000, created=20_000, done=20_000)
    mixed = Many(created=1, kept=2, already_fired=3, errors=[(6, ValueError())], done=7)

    assert "Many(created=20000, updated=0, unchanged=0, errors=0)" == repr(plain)
    assert "Many(created=1, updated=0, unchanged=0, kept=2, already_fired=3, errors=1)" == repr(mixed)
    assert {0} == {value for value in Many().to_dict().values() if isinstance(value, int)}
