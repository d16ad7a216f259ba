"""Signatures behind the data of a row."""

from __future__ import annotations

import json
import pickle
import random
import zlib

import pytest

from zsched.core.signed import parts_of, signature_behind, signed, with_data
from zsched.storage.rqjob import Encoder

SIGNATURE = b"k1.06d2d3800.BuEhdGFpC0Q0nZCUD1l1OQ"


@pytest.mark.parametrize("data", [b"", b"x", pickle.dumps((1, "a\n")), b"\n", zlib.compress(b"a" * 999), SIGNATURE])
def test_a_signature_and_its_data_are_parted_as_they_were_joined(data: bytes) -> None:
    text = signed(data, SIGNATURE)

    assert (data, SIGNATURE) == signature_behind(text)
    assert [b"data", data, b"zs_sig", SIGNATURE] == with_data(text)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"short", pickle.dumps(("f", None, (), {})), json.dumps(["f", None, [], {}]).encode(), SIGNATURE),
        *(b"data\n" + SIGNATURE[:-1], b"data\n" + SIGNATURE + b"x", b"data " + SIGNATURE, b"\nK1" + SIGNATURE[2:]),
    ],
)
def test_data_without_a_signature_stays_whole(data: bytes) -> None:
    assert (data, b"") == signature_behind(signed(data, b""))
    assert [b"data", data] == with_data(data)


def test_the_parts_of_a_signature_are_read() -> None:
    assert ("k1", 0x06D2D3800, b"BuEhdGFpC0Q0nZCUD1l1OQ") == parts_of(SIGNATURE)
    assert [None] * 4 == [parts_of(text) for text in (b"", b"k1", SIGNATURE + b"=", b"\n" + SIGNATURE)]


def test_a_payload_never_ends_like_a_signature() -> None:
    chance = random.Random(1)  # a fixed choice, no secret
    encoder = Encoder()

    for _ in range(200):
        text = "".join(chance.choice("ab\n.") for _ in range(200)) + SIGNATURE.decode()
        assert b"" == signature_behind(encoder.call("app.f", (text,), {}))[1]
