"""Reads of Redis: commands as a wire packs them, pages of the log, and the options in which two puts differ."""

import json
import pickle
from typing import Any

import hiredis
import pytest
import redis

from zsched.core.entry import Entry, Position
from zsched.core.log.kinds import LoggedPut
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.record import Place, Record
from zsched.errors import RedisRefused
from zsched.storage import comparing
from zsched.storage.comparing import changed_options, with_definitions
from zsched.storage.connection import Wire
from zsched.storage.log import Pages


def test_a_wire_packs_numbers_as_texts_since_hiredis_may_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[tuple[Any, ...]] = []
    monkeypatch.setattr(hiredis, "pack_command", packed.append)

    Wire(None, "x").pack(("ZADD", "key", 1700000000000.5, -3, b"member"))

    assert [("ZADD", "key", "1700000000000.5", "-3", b"member")] == packed


def test_a_part_that_is_neither_text_nor_number_is_refused() -> None:
    with pytest.raises(redis.DataError, match="must be str, int, float or bytes"):
        Wire(None, "x").pack(("GET", None))


class Stranger:
    """A connection to a server that demands a password."""

    is_open = True

    def send_packed_command(self, command: list[bytes], check_health: bool) -> None:
        raise redis.AuthenticationError("NOAUTH Authentication required.")

    def disconnect(self) -> None:
        self.is_open = False


def test_a_wire_is_closed_when_the_server_demands_a_password() -> None:
    connection = Stranger()
    wire = Wire(connection, "x")

    with pytest.raises(RedisRefused, match="needs user and password"):
        wire.send("PING")

    assert (wire.is_broken, connection.is_open) == (True, False)


def entry(size: int) -> Entry:
    return Entry(Position(1, 1, 1), "fire", [b"runs", b"x" * size])


def test_the_first_page_is_one_entry_and_light_entries_double_the_next() -> None:
    pages, sizes = Pages(100, 4 << 20), []
    for _ in range(9):
        sizes.append(pages.size)
        pages.learn([entry(500)])

    assert [1, 2, 4, 8, 16, 32, 64, 100, 100] == sizes


def test_a_heavy_entry_makes_the_next_page_short() -> None:
    pages = Pages(100, 4 << 20)
    for _ in range(9):
        pages.learn([entry(500)])

    pages.learn([entry(500), entry(30_000_000), entry(500)])
    assert 1 == pages.size

    pages.learn([entry(2 << 20)])
    assert 1 == pages.size

    pages.learn([])
    assert 2 == pages.size


DUE_MS = 1_900_000_000_000
JOB = {"description": "app.task", "origin": "default", "timeout": "180"}


def call(*args: Any, func: str = "app.task") -> bytes:
    return pickle.dumps([func, None, args, {}])


def once(due_ms: int = DUE_MS, data: bytes = call(1), lane: str = "normal", **fields: str | bytes) -> LoggedPut:
    """Return the record of a one-shot."""
    job: dict[str, str | bytes] = {**JOB, "zs": "1", "data": data, **fields}
    return LoggedPut("1-1", Record("a", f"{due_ms}", Place.DUE, lane, due_ms, texts(job)), True)


def texts(fields: dict[str, Any]) -> list[bytes]:
    return [each if isinstance(each, bytes) else each.encode() for pair in fields.items() for each in pair]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (once(), once(), ()),
        (once(), once(origin="email"), ("queue: default → email",)),
        (once(), once(lane="high"), ("priority: normal → high",)),
        (once(), once(DUE_MS + 1000), ("at: 2030-03-17T17:46:40+00:00 → 2030-03-17T17:46:41+00:00",)),
        (once(), once(data=call(2)), ("arguments changed",)),
        (once(), once(data=pickle.dumps(["app.task", None, (1,), {}], protocol=2)), ()),  # equal values
        (once(), once(data=call(1, func="app.other")), ("func: app.task → app.other",)),
        (once(), once(data=b""), ()),  # an archive that keeps no arguments
        (once(data=b""), once(data=b"", origin="email"), ("queue: default → email",)),
        (once(data=json.dumps(["app.task", None, [1], {}]).encode()), once(data=b'["app.task",null,[2],{}]'),
         ("arguments changed",)),
        (once(), once(meta=pickle.dumps({"a": 1})), ("meta changed",)),
        (once(), once(zs_owner="ann"), ("owner: - → ann",)),
        (once(data=b"\x80broken"), once(data=b"\x80other", origin="email"),
         ("queue: default → email", "arguments changed")),
    ],
)  # fmt: skip
def test_a_change_is_shown_by_options_without_payloads(
    old: LoggedPut, new: LoggedPut, expected: tuple[str, ...]
) -> None:
    assert expected == changed_options(old, new)


def test_a_record_that_cannot_be_compared_does_not_hide_the_other_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "option_changes", lambda *both: 1 / 0)
    put = [Change("a", What.PUT, at, f"1-{at}") for at in (1, 2)]
    records = [once()._replace(entry=one.entry) for one in put]

    first, second = with_definitions(put, lambda wanted: records, has_first=False)

    assert ((), ("its options cannot be compared (ZeroDivisionError)",)) == (first.changed, second.changed)


def test_a_put_of_a_new_schedule_changes_nothing_and_a_story_with_one_put_reads_no_record() -> None:
    def refuse(wanted: Any) -> Any:
        raise AssertionError(wanted)

    new = [Change("a", What.PUT, at, f"1-{at}") for at in (1, 2)]
    records = [once()._replace(entry=one.entry, replaces=False) for one in new]
    one = [Change("a", What.PUT, 1, "1-1"), Change("a", What.PAUSED, 2, "1-2")]

    assert [(), ()] == [each.changed for each in with_definitions(new, lambda wanted: records, has_first=True)]
    assert one == with_definitions(one, refuse, has_first=False)
