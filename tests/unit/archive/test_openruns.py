"""Open runs: looked up by name, and searched part by part."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.builders.entries import at, enqueue, entry, fire, put, put_recurring, row_fields
from tests.builders.records import DUE_MS, job, one_shot, open_run
from tests.unit.archive.contents import archived, change, take
from zsched.archive import START, Archive
from zsched.archive.runs import OpenRuns
from zsched.core.runs.run import pushed
from zsched.core.runs.run_id import RunKey, run_key
from zsched.errors import ArchiveCorrupt

ALL = 100
OPEN = [("s0", str(DUE_MS)), ("s1", str(DUE_MS)), ("s2", str(DUE_MS)), ("s3", str(DUE_MS)), ("s4", str(DUE_MS))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An archive with five runs of one-shots in three entries, and between them a waiting one-shot; entries 1 to 5."""
    puts = [put(1, "s0", "s1", "s2", "s3", "s4"), put(2, "s1-waits")]
    fires = [fire(3, f"s4-{DUE_MS}", f"s3-{DUE_MS}"), fire(4, f"s2-{DUE_MS}"), fire(5, f"s0-{DUE_MS}", f"s1-{DUE_MS}")]
    return archived(tmp_path / "archive.db", [*puts, *fires])


def around(path: Path, looked_at: int, limit: int = ALL) -> list[list[RunKey]]:
    """Return the parts of a round through the state."""
    after: RunKey | None = None
    parts = []
    with OpenRuns(path) as runs:
        while True:
            found, after = runs.next(after, looked_at, limit)
            parts.append([run_key(run.id) or ("", "") for run in found])
            if after is None:
                return parts


@pytest.mark.parametrize(
    ("looked_at", "limit"), [(1, ALL), (2, ALL), (3, ALL), (6, ALL), (7, ALL), (ALL, ALL), (ALL, 1), (ALL, 2), (ALL, 5)]
)
def test_a_round_finds_every_open_run_once_in_parts_within_its_limits(path: Path, looked_at: int, limit: int) -> None:
    parts = around(path, looked_at, limit)

    assert OPEN == [run for part in parts for run in part]
    assert all(len(part) <= min(looked_at, limit) for part in parts)


def test_an_ended_run_is_not_open(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        take(archive, entry(13, "end", *row_fields("end", f"s0-{DUE_MS} succeeded {{}}", f"s2-{DUE_MS} lost {{}}")))

    with OpenRuns(path) as runs:
        open = list(runs.among(OPEN))
        assert (at(13), [OPEN[1], OPEN[3], OPEN[4]]) == (runs.position, open)
    assert [[OPEN[1], OPEN[3], OPEN[4]]] == around(path, ALL)


def test_an_open_run_has_its_push_time_and_uncertainty(tmp_path: Path) -> None:
    marked = entry(2, "fire", "runs", f"a-{DUE_MS} b-{DUE_MS}", "uncertain", f"b-{DUE_MS}")
    with OpenRuns(archived(tmp_path / "archive.db", [put(1, "a", "b", "waits"), marked])) as runs:
        a, b = runs.among([("a", str(DUE_MS)), ("b", str(DUE_MS)), ("waits", str(DUE_MS)), ("x", "1")]).values()

    assert pushed(f"a-{DUE_MS}", at(2).t_us) == a
    assert (f"b-{DUE_MS}", True) == (b.id, b.is_uncertain)


QUEUES = [
    put_recurring(1, "rule"),
    entry(2, "backfill", "id", "rule", "runs", f"rule-{DUE_MS} rule-{DUE_MS + 1}"),
    put(3, "a", "b"),
    fire(4, f"b-{DUE_MS}", f"a-{DUE_MS}"),
    enqueue(5, "asked-1"),
]


def open_in(path: Path) -> list[str]:
    with OpenRuns(path) as runs:
        return [run.id for run in runs.next(None, ALL, ALL)[0]]


@pytest.mark.parametrize("keep_args", [True, False])
def test_the_queue_of_an_open_run_is_that_of_its_record(tmp_path: Path, keep_args: bool) -> None:
    path = archived(tmp_path / "archive.db", QUEUES, keep_args=keep_args)
    open = open_in(path)
    names = {f"a-{DUE_MS}", f"b-{DUE_MS}", "asked-1", f"rule-{DUE_MS}", f"rule-{DUE_MS + 1}"}

    with OpenRuns(path) as runs:
        assert dict.fromkeys(names, "mail") == runs.queues(open)


def test_a_run_that_a_bootstrap_found_has_the_queue_of_its_job(tmp_path: Path) -> None:
    path = archived(tmp_path / "archive.db", [])
    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.scan([one_shot(id="waits"), open_run(id="x", job=job(origin="mail"))], at(20))
        archive.end_bootstrap(START)
        archive.commit()
    open = open_in(path)

    with OpenRuns(path) as runs:
        assert {f"x-{DUE_MS}": "mail"} == runs.queues(open)


def test_a_finished_run_has_no_queue(tmp_path: Path) -> None:
    path = archived(tmp_path / "archive.db", QUEUES)
    open = open_in(path)
    with closing(Archive(path, "default")) as archive:
        take(archive, entry(6, "end", "rows", 1, "asked-1", "succeeded", "", "{}"))

    with OpenRuns(path) as runs:
        assert "asked-1" not in runs.queues(open)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE live SET row = 7 WHERE id = 'asked'",
        "UPDATE facet SET sum = sum + 1 WHERE n = (SELECT n FROM entry WHERE kind = 'enqueue')",
        "DELETE FROM facet WHERE n = (SELECT n FROM entry WHERE kind = 'enqueue');"
        "UPDATE entry SET t = t + 1 WHERE kind = 'enqueue'",
    ],
)
def test_a_corrupted_record_hides_only_the_queues_of_its_own_runs(tmp_path: Path, damage: str) -> None:
    path = archived(tmp_path / "archive.db", QUEUES)
    open = open_in(path)
    for each in damage.split(";"):
        change(path, each)

    with OpenRuns(path) as runs:
        queues = runs.queues(open)

    assert len(open) - 1 == len(queues)
    assert "asked-1" not in queues


def test_a_bootstrapping_archive_says_so_and_then_has_the_open_runs_of_the_new_state(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        with OpenRuns(path) as runs:
            before = runs.life
        archive.begin_bootstrap()
        archive.scan([open_run(id="x", job=job(origin="mail"))], at(20))
        archive.commit()
        with OpenRuns(path) as runs:
            assert runs.is_bootstrapping

        archive.append([put(21, "y")])
        archive.end_bootstrap(START)
        with OpenRuns(path) as runs:
            assert (False, True) == (runs.is_bootstrapping, runs.life != before)
    assert [[("x", str(DUE_MS))]] == around(path, ALL)


def test_an_empty_archive_has_no_open_runs(tmp_path: Path) -> None:
    path = archived(tmp_path / "archive.db", [])

    with OpenRuns(path) as runs:
        assert (None, {}) == (runs.position, runs.among(OPEN))
    assert [[]] == around(path, ALL)


def test_a_foreign_file_is_a_corrupt_archive(tmp_path: Path) -> None:
    path = tmp_path / "archive.db"
    path.write_bytes(b"not a database, but long enough to look at" * 100)

    with pytest.raises(ArchiveCorrupt), OpenRuns(path):
        pass
