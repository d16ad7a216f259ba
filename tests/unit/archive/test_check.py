"""A corrupted file: found when it is opened, or by the complete check, and always reported as corrupt."""

import random
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.breadth import some
from tests.builders.entries import enqueue, entry, fire, put, put_recurring
from tests.builders.records import DUE_MS
from tests.states import state_of
from tests.unit.archive.contents import SteppingClock, archived, change, rows
from zsched.archive import Archive
from zsched.archive.body import COLUMNS, entry_of, history_row, pack, position_of, unpack, with_arguments
from zsched.core.clock import ManualClock
from zsched.core.entry import Entry, Position
from zsched.errors import ArchiveCorrupt, ArchiveForeign

ENTRIES = [
    put(1, "a", "b", data=b"x" * 500),
    put_recurring(2, "r"),
    fire(3, f"a-{DUE_MS}"),
    enqueue(4, f"now-{DUE_MS}"),
    entry(5, "pause", "note", "until the sale is over", "rows", 1, "b", f"low {DUE_MS}"),
    *(put(seq, f"id-{seq}") for seq in range(6, 200)),
]


@cache
def _content(keep_args: bool) -> bytes:
    """Return an archive of ENTRIES, which is written once for all tests."""
    with TemporaryDirectory() as folder:
        return archived(Path(folder) / "archive.db", ENTRIES, keep_args=keep_args).read_bytes()


def whole_file(folder: Path, *, keep_args: bool = True) -> Path:
    """Write an archive of ENTRIES into *folder*."""
    path = folder / "archive.db"
    path.touch(mode=0o600)
    path.write_bytes(_content(keep_args))
    return path


def look(path: Path) -> tuple[list[Any], int]:
    """Open the archive and check all of it; return its state, and the number of steps."""
    with closing(Archive(path, "default", keep_args=False)) as archive:
        steps = 1
        while archive.check_step(5, ManualClock()):
            steps += 1
        return list(state_of(archive)), steps


def flipped(value: Any) -> Any:
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1])
    if isinstance(value, str):
        return value[:-1] + chr(ord(value[-1]) ^ 1)
    return value ^ 1


def test_an_unchanged_file_passes_the_check(tmp_path: Path) -> None:
    path = whole_file(tmp_path, keep_args=False)

    state, _ = look(path)

    assert 4 + 194 == len(state)


def test_an_empty_new_file_is_checked_in_a_single_step(tmp_path: Path) -> None:
    with closing(Archive(tmp_path / "archive.db", "default")) as archive:
        assert not archive.check_step(5, ManualClock())


def test_a_step_stops_after_its_time_and_the_next_step_continues(tmp_path: Path) -> None:
    path = whole_file(tmp_path)
    clock = SteppingClock(1)
    with closing(Archive(path, "default")) as archive:
        steps = 1
        while archive.check_step(20, clock):
            assert clock.elapsed_ms <= 30 * steps
            steps += 1

    assert 15 < steps < 40  # 199 entries, 198 rows, 198 facets


def test_an_archive_may_be_written_between_steps(tmp_path: Path) -> None:
    path = whole_file(tmp_path)
    clock = SteppingClock(1)
    with closing(Archive(path, "default")) as archive:
        seq = 200
        while archive.check_step(20, clock):
            archive.append([put(seq, f"id-{seq}"), fire(seq + 1, f"id-{seq}-{DUE_MS}")])
            archive.commit()
            seq += 2
            assert seq < 300

        assert not archive.check_step(20, clock)


def test_a_forged_entry_with_its_own_checksum_is_not_found(tmp_path: Path) -> None:
    path = whole_file(tmp_path)
    [row] = rows(path, f"SELECT {COLUMNS} FROM entry WHERE n = 1")
    forged = [b"forged" if text == b"x" * 500 else text for text in unpack(row[5])]
    _, _, _, _, _, body, checksum = history_row(1, entry_of(row), pack(forged))
    change(path, "UPDATE entry SET body = ?, sum = ? WHERE n = 1", body, checksum)

    state, _ = look(path)

    assert b"forged" in {record.job_fields()[b"data"] for record in state}


@pytest.mark.parametrize("n", [1, 2, 100, 199])
@pytest.mark.parametrize("column", ["epoch", "seq", "t", "kind", "body", "sum"])
def test_a_change_in_a_history_entry_is_found(tmp_path: Path, n: int, column: str) -> None:
    path = whole_file(tmp_path)
    [[value]] = rows(path, f"SELECT {column} FROM entry WHERE n = {n}")
    change(path, f"UPDATE entry SET {column} = ? WHERE n = ?", flipped(value), n)

    with pytest.raises(ArchiveCorrupt):
        look(path)


