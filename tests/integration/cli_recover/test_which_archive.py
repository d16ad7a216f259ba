"""``zsched archive recover``: the choice of the file, and the histories that it refuses."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.builders.scenes import Scene
from tests.integration.cli_recover.losses import HOUR_S, Recover, copied, dump, listed, lose_all, populate
from zsched.cli.program import DONE, NOT_FOUND
from zsched.config.urls import address_of
from zsched.core.entry import Position
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once

KEYS = Keys("default")


@pytest.mark.parametrize("arguments", [(), ("--from", "/nonexistent/archive.db")])
def test_a_missing_archive_file_is_not_found(redis_url: str, arguments: tuple[str, ...]) -> None:
    zsched = Recover(redis_url, Path("/nonexistent/archive.db"))
    name = "--from" if arguments else "[archive] path"

    said = zsched.refusal(*arguments, code=NOT_FOUND)

    assert f"zsched: {name}='/nonexistent/archive.db': there is no such file; give --from FILE" in said
    told = json.loads(zsched.refusal(*arguments, "--json", code=NOT_FOUND))
    assert "NoArchive" == told["type"]


def test_recover_without_an_archive_names_the_searched_folder(redis_url: str, tmp_path: Path) -> None:
    zsched = Recover(redis_url, XDG_STATE_HOME=str(tmp_path))

    said = zsched.refusal("--dry-run", code=NOT_FOUND)

    address = address_of(redis_url)
    assert f"no archive of namespace 'default': {tmp_path}/zsched has none of the Redis at {address}" in said


def a_folder_of_archives(scene: Scene, state: Path, url: str) -> Path:
    """Return the empty folder of daemons' archives below *state*; the scene's archive is ready to be copied."""
    populate(scene)
    scene.archive.set_facts(address=address_of(url))
    scene.archive.commit()
    folder = state / "zsched" / "default-something"
    folder.mkdir(parents=True)
    return folder


def test_recover_uses_the_only_archive_and_asks_which_of_several(scene: Scene, redis_url: str, tmp_path: Path) -> None:
    folder = a_folder_of_archives(scene, tmp_path, redis_url)
    copied(scene, folder / "2.db")
    scene.redis.flushall()
    zsched = Recover(redis_url, XDG_STATE_HOME=str(tmp_path))
    assert str(folder / "2.db") == zsched.json("--dry-run")["archive"]["path"]

    copied(scene, folder / "5.db")
    (folder / "7.db").write_bytes(b"no database at all, but a file with that name")
    said = zsched.refusal()

    position = scene.archive.position
    assert position is not None
    for text in (
        "there are 3 archives: ", f"2.db, up to log entry {position.id} of 20",
        "complete since the beginning; ", "5.db, up to", "7.db, which cannot be read (", "--from FILE",
    ):  # fmt: skip
        assert text in said
    assert 4 == zsched.json("--dry-run", "--from", str(folder / "5.db"))["counts"]["put_back"]


def test_a_dry_run_uses_the_most_recent_of_several_archives(scene: Scene, redis_url: str, tmp_path: Path) -> None:
    folder = a_folder_of_archives(scene, tmp_path, redis_url)
    behind = copied(scene, folder / "1.db")
    scene.client.schedule("app.more", id="more", after=HOUR_S)
    assert scene.follower.step()
    scene.archive.commit()
    furthest = copied(scene, folder / "2.db")
    (folder / "3.db").write_bytes(b"no database at all, but a file with that name")
    scene.redis.flushall()
    zsched = Recover(redis_url, XDG_STATE_HOME=str(tmp_path))

    result = zsched("--dry-run")

    assert (DONE, True) == (result.exit_code, "restore 5 schedules" in result.stdout)
    assert f"this uses {furthest}, the latest: --from FILE takes another one" in result.stderr
    assert f"{behind}, up to log entry " in result.stderr
    assert str(furthest) == zsched.json("--dry-run")["archive"]["path"]
    assert "say which with --from FILE" in zsched.refusal()


def test_recover_uses_any_of_several_equally_recent_archives(scene: Scene, redis_url: str, tmp_path: Path) -> None:
    folder = a_folder_of_archives(scene, tmp_path, redis_url)
    for number in (1, 2):
        copied(scene, folder / f"{number}.db")
    before = listed(scene.client)
    scene.redis.flushall()

    result = Recover(redis_url, XDG_STATE_HOME=str(tmp_path))()

    assert (DONE, before) == (result.exit_code, listed(scene.client))


def test_archives_of_other_redis_servers_are_ignored(scene: Scene, redis_url: str, tmp_path: Path) -> None:
    folder = a_folder_of_archives(scene, tmp_path, redis_url)
    mine = copied(scene, folder / "1.db")
    scene.client.schedule("app.more", id="more", after=HOUR_S)
    assert scene.follower.step()
    scene.archive.set_facts(gen="another", address="elsewhere:6379/0")
    scene.archive.commit()
    (tmp_path / "zsched" / "default-elsewhere").mkdir()
    others = copied(scene, tmp_path / "zsched" / "default-elsewhere" / "1.db")
    zsched = Recover(redis_url, XDG_STATE_HOME=str(tmp_path))

    scene.redis.flushall()
    assert str(mine) == zsched.json("--dry-run")["archive"]["path"]  # by its address, though the other goes further
    scene.redis.hset(KEYS.meta(), "gen", "another")
    assert str(others) == zsched.json("--dry-run")["archive"]["path"]  # by its name
    scene.redis.hset(KEYS.meta(), "gen", "unknown")
    said = zsched.refusal("--dry-run")
    assert f"archive {mine} followed the data set " in said
    assert f"zsched archive recover --from {mine} puts what the archive knows into it" in said


def test_a_configured_archive_of_another_address_is_refused_for_an_unnamed_redis(scene: Scene, zsched: Recover) -> None:
    populate(scene)
    scene.archive.set_facts(address="elsewhere:6379/0")
    scene.archive.commit()
    [name] = scene.archive.gens
    scene.redis.flushall()

    said = zsched.refusal()

    assert "was made for the Redis at elsewhere:6379/0, and the data set of the Redis at " in said
    assert {} == dump(scene.redis)
    assert 4 == zsched.json("--from", str(scene.archive.path))["counts"]["put_back"]
    assert name.encode() == scene.redis.hget(KEYS.meta(), "gen")


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("UPDATE entry SET t = t + 1 WHERE n = 2", "checksum differs; "),
        ("UPDATE fact SET value = 'x' WHERE name = 'life'", ""),
        ("UPDATE fact SET value = 'x' WHERE name = 'position'", ""),
    ],
)
def test_a_corrupt_archive_is_refused(scene: Scene, zsched: Recover, tmp_path: Path, harm: str, told: str) -> None:
    populate(scene)
    path = copied(scene, tmp_path / "copy.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(harm)
    scene.redis.flushall()

    for arguments in ((), ("--dry-run",)):
        said = zsched.refusal("--from", str(path), *arguments)

        assert f"zsched: archive {path}: " in said
        assert f"{told}it cannot be trusted; give another archive with --from FILE" in said
    assert {} == dump(scene.redis)


def test_an_archive_of_another_namespace_is_refused_with_the_command(
    redis_client: redis.Redis, redis_url: str, scene: Scene, zsched: Recover, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Scene(redis_client, redis_url, tmp_path / "other", "shop")
    other.client.schedule("app.task", id="a", after=HOUR_S)
    other.follower.step()
    path = other.archive.path
    other.close()
    redis_client.delete(KEYS.lease(), other.keys.lease())

    said = zsched.refusal("--from", str(path))

    assert (
        f"archive {path} is of namespace 'shop', not of 'default'; run zsched archive recover -n shop --from {path}"
        in said
    )
    assert DONE == zsched("-n", "shop", "--from", str(path)).exit_code


def test_a_foreign_sqlite_file_is_refused(redis_url: str, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE something(x)")

    assert f"{path} is a database of something else" in Recover(redis_url, path).refusal()


def test_an_empty_archive_is_refused(scene: Scene, zsched: Recover) -> None:
    assert scene.archive.position is None
    scene.redis.flushall()

    assert "it has no data of Redis yet" in zsched.refusal()


def unrelated(scene: Scene) -> tuple[Position, Position]:
    """
    Replace Redis by another data set, begun long before. Return the archive's last entry, and the log's first entry.
    """
    lose_all(scene)
    scene.redis.hset(scene.keys.meta(), mapping={"gen": "other", "epoch": 4, "seq": 700})
    scene.redis.xadd(scene.keys.log(), {"kind": "cancel", "t": 1_600_000_000_000_000, "rows": 1, "x": 5}, id="4-700")
    mine = scene.archive.position
    assert mine is not None
    return mine, Position(4, 700, 1_600_000_000_000_000)


def test_another_data_set_is_refused_without_from(scene: Scene, zsched: Recover) -> None:
    mine, first = unrelated(scene)
    before = dump(scene.redis)

    said = zsched.refusal()

    assert before == dump(scene.redis)
    for text in (
        f"ends with log entry {mine.id} of ", f"the log in Redis goes from {first.id} of 2020-09-13",
        "followed the data set ", " is other; ", f"zsched archive recover --from {scene.archive.path} restores it",
    ):  # fmt: skip
        assert text in said
    planned = zsched.json("--dry-run")
    assert ("unrelated", 1) == (planned["verdict"], len(planned["warnings"]))
    assert 4 == zsched.json("--from", str(scene.archive.path))["counts"]["put_back"]
    assert f"other {scene.archive.gens[-1]}".encode() == scene.redis.hget(KEYS.meta(), "gen")


def test_a_log_trimmed_past_the_archive_is_refused_without_from_and_force(scene: Scene, zsched: Recover) -> None:
    populate(scene)
    scene.follower.note_gen()
    for n in range(3):
        scene.client.schedule("app.task", id=f"after-{n}", after=HOUR_S)
    last = scene.log()[-1].position
    scene.redis.xtrim(scene.keys.log(), maxlen=1, approximate=False)
    scene.redis.delete(scene.keys.lease())
    before = dump(scene.redis)
    path = str(scene.archive.path)

    for arguments in ((), ("--force",), ("--from", path)):
        said = zsched.refusal(*arguments)

        assert f"the log in Redis goes from {last.id} of " in said
        assert f"would be repeated; zsched archive recover --from {path} --force" in said
    assert before == dump(scene.redis)
    assert "left behind" == zsched.json("--dry-run")["verdict"]
    assert DONE == zsched("--from", path, "--force").exit_code
