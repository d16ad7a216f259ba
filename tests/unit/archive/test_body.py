"""Entries in one BLOB, and its checksum."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.archive.ground import at, put
from zsched.archive.body import entry_of, history_row, pack, position_of, unpack, with_arguments
from zsched.core.log import Entry, Position
from zsched.errors import ArchiveCorrupt


@given(st.lists(st.binary(max_size=300)))
def test_packed_texts_are_unpacked(texts: list[bytes]) -> None:
    assert texts == unpack(pack(texts))


@pytest.mark.parametrize("entry", [put(1, "a", "b"), Entry.of(b"1-1", [b"another writer's", b"\xff\x00"])])
def test_an_entry_is_read_as_it_was_written_also_without_a_head(entry: Entry) -> None:
    assert entry == entry_of(history_row(7, entry, pack(entry.body)))


def test_every_flipped_bit_of_a_body_is_noticed() -> None:
    entry = put(1, "a")
    n, epoch, seq, t, kind, body, sum = history_row(7, entry, pack(entry.body))

    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ArchiveCorrupt, match="history entry 7 "):
            entry_of((n, epoch, seq, t, kind, bytes(flipped), sum))


@pytest.mark.parametrize("column", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("value", [None, 0, "x", b"x", 1.5])
def test_every_other_value_in_a_column_is_noticed(column: int, value: object) -> None:
    entry = put(1, "a")
    row = list(history_row(7, entry, pack(entry.body)))
    row[column] = value

    with pytest.raises(ArchiveCorrupt, match="history entry 7 "):
        entry_of(tuple(row))  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(("text", "position"), [("1-2 1800000002000000", at(2)), (None, None), ("0-1 5", (0, 1, 5))])
def test_a_position_is_read_from_its_text(text: str | None, position: Position | None) -> None:
    assert position == position_of(text)


def test_separate_arguments_come_back_where_they_were_also_from_a_queue_with_the_name_of_their_field() -> None:
    record = [b"origin", b"data", b"data", b"", b"zs_sig", b"k1"]

    assert [b"origin", b"data", b"data", b"call", b"zs_sig", b"k1"] == with_arguments(record, b"call")
