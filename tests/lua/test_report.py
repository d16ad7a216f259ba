"""report.lua: stores the position of an archive."""

from __future__ import annotations

from tests.lua.ground import Ground


def _reports(ground: Ground) -> dict[str, str]:
    held = ground.redis.hgetall(ground.keys.archivers())
    return {archive.decode(): text.decode() for archive, text in held.items()}


def test_a_report_is_one_line_with_the_servers_time(ground: Ground) -> None:
    ground.put(("a", "+1000"))

    told_ms = ground.report("archive-1", ground.last, about='{"host": "näme", "path": "/a b"}')

    entry = ground.last
    line = f'{entry.id} {entry.t} {told_ms} following {{"host": "näme", "path": "/a b"}}'
    assert {"archive-1": line} == _reports(ground)


def test_the_report_of_an_empty_archive_has_no_entry(ground: Ground) -> None:
    told_ms = ground.report("archive-1", None, state="bootstrapping")

    assert {"archive-1": f"- 0 {told_ms} bootstrapping {{}}"} == _reports(ground)


def test_a_report_replaces_only_the_last_report_of_its_own_archive(ground: Ground) -> None:
    ground.put(("a", "+1000"))
    first = ground.last
    ground.report("archive-1", first)
    other_ms = ground.report("archive-2", first)
    ground.put(("b", "+1000"))

    told_ms = ground.report("archive-1", ground.last, state="failed")

    of_one = f"{ground.last.id} {ground.last.t} {told_ms} failed {{}}"
    of_two = f"{first.id} {first.t} {other_ms} following {{}}"
    assert {"archive-1": of_one, "archive-2": of_two} == _reports(ground)


def test_a_report_has_the_time_of_the_scripts_clock(ground: Ground) -> None:
    ground.freeze(1_800_000_000_000)

    assert 1_800_000_000_000 == ground.report()


def test_a_report_writes_nothing_else(ground: Ground) -> None:
    ground.report()

    assert {ground.keys.archivers().encode()} == ground.keyspace().keys()