@pytest.mark.parametrize("column", ["id", "run", "place", "due", "note", "t", "n", "row", "sum"])
def test_a_change_in_a_row_of_the_state_is_found(tmp_path: Path, column: str) -> None:
    path = whole_file(tmp_path)
    [[value]] = rows(path, f"SELECT {column} FROM live WHERE id = 'b'")
    change(path, f"UPDATE live SET {column} = ? WHERE id = 'b'", flipped(value))

    with pytest.raises(ArchiveCorrupt):
        look(path)


LIFE, DATA = "UPDATE live SET life = ? WHERE id = ?", "UPDATE argument SET data = ? WHERE n = 1 AND row = 1"
CHANGES: list[tuple[str, tuple[object, ...], bool]] = [  # statement, values, whether arguments are in their entries
    *((LIFE, (life, id), True) for life in (0, 5, -32767) for id in ("a", "b", "id-100", "r")),  # of another state
    *(
        (f"UPDATE OR REPLACE argument SET {key} WHERE n = 166", (), False)  # of another entry
        for key in ("n = -32602", "n = 77", "row = 5", "row = -5")
    ),
    *((DATA, (data,), False) for data in (b"", b"other", None, "text", 5)),
    ("UPDATE entry SET kind = CAST(? AS TEXT) WHERE n = 1", (b"\xff\xfe",), True),  # invalid text
]


@pytest.mark.parametrize(("statement", "values", "keep_args"), CHANGES)
def test_a_row_of_another_state_other_arguments_and_invalid_text_are_found(
    tmp_path: Path, statement: str, values: tuple[object, ...], keep_args: bool
) -> None:
    path = whole_file(tmp_path, keep_args=keep_args)
    change(path, statement, *values)

    with pytest.raises(ArchiveCorrupt):
        look(path)


def test_an_archive_is_checked_after_its_bootstrap(tmp_path: Path) -> None:
    with closing(Archive(whole_file(tmp_path), "default")) as archive:
        archive.begin_bootstrap()
        archive.append([put(1, "a")])

        assert archive.check_step(1000, ManualClock())
        archive.end_bootstrap("start")
        assert not archive.check_step(1000, ManualClock())


@pytest.mark.parametrize("name", ["position", "life", "archive", "touches", "namespace"])
@pytest.mark.parametrize("value", ["1-7 5", "x", None, 77, b"x"])
def test_a_change_in_a_fact_of_the_file_is_found(tmp_path: Path, name: str, value: object) -> None:
    path = whole_file(tmp_path)
    change(path, "INSERT OR REPLACE INTO fact VALUES (?, ?)", name, value)

    with pytest.raises((ArchiveCorrupt, ArchiveForeign) if name == "namespace" else ArchiveCorrupt):
        look(path)


def test_a_missing_entry_that_a_schedule_needs_is_found(tmp_path: Path) -> None:
    path = whole_file(tmp_path)
    change(path, "DELETE FROM entry WHERE n = 1")

    with closing(Archive(path, "default")) as archive, pytest.raises(ArchiveCorrupt, match="history entry 1 "):
        list(state_of(archive))
    with pytest.raises(ArchiveCorrupt, match="history entry 1 "):
        look(path)


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "header": lambda path: overwrite(path, 0, b"\xff" * 100),
    "first page": lambda path: overwrite(path, 100, b"\xff" * 8000),
    "second page": lambda path: overwrite(path, 8192, b"\x00" * 8192),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 // 8192 * 8192]),
    "one page": lambda path: path.write_bytes(path.read_bytes()[:8192]),
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-5000]),
    "text": lambda path: path.write_text("a letter of some length, so longer than a header is\n" * 1000),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_found(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    path = whole_file(tmp_path)
    damage(path)

    with pytest.raises(ArchiveCorrupt, match=str(path)):
        look(path)


@pytest.mark.parametrize("seed", some(range(5), 0, 1))
def test_a_flipped_byte_is_found_or_changes_nothing(tmp_path: Path, seed: int) -> None:
    path = whole_file(tmp_path, keep_args=False)
    expected, _ = look(path)
    whole = path.read_bytes()
    chance = random.Random(seed)
    found = 0

    for _ in range(60):
        at = chance.randrange(100, len(whole))  # behind the header
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
        try:
            state, _ = look(path)
        except ArchiveCorrupt:
            found += 1
        else:
            assert expected == state, at

    assert 5 < found


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


@pytest.mark.parametrize(
    ("text", "position"), [("1-2 1800000002000000", (1, 2, 1_800_000_002_000_000)), (None, None), ("0-1 5", (0, 1, 5))]
)
def test_a_position_is_read_from_its_text(text: str | None, position: Position | None) -> None:
    assert position == position_of(text)


def test_separate_arguments_come_back_where_they_were_also_from_a_queue_with_the_name_of_their_field() -> None:
    record = [b"origin", b"data", b"data", b"", b"zs_sig", b"k1"]

    assert [b"origin", b"data", b"data", b"call", b"zs_sig", b"k1"] == with_arguments(record, b"call")
