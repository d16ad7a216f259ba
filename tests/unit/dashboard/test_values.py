"""Jobs in the dashboard: values of any serializer, read without running anything, and descriptions of runs."""

import os
import pickle
import zlib
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from rq.serializers import DefaultSerializer, JSONSerializer

from zsched.dashboard.app import Readable, described, presentable, traceback

PLAIN = [None, True, 7, "text", [1, {"a": [None]}], {"user": "u1", "n": 2.5}]
OF_PICKLE = [  # plain values that JSON cannot hold
    (1, 2), b"bytes", {1, 2}, OrderedDict(a=1), datetime(2026, 12, 24, 9, tzinfo=UTC), timedelta(hours=1),
    Decimal("1.10"), UUID(int=7),
]  # fmt: skip


@pytest.mark.parametrize("value", [*PLAIN, *OF_PICKLE], ids=repr)
def test_a_value_of_either_serializer_is_read(value: object) -> None:
    assert value == Readable.loads(DefaultSerializer.dumps(value))
    assert value in OF_PICKLE or value == Readable.loads(JSONSerializer.dumps(value))


class Parts(list[int]):
    """A product's own class; it is pickled with its items and with attributes."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(numbers)
        self.name = "parts"


class Running:
    """An object that runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def test_reading_a_pickle_runs_no_code(tmp_path: Path) -> None:
    made = tmp_path / "made"
    evil = pickle.dumps({"result": Running(f"touch {made}")})

    read = Readable.loads(evil)

    assert "{'result': <posix.system>}" == str(read)
    assert not made.exists()
    pickle.loads(evil)  # what RQ's own serializer does
    assert made.exists()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Parts(1, 2), "Parts"),
        ({"inside": [Parts()]}, "Parts"),
        (Fraction(1, 3), "Fraction"),
        (Path("/tmp"), "PosixPath"),
        (ValueError("no"), "ValueError"),
        ({Fraction(1, 2)}, "Fraction"),
    ],
    ids=repr,
)
def test_objects_of_other_classes_are_shown_by_their_names(value: object, name: str) -> None:
    assert f".{name}>" in str(Readable.loads(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "neither pickle nor JSON"),
        (b"\x80", "it is not a pickle, or it is damaged"),
        (b"\x80\x05garbage", "it is not a pickle, or it is damaged"),
        (b"{", "neither pickle nor JSON"),
        (b"\xff\xfe", "neither pickle nor JSON"),
        (b"[" * 100_000, "neither pickle nor JSON (RecursionError)"),
        (b" " * 10_000_001, "more than 10,000,000 are not opened"),
    ],
    ids=["nothing", "header", "garbage", "JSON", "no text", "deep", "long"],
)
def test_an_unreadable_value_is_shown_with_the_reason(data: bytes, reason: str) -> None:
    assert Readable.loads(data).startswith(f"({len(data):,} bytes that cannot be shown: {reason}")


def test_a_long_traceback_is_cut_to_its_end() -> None:
    packed = b64encode(zlib.compress(b"x" * 200_000 + b"ValueError: no"))

    told = traceback(packed)

    assert told.startswith("(100,014 characters are left out)\nxxx")
    assert told.endswith("ValueError: no")


@pytest.mark.parametrize("packed", [b"abc", b64encode(zlib.compress(bytes(10_000_001)))], ids=["broken", "too long"])
def test_a_traceback_that_cannot_be_shown_is_replaced_by_the_reason(packed: bytes) -> None:
    assert traceback(packed).startswith("(a traceback that cannot be shown: ")


TOO_MUCH = "(list with more than 100,000 values, or 10,000,000 characters)"


def repeated(one: bytes) -> Any:
    """Return a list in which a pickle repeats a value many times."""
    return Readable.loads(b"\x80\x04](" + one + b"2" * 90_000 + b"e.")


def nested(levels: int) -> Any:
    return Readable.loads(b"\x80\x04" + b"]" * levels + b"a" * (levels - 1) + b".")


def of_itself() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


def of_lists() -> Any:
    """Return a list of ten lists of ten lists, and so on, which is a short pickle."""
    value: list[Any] = [0] * 10
    for _ in range(9):
        value = [value] * 10
    data = pickle.dumps(value)
    assert len(data) < 500
    return Readable.loads(data)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: {(1, 2): 3}, "{(1, 2): 3}"),
        (lambda: {"a": {(1, 2): 3}}, "{'a': {(1, 2): 3}}"),
        (of_itself, "[[...]]"),
        (lambda: repeated(b"cm\n" + b"n" * 200 + b"\n"), TOO_MUCH),
        (lambda: repeated(pickle.dumps(Decimal("9" * 9_000), 2)[2:-1]), TOO_MUCH),
        (of_lists, TOO_MUCH),
        (lambda: ["x" * 100_000] * 1_000, TOO_MUCH),
        (lambda: nested(101), "(list with more than 100 levels)"),
        (lambda: nested(5_000), "(list with more than 100 levels)"),
        (lambda: 10**5_000, "(int that cannot be shown: ValueError)"),
    ],
)
def test_a_value_without_a_json_form_or_too_long_to_show_is_a_text(make: Callable[[], object], told: str) -> None:
    assert told == presentable(make())


def test_values_cannot_be_written() -> None:
    with pytest.raises(TypeError, match="writes nothing"):
        Readable.dumps({})


def test_many_small_values_are_presented_unchanged() -> None:
    value = {"rows": [[n] for n in range(40_000)]}

    assert value is presentable(value)


FUNC = "app.tasks.remind"


@pytest.mark.parametrize(
    ("job_id", "expected"),
    [
        ("reminder-42-1798102800000", "reminder-42 · 2026-12-24 09:00:00+00:00"),
        ("reminder-42-1798102800250", "reminder-42 · 2026-12-24 09:00:00.250+00:00"),
        ("a-1798102800000-r2", "a · 2026-12-24 09:00:00+00:00 · extra run 2"),
        ("a-1798102800000-nemail", "a · 2026-12-24 09:00:00+00:00 · namespace email"),
        ("a-1798102800000-nemail-r1", "a · 2026-12-24 09:00:00+00:00 · namespace email · extra run 1"),
        *((id, None) for id in ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "report-2026", "mine", "a-1")),  # foreign
    ],
)
def test_a_run_is_described_by_schedule_and_time_before_its_own_description(job_id: str, expected: str | None) -> None:
    assert (f"{expected} · {FUNC}" if expected else FUNC) == described(job_id, FUNC)
    assert expected == described(job_id, None)
