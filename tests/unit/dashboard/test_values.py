"""Values of jobs: read whichever serializer wrote them, and without running anything."""

from __future__ import annotations

import os
import pickle
import zlib
from base64 import b64encode
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from rq.serializers import DefaultSerializer, JSONSerializer

from zsched.dashboard.jobs import Readable, presentable, traceback

PLAIN = [None, True, 7, "text", [1, {"a": [None]}], {"user": "u1", "n": 2.5}]
OF_PICKLE = [
    (1, 2),
    b"bytes",
    {1, 2},
    OrderedDict(a=1),
    datetime(2026, 12, 24, 9, tzinfo=UTC),
    timedelta(hours=1),
    Decimal("1.10"),
    UUID(int=7),
]


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


@pytest.mark.parametrize("value", PLAIN)
def test_a_value_of_either_serializer_is_read(value: object) -> None:
    assert value == Readable.loads(DefaultSerializer.dumps(value))
    assert value == Readable.loads(JSONSerializer.dumps(value))


@pytest.mark.parametrize("value", OF_PICKLE, ids=repr)
def test_plain_values_that_json_cannot_hold_are_read_from_pickles(value: object) -> None:
    assert value == Readable.loads(DefaultSerializer.dumps(value))


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
        (b"\x80", "it is no pickle, or a broken one"),
        (b"\x80\x05garbage", "it is no pickle, or a broken one"),
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


@pytest.mark.parametrize("one", [b"cm\n" + b"n" * 200 + b"\n", pickle.dumps(Decimal("9" * 9_000), 2)[2:-1]])
def test_a_long_value_that_a_pickle_repeats_is_not_expanded(one: bytes) -> None:
    data = b"\x80\x04](" + one + b"2" * 90_000 + b"e."

    assert "(list with more than 100,000 values, or 10,000,000 characters)" == presentable(Readable.loads(data))


def test_values_cannot_be_written() -> None:
    with pytest.raises(TypeError, match="writes nothing"):
        Readable.dumps({})


@pytest.mark.parametrize("value", [{(1, 2): 3}, {"a": {(1, 2): 3}}])
def test_a_value_without_a_json_form_is_presented_as_text(value: object) -> None:
    assert str(value) == presentable(value)


def test_a_value_that_contains_itself_is_presented_as_text() -> None:
    value: list[object] = []
    value.append(value)

    assert "[[...]]" == presentable(value)


def test_a_list_that_a_pickle_repeats_is_not_expanded() -> None:
    value: list[Any] = [0] * 10
    for _ in range(9):
        value = [value] * 10
    data = pickle.dumps(value)

    assert len(data) < 500
    assert "(list with more than 100,000 values, or 10,000,000 characters)" == presentable(Readable.loads(data))


def test_a_text_that_a_pickle_repeats_is_not_expanded() -> None:
    value = ["x" * 100_000] * 1_000

    assert "(list with more than 100,000 values, or 10,000,000 characters)" == presentable(value)


def test_many_small_values_are_presented_unchanged() -> None:
    value = {"rows": [[n] for n in range(40_000)]}

    assert value is presentable(value)


@pytest.mark.parametrize("levels", [101, 5_000])
def test_a_value_nested_too_deep_is_replaced_by_the_reason(levels: int) -> None:
    data = b"\x80\x04" + b"]" * levels + b"a" * (levels - 1) + b"."

    assert "(list with more than 100 levels)" == presentable(Readable.loads(data))


def test_a_number_of_more_digits_than_python_writes_is_presented_as_a_text() -> None:
    assert "(int that cannot be shown: ValueError)" == presentable(10**5_000)
