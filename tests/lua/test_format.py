"""lib/meta.lua: a namespace of another format is left alone, and corrupted numbers are named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zsched
from tests.breadth import each
from tests.builders.namespaces import HOUR_MS, LEASE_MS, Namespace
from tests.builders.records import one_shot
from tests.lua.restoring import restore
from zsched.core.clock import LAST_MS
from zsched.core.entry import FORMAT, OLDEST_FORMAT
from zsched.errors import Garbled, NewerFormat, OlderFormat
from zsched.storage.meta import number
from zsched.storage.scripts import load

LUA = Path(zsched.__file__).parent / "lua"
WITHOUT = {"note", "release", "report", "seat"}  # of runs, of terms, of archives, of daemons inside workers


CALLS = pytest.mark.parametrize(
    "call",
    [
        lambda ns: ns.put(("a", "+60000")),
        lambda ns: ns.put_recurring("r", ns.now_ms + HOUR_MS),
        lambda ns: ns.call("acquire", daemon="d", nonce="n", server_id="s", lease_ms=LEASE_MS),
        lambda ns: ns.fire(),
        lambda ns: ns.advance(),
        lambda ns: ns.call("get", ["a"]),
    ],
    ids=["put", "put_recurring", "acquire", "fire", "advance", "get"],
)


@pytest.mark.parametrize(
    ("format", "error", "told"),
    [
        (
            FORMAT + 1,
            NewerFormat,
            f"a newer zsched keeps this namespace in format {FORMAT + 1}, and this one knows {FORMAT}: upgrade zsched "
            "here",
        ),
        (
            OLDEST_FORMAT - 1,
            OlderFormat,
            f"an older zsched kept this namespace in format {OLDEST_FORMAT - 1}, and this one knows {FORMAT}: give "
            "another namespace, or remove the keys zsched:{default}:* and schedule again",
        ),
    ],
)
@CALLS
def test_another_format_is_refused_with_the_remedy_and_neither_read_nor_written(
    led: Namespace, call: Callable[[Namespace], Any], format: int, error: type[Exception], told: str
) -> None:
    led.put(("a", "+60000"))
    led.redis.hset(led.keys.meta(), "format", format)
    before = led.keyspace()

    with pytest.raises(error) as caught:
        call(led)

    assert (told, before) == (str(caught.value), led.keyspace())


def test_the_remedy_for_an_older_format_makes_the_first_leader_write_its_own(led: Namespace) -> None:
    led.redis.hset(led.keys.meta(), "format", OLDEST_FORMAT - 1)
    with pytest.raises(OlderFormat):
        led.put(("a", "+60000"))

    led.redis.delete(*led.redis.keys(r"zsched:{default}:*"))
    led.call("acquire", daemon="d", nonce="n", server_id="s", lease_ms=LEASE_MS)

    assert str(FORMAT).encode() == led.redis.hget(led.keys.meta(), "format")
    assert ("1-1", "term", str(FORMAT)) == (led.last.id, led.last.kind, led.last.fields["format"])


@pytest.mark.parametrize("name", sorted(path.stem for path in LUA.glob("*.lua")))
def test_every_script_that_reads_or_writes_schedules_checks_the_format(name: str) -> None:
    assert ("{'FORMAT', meta[9]}" in load(name).text) is (name not in WITHOUT)


def test_a_restore_writes_its_format_into_meta_and_the_log(ns: Namespace) -> None:
    restore(ns, one_shot())

    assert str(FORMAT).encode() == ns.redis.hget(ns.keys.meta(), "format")
    assert ["format", str(FORMAT)] == ns.last.texts[-2:]


def test_an_archive_may_report_where_a_newer_zsched_leads(led: Namespace) -> None:
    led.redis.hset(led.keys.meta(), "format", FORMAT + 1)

    led.report("older", state="outdated")

    assert b" outdated " in led.redis.hget(led.keys.archivers(), "older")


NUMBERS = ["epoch", "seq", "hold", "doubt", "offset_ms", "frozen_ms", "format"]


TEXTS = ["", "-", "no number", "5-5", b"\xff\x00"]
NUMBERS_OF_LUA = ["nan", "inf", "-inf", "1e300", "1e3", "2.5", "7.0", "0x7", " 7", "+7"]  # what tonumber takes, too


GARBAGE = [*TEXTS, *NUMBERS_OF_LUA, LAST_MS + 1, -LAST_MS - 1, "9" * 5000]


@pytest.mark.parametrize(("field", "garbage"), each(NUMBERS, GARBAGE))
def test_a_corrupted_number_in_meta_is_refused_by_name(ns: Namespace, field: str, garbage: Any) -> None:
    ns.lead(**{field: garbage})
    before = ns.keyspace()

    calls = (
        ns.fire,
        lambda: ns.put(("a", 1_800_000_000_000)),
        ns.report,
        lambda: ns.call("get", ["a"]),
    )
    for call in calls:
        with pytest.raises(Garbled, match=rf"zsched:\{{default\}}:meta has {field} '.*', which zsched never wrote"):
            call()

    assert before == ns.keyspace()


@pytest.mark.parametrize("clock", [{"frozen_ms": -1}, {"offset_ms": LAST_MS}, {"offset_ms": -LAST_MS}])
def test_a_test_clock_out_of_range_is_refused_by_name(ns: Namespace, clock: dict[str, int]) -> None:
    ns.lead(**clock)

    with pytest.raises(Garbled, match=f"has {next(iter(clock))} '"):
        ns.fire()


@pytest.mark.parametrize("value", [b"-0", b"0007", b"0" * 20 + b"7", b"-7", b"%d" % LAST_MS])
def test_python_and_lua_parse_the_same_numbers(led: Namespace, value: bytes) -> None:
    led.redis.hset(led.keys.meta(), "doubt", value)

    led.fire()

    assert int(value) == number(led.keys, "doubt", value)


@pytest.mark.parametrize("field", NUMBERS)
def test_the_remedy_of_a_corrupted_meta_field_repairs_it(ns: Namespace, field: str) -> None:
    ns.lead()
    ns.put(("a", 1_800_000_000_000))
    ns.redis.hset(ns.keys.meta(), field, "garbage")
    with pytest.raises(Garbled) as caught:
        ns.fire()

    for command in caught.value.remedy.partition(": ")[0].split(", then "):
        ns.redis.execute_command(*command.split())
    ns.call("acquire", daemon="d", nonce="n", server_id="s", lease_ms=LEASE_MS)
    ns.put(("b", 1_800_000_000_000))

    assert [1, 2, 3] == [int(entry.id.split("-")[1]) for entry in ns.entries()]


@pytest.mark.parametrize("field", ["offset_ms", "frozen_ms"])
def test_the_remedy_of_a_corrupted_test_clock_is_to_delete_the_field(led: Namespace, field: str) -> None:
    led.redis.hset(led.keys.meta(), field, "garbage")

    with pytest.raises(Garbled) as caught:
        led.fire()

    remedy = f"HDEL {led.keys.meta()} {field}: tests alone set it, and without it the server's clock counts"
    assert remedy == caught.value.remedy
