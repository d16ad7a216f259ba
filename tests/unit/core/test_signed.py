"""The form of signatures, and the names of data in rows."""

from __future__ import annotations

from zsched.core.signed import UNSIGNED, job_pairs, parts_of, signature_in

SIGNATURE = b"k1.06d2d3800.BuEhdGFpC0Q0nZCUD1l1OQ"


def test_data_under_a_signature_has_it_in_the_job() -> None:
    assert [b"data", b"call", b"zs_sig", SIGNATURE] == job_pairs(SIGNATURE, b"call")
    assert SIGNATURE == signature_in(SIGNATURE)


def test_data_without_a_signature_is_alone_in_the_job() -> None:
    assert [b"data", SIGNATURE] == job_pairs(UNSIGNED, SIGNATURE)
    assert b"" == signature_in(UNSIGNED)


def test_the_name_of_unsigned_data_is_no_signature() -> None:
    assert parts_of(UNSIGNED) is None


def test_the_parts_of_a_signature_are_read() -> None:
    assert ("k1", 0x06D2D3800, b"BuEhdGFpC0Q0nZCUD1l1OQ") == parts_of(SIGNATURE)
    assert [None] * 4 == [parts_of(text) for text in (b"", b"k1", SIGNATURE + b"=", b"\n" + SIGNATURE)]
