"""The folder of a daemon's archive, by the data set's name and its address."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.builders.entries import put
from zsched.archive import Archive
from zsched.archive.places import archives_of, facts_at, paths_for, state_folder
from zsched.config.urls import address_of
from zsched.errors import ArchiveError, ArchiveOfAnother

HERE, THERE = "here:6379/0", "there:6379/0"


def within(folder: Path) -> dict[str, str]:
    return {"STATE_DIRECTORY": str(folder)}


def made(folder: Path, name: str = "1.db", *, gen: str | None = None, at: str | None = HERE, n: int = 1) -> Path:
    """Make an archive in *folder* that followed *gen* up to entry *n*."""
    with closing(Archive(folder / name, "default")) as archive:
        archive.append([put(k + 1, "a") for k in range(n)])
        archive.set_facts(gen=gen, address=at)
        archive.commit()
    return folder / name


def folder_of(gen: str | None, address: str, state: Path, namespace: str = "default") -> Path:
    return paths_for(namespace, gen, address, within(state))[0].parent


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"STATE_DIRECTORY": "/var/lib/zsched", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/var/lib/zsched"),
        ({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, "/var/lib/a"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/zsched"),
        ({"HOME": "/h"}, "/h/.local/state/zsched"),
        ({"STATE_DIRECTORY": "", "XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/zsched"),
    ],
)
def test_a_daemon_uses_the_state_folder_of_its_environment(environment: dict[str, str], folder: str) -> None:
    paths = paths_for("shop", None, HERE, environment)

    assert Path(folder) == state_folder(environment)
    assert [Path(folder, "shop-here-6379-0", f"{number}.db") for number in range(1, 17)] == paths


def test_the_error_for_a_user_without_a_home_directory_demands_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 1_000_650)  # an id of OpenShift, which has no entry

    with pytest.raises(ArchiveError, match="user id 1000650 has no home directory; give \\[archive\\] path"):
        state_folder({})


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://ann:s3cret@h:1/0?password=s3cret", "default-h-1-0"),
        ("unix://:s3cret@/run/my redis/redis.sock", "default-unix-run-my-redis-redis.sock-0"),
        ("redis+sentinel://:s3cret@b,a:1/main/2?sentinel_password=s3cret", "default-sentinels-a-1-b-26379-main-2"),
    ],
)
def test_a_fresh_folder_is_named_after_the_address_and_no_password(tmp_path: Path, url: str, name: str) -> None:
    assert name == folder_of(None, address_of(url), tmp_path).name


def test_long_addresses_that_begin_alike_have_folders_of_their_own(tmp_path: Path) -> None:
    one, two = (folder_of(None, f"unix:/{'x' * 200}/{n}", tmp_path).name for n in range(2))

    assert one != two
    assert max(len(one), len(two)) < 140


MOVED = {"moved": {"gen": "g1", "at": THERE}, "here-6379-0": {"gen": "g2", "n": 5}}
LATER = {"old": {"gen": "g1"}, "new": {"gen": "g2", "n": 5}, "there": {"gen": "g3", "at": THERE, "n": 9}}  # it moved


@pytest.mark.parametrize(
    ("archives", "gen", "address", "expected"),
    [
        (MOVED, "g1", HERE, "moved"),  # the name that an archive followed comes before the address
        (MOVED, "g2", THERE, "here-6379-0"),
        (LATER, None, HERE, "new"),  # a Redis without a name
        ({"here-6379-0": {"gen": "g1", "at": THERE}}, None, HERE, "here-6379-0-2"),  # named when its data set was here
        ({"x": {}}, "g1", HERE, "x"),  # an archive without a data set's name
        ({"x": {}}, "g1", THERE, "there-6379-0"),
    ],
)
def test_the_folder_of_an_archive_is_found_by_its_data_set_and_then_by_its_address(
    tmp_path: Path, archives: dict[str, dict[str, Any]], gen: str | None, address: str, expected: str
) -> None:
    for folder, given in archives.items():
        made(tmp_path / f"default-{folder}", **given)

    assert tmp_path / f"default-{expected}" == folder_of(gen, address, tmp_path)


@pytest.mark.parametrize("gen", [None, "g1"])
def test_a_daemon_tries_the_archives_of_its_folder_from_the_newest_to_the_oldest(
    tmp_path: Path, gen: str | None
) -> None:
    folder = tmp_path / "default-here-6379-0"
    for name, entries in {"1.db": 2, "3.db": 9, "4.db": 5}.items():
        made(folder, name, gen=gen, n=entries)

    paths = paths_for("default", gen, HERE, within(tmp_path))

    assert ["3.db", "4.db", "1.db", "2.db", "5.db"] == [path.name for path in paths[:5]]
    assert 16 == len(set(paths))


def test_a_newer_archive_of_another_data_set_is_not_tried_first(tmp_path: Path) -> None:
    folder = made(tmp_path / "default-here-6379-0", gen="g1").parent
    made(folder, "2.db", gen="g2", n=9)

    assert folder / "1.db" == paths_for("default", "g1", HERE, within(tmp_path))[0]


def test_a_redis_with_another_name_at_an_address_with_archives_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "default-here-6379-0", gen="g1")

    with pytest.raises(ArchiveOfAnother, match=rf"followed the data set g1, and .* is g2; .* --from {path} ") as caught:
        paths_for("default", "g2", HERE, within(tmp_path))
    assert f"or move {path.parent} away" in str(caught.value)
    with pytest.raises(ArchiveOfAnother):
        archives_of("default", "g2", HERE, within(tmp_path))


def test_an_address_without_archives_gets_a_fresh_folder_whatever_the_name(tmp_path: Path) -> None:
    made(tmp_path / "default-there-6379-0", gen="g1", at=THERE)

    for gen in (None, "g2"):
        assert tmp_path / "default-here-6379-0" == folder_of(gen, HERE, tmp_path)
        assert [] == archives_of("default", gen, HERE, within(tmp_path))


def test_archives_of_another_namespace_and_unreadable_files_are_skipped(tmp_path: Path) -> None:
    made(tmp_path / "shop-here-6379-0", gen="g1")  # default's, by what it says of itself
    (tmp_path / "default-bad").mkdir()
    (tmp_path / "default-bad" / "1.db").write_bytes(b"no database at all, but a file with that name")

    assert tmp_path / "default-here-6379-0" == folder_of("g1", HERE, tmp_path)
    assert tmp_path / "shop-here-6379-0" == folder_of("g1", HERE, tmp_path, "shop")


def test_archives_of_another_data_set_are_not_offered_for_recovery(tmp_path: Path) -> None:
    folder = tmp_path / "default-here-6379-0"
    mine = [made(folder, "1.db", gen="g1"), made(folder, "3.db", gen="g1", at=THERE)]
    made(folder, "2.db", gen="g2")
    (folder / "4.db").write_bytes(b"no database at all, but a file with that name")

    assert [*mine, folder / "4.db"] == archives_of("default", "g1", HERE, within(tmp_path))


TOLD: list[tuple[dict[str, Any], str | None, bool]] = [
    # archive, gen of the Redis at HERE, whether it is objected to
    ({"gen": "g1"}, "g1", False),
    ({"gen": "g1", "at": THERE}, "g1", False),
    ({"gen": "g1"}, "g2", True),
    ({"gen": "g1", "at": THERE}, "g2", True),
    ({"gen": "g1"}, None, False),
    ({"gen": "g1", "at": THERE}, None, True),
    ({"gen": None}, "g1", False),
    ({"gen": None, "at": THERE}, "g1", True),
    ({"gen": None, "at": THERE}, None, True),
    ({"gen": "g1", "at": None}, None, False),  # of no address: it was made by hand
]


@pytest.mark.parametrize(("archive", "gen", "expected"), TOLD)
def test_an_archive_of_another_data_set_causes_an_objection(
    tmp_path: Path, archive: dict[str, Any], gen: str | None, expected: bool
) -> None:
    told = facts_at(made(tmp_path, **archive))

    assert expected is (told.objection(gen, HERE) is not None)
