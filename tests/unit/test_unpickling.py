"""Pickles read without running them: plain values come out unchanged, others are refused by name."""

from __future__ import annotations

import os
import pickle
import zlib
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from uuid import UUID

import pytest

from tests.bombs import Bomb
from zsched.errors import InvalidSchedule
from zsched.storage.rqjob import Encoder, Unopened
from zsched.storage.unpickling import MOST_BYTES, NotPlain, inflated, read_plain

PLAIN = [
    None,
    [1, 2.5, "text", b"bytes", (True, {"a": {1, 2}})],
    bytearray(b"bytes"),
    frozenset([1, 2]),
    OrderedDict(a=1),
    datetime(2026, 12, 24, 9, tzinfo=timezone(timedelta(hours=9))),
    [date(2026, 12, 24), time(9), timedelta(hours=1), UTC],
    Decimal("1.10"),
    UUID(int=7),
]


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_a_plain_value_is_read_like_by_pickle(value: object) -> None:
    assert value == read_plain(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


@pytest.mark.parametrize(
    ("value", "name"), [(Colour.RED, "Colour"), ([Fraction(1, 3)], "fractions.Fraction"), ({"a": Path}, "pathlib")]
)
def test_an_object_of_another_class_is_refused_by_its_name(value: object, name: str) -> None:
    with pytest.raises(NotPlain, match=name):
        read_plain(pickle.dumps(value))


def test_code_in_a_pickle_is_not_run(tmp_path: Path) -> None:
    made, encoder = tmp_path / "made", Encoder()
    evil = Bomb(os.system, f"touch {made}")
    data, meta = pickle.dumps(("app.f", None, (evil,), {})), pickle.dumps({"a": evil})

    with pytest.raises(InvalidSchedule, match="args and kwargs both"):
        encoder.open(data)
    kept = encoder.options({"meta": meta})["meta"]

    assert Unopened(meta, "it holds posix.system, and only plain values are opened here") == kept
    assert not made.exists()
    encoder.open(data, runs=True)  # as RQ's workers do
    assert made.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        b"\x80\x04Nr\x00\x00\x00\x10.",  # a place in the memo far behind all others
        b"\x80\x04Np99999999\n.",
        b"\x80\x05\x96\x00\x00\x00\x00\x10\x00\x00\x00.",  # a bytearray of more bytes than there are
        b"\x80\x04\x95\x00\x00\x00\x00\x10\x00\x00\x00N.",  # a frame of more bytes than there are
        b"\x80\x04" + b"]" * 5_000 + b"a" * 4_999 + b".",
        pickle.dumps([0] * 100_001),
    ],
    ids=["nothing", "garbage", "binary put", "text put", "bytearray", "frame", "deep", "many"],
)
def test_a_broken_or_too_big_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(NotPlain):
        read_plain(data)


@pytest.mark.parametrize("serializer", ["pickle", "json"])
def test_a_payload_that_would_inflate_beyond_the_limit_is_not_inflated(serializer: str) -> None:
    bomb = zlib.compress(bytes(MOST_BYTES + 1))

    assert len(bomb) < 10_000
    with pytest.raises(InvalidSchedule, match="cannot be read") as refused:
        Encoder(serializer).open(bomb)
    assert "it has more than 10,000,000 bytes, inflated" == str(refused.value.__cause__)


@pytest.mark.parametrize("data", [b"", b"as it is", zlib.compress(b"cut short")[:-3]])
def test_data_that_was_not_deflated_is_returned_unchanged(data: bytes) -> None:
    assert data == inflated(data)
    assert b"x" * 1_000 == inflated(zlib.compress(b"x" * 1_000))


def test_a_value_above_the_limit_of_bytes_is_not_opened() -> None:
    with pytest.raises(NotPlain, match="more than 10,000,000 are not opened"):
        read_plain(pickle.dumps(b"0" * MOST_BYTES))
