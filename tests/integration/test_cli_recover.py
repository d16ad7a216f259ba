"""``zsched recover``: real archives, a Redis that lost something, and daemons that put it back or wait for it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from tests.faults.archives import await_caught_up
from tests.faults.processes import WITHIN_S, DaemonProcess, eventually
from tests.integration.archive.ground import Scene
from zsched import Client
from zsched.cli import program
from zsched.cli.exits import DONE, FAILED, INTERRUPTED, NOT_FOUND, UNHEALTHY, USAGE
from zsched.cli.recovering import difference, recovery
from zsched.core.log import Position
from zsched.core.model import Schedule
from zsched.daemon.merge import HistoryChanged, Merge, OtherRestores
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.keys import Keys
from zsched.storage.restoring import Restoring

pytestmark = pytest.mark.redis
KEYS = Keys("default")
HOUR_S = 3600


@pytest.fixture
def scene(redis_client: redis.Redis, redis_url: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(redis_client, redis_url, tmp_path)
    yield scene
    scene.close()


class Zsched:
    """The command line with the archive at *path* configured, or none."""

    def __init__(self, url: str, path: Path | None = None, **env: str) -> None:
        self.env: dict[str, str | None] = {"ZSCHED_REDIS_URL": url, "ZSCHED_ARCHIVE_PATH": None, **env}
        if path is not None:
            self.env["ZSCHED_ARCHIVE_PATH"] = str(path)

    def __call__(self, *arguments: str) -> Result:
        result = CliRunner().invoke(program, ["recover", *arguments], env=self.env)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert DONE == result.exit_code, result.stderr
        return json.loads(result.stdout)

    def refusal(self, *arguments: str, code: int = FAILED) -> str:
        """What it says when it does not do it."""
        result = self(*arguments)
        assert (code, "") == (result.exit_code, result.stdout)
        return result.stderr


@pytest.fixture
def zsched(redis_url: str, scene: Scene) -> Zsched:
    return Zsched(redis_url, scene.archive.path)


def populate(scene: Scene) -> None:
    """Something in every place, two runs that were fired and are not over; all of it is in the archive."""
    client = scene.client
    client.schedule("app.remind", id="once", after=HOUR_S, args=("secret",), description="Remind Ann")
    client.schedule("app.digest", id="cron", cron="0 9 * * 1-5", tz="Asia/Seoul")
    client.schedule("app.report", id="paused", every=HOUR_S)
    client.pause("paused", "until Monday")
    client.schedule("app.bill", id="fired", after=0)
    client.schedule("app.sms", id="careful", after=0, on_uncertain="skip")
    scene.tick()
    assert 2 == len(scene.queued())
    client.schedule("app.late", id="late", after=0)
    assert scene.follower.step()


def listed(client: Client) -> list[Schedule]:
    """What the schedules are, without what a recovery renews."""
    return sorted(client.list(), key=lambda one: one.id)


def told(schedules: list[Schedule]) -> list[tuple[Any, ...]]:
    return [
        (one.id, one.state, one.next_ms, one.nominal_ms, one.func, one.trigger, one.tz, one.note, one.description)
        for one in schedules
    ]


def dump(client: redis.Redis) -> dict[bytes, bytes | None]:
    """Every key with all that is in it."""
    return {key: client.dump(key) for key in client.scan_iter()}


def report_of_archive(scene: Scene, state: ArchiveState, **about: Any) -> None:
    position = scene.archive.position
    Archivers(scene.wire, scene.keys).report("elsewhere", position, state, {"host": "box", "path": "/x.db"} | about)


# -- nothing to do ------------------------------------------------------------------------------------


def test_with_nothing_lost_there_is_nothing_to_do_and_nothing_is_written(scene: Scene, zsched: Zsched) -> None:
    populate(scene)
    scene.redis.delete(scene.keys.lease())
    before = dump(scene.redis)

    result = zsched()

    assert (DONE, True) == (result.exit_code, result.stdout.startswith("Nothing to do: Redis lost nothing"))
    assert before == dump(scene.redis)
    assert None is zsched.json()["verdict"]


def test_a_redis_that_went_on_beyond_the_archive_lost_nothing(scene: Scene, zsched: Zsched) -> None:
    populate(scene)
    scene.client.cancel("once")
    scene.redis.delete(scene.keys.lease())

    assert zsched().stdout.startswith("Nothing to do")
    assert zsched("--dry-run").stdout.startswith("Nothing to do")


# -- an emptied Redis ---------------------------------------------------------------------------------


def test_a_dry_run_counts_and_lists_all_that_an_emptied_redis_lacks_and_writes_nothing(
    scene: Scene, zsched: Zsched
) -> None:
    populate(scene)
    scene.redis.flushall()
    scene.redis.set("somebody", "else's")
    before = dump(scene.redis)

    result = zsched("--dry-run", "--tz", "Asia/Seoul")

    assert (DONE, "") == (result.exit_code, result.stderr)
    assert before == dump(scene.redis)
    for line in (
        "both have   none: Redis has nothing of what the archive has",
        "put back 4 schedules, 1 of them overdue",
        "push again 1 run that may have been executed, marked uncertain",
        "skip 1 run that may have been executed, as its schedule wishes",
    ):
        assert line in result.stdout.splitlines()
    rows = {line.split("  ")[0]: line for line in result.stdout.splitlines() if "app." in line}
    assert ["put back", "put back (paused)", "push again", "skip"] == list(rows)
    for what, texts in {
        "put back (paused)": ("paused", "app.report"),
        "push again": ("fired", "app.bill"),
        "skip": ("careful", "app.sms"),
    }.items():
        assert all(text in rows[what].split() for text in texts)
    assert "09:00:00+09:00" in result.stdout
    assert "secret" not in result.stdout


_IDS = {"once", "cron", "paused", "fired", "careful", "late"}


def test_a_recovery_brings_back_the_same_schedules_with_the_same_next_times(scene: Scene, zsched: Zsched) -> None:
    populate(scene)
    before = listed(scene.client)
    runs = {run.rpartition("-")[0] for run in scene.queued()}
    assert {"fired", "careful"} == runs
    scene.redis.flushall()

    result = zsched()

    assert DONE == result.exit_code
    assert told(before) == told(listed(scene.client))
    [again] = scene.queued()
    assert again.startswith("fired-")
    assert b"1" == scene.redis.hget(f"rq:job:{again}", "zs_uncertain")
    table = [line.split() for line in result.stdout.splitlines() if "app." in line]
    assert [["pushed", "again", "fired"], ["skipped", "careful"]] == [table[0][:3], table[1][:2]]
    assert "put back 4 schedules, 1 of them overdue" in result.stdout.splitlines()
    assert zsched().stdout.startswith("Nothing to do")


def test_a_run_that_cannot_be_pushed_again_is_told_as_such(scene: Scene, zsched: Zsched) -> None:
    populate(scene)
    scene.redis.flushall()
    scene.redis.set("rq:queue:default", "a foreign hand's")

    result = zsched()

    lines = result.stdout.splitlines()
    assert "could not push again 1 run: something else has the key of its job or queue" in lines
    assert [] == [line for line in lines if line.startswith("pushed again")]
    assert [line for line in lines if line.startswith("could not push again  fired  ")]


def test_with_json_all_of_it_is_one_document_before_and_after(scene: Scene, zsched: Zsched) -> None:
    populate(scene)
    position = scene.archive.position
    assert position is not None
    scene.redis.flushall()

    planned, done = zsched.json("--dry-run"), zsched.json()

    counts = {
        "put_back": 4, "push_again": 1, "skip": 1, "take_out": 0, "overdue": 1, "left_as_is": 0, "refused": 0,
    }  # fmt: skip
    assert [counts, counts] == [planned["counts"], done["counts"]]
    assert (False, None) == (planned["done"], planned["merged"])
    assert (True, scene.log()[-1].position.id) == (done["done"], done["merged"])
    assert position.id == planned["archive"]["entry"]
    by_id = {row["id"]: row for row in planned["rows"]}
    assert _IDS == set(by_id) == {row["id"] for row in done["rows"]}
    assert ("put_back", "paused", "app.report", None) == tuple(
        by_id["paused"][name] for name in ("what", "state", "func", "run_id")
    )
    assert "push_again" == by_id["fired"]["what"]
    assert by_id["fired"]["run_id"].startswith("fired-")


def test_what_clients_did_in_the_new_redis_stands(scene: Scene, zsched: Zsched) -> None:
    populate(scene)
    scene.redis.flushall()
    scene.client.schedule("app.other", id="once", after=2 * HOUR_S)

    counts = zsched.json()["counts"]

    assert (3, "app.other") == (counts["put_back"], scene.client.get("once").func)


def test_only_so_many_of_a_kind_are_listed_unless_all_are_asked_for(
    scene: Scene, zsched: Zsched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(difference, "SHOWN", 2)
    scene.client.schedule_many({"func": "app.task", "id": f"s{n}", "after": HOUR_S} for n in range(5))
    scene.follower.step()
    scene.redis.flushall()

    some, every = zsched("--dry-run").stdout, zsched("--dry-run", "--all").stdout

    assert (2, 5) == (some.count("app.task"), every.count("app.task"))
    assert "… and 3 more to put back; --all lists them" in some
    assert 5 == len(zsched.json("--dry-run")["rows"])


# -- a Redis that is older than the archive -----------------------------------------------------------


def test_after_a_rollback_only_what_changed_since_is_compared(scene: Scene, zsched: Zsched) -> None:
    # given: three schedules that both have, and then one that Redis lost, one that is over, one that went back
    client = scene.client
    client.schedule("app.task", id="kept", after=HOUR_S)
    client.schedule("app.task", id="over", after=HOUR_S)
    client.schedule("app.task", id="moved", after=HOUR_S)
    scene.follower.step()
    common, saved = scene.log()[-1].position, dump(scene.redis)
    client.schedule("app.task", id="lost", after=HOUR_S)
    client.cancel("over")
    client.schedule("app.task", id="moved", after=3 * HOUR_S)
    scene.follower.step()
    before = listed(client)
    scene.redis.flushall()
    for key, value in saved.items():
        assert value is not None
        if key != scene.keys.lease().encode():
            scene.redis.restore(key, 0, value)
    client.schedule("app.task", id="new", after=HOUR_S)

    planned = zsched.json("--dry-run")
    result = zsched("--dry-run")

    assert (common.id, 1) == (planned["common"]["entry"], planned["behind_common"])
    assert {("put_back", "lost"), ("take_out", "over"), ("put_back", "moved")} == {
        (row["what"], row["id"]) for row in planned["rows"]
    }
    assert "take out 1 schedule, over by what the archive knows" in result.stdout.splitlines()
    assert f"both have   log entry {common.id} of " in result.stdout
    assert DONE == zsched().exit_code
    assert told(before) == told([one for one in listed(client) if one.id != "new"])
    assert "new" == client.get("new").id


# -- which file ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("--from", "/nonexistent/archive.db")])
def test_a_file_that_is_not_there_is_not_found(redis_url: str, arguments: tuple[str, ...]) -> None:
    zsched = Zsched(redis_url, Path("/nonexistent/archive.db"))
    name = "--from" if arguments else "[archive] path"

    said = zsched.refusal(*arguments, code=NOT_FOUND)

    assert f"zsched: {name}='/nonexistent/archive.db': there is no such file; give --from FILE" in said
    told = json.loads(zsched.refusal(*arguments, "--json", code=NOT_FOUND))
    assert "NoArchive" == told["type"]


def test_without_any_it_is_said_where_was_looked(redis_url: str, tmp_path: Path) -> None:
    zsched = Zsched(redis_url, XDG_STATE_HOME=str(tmp_path))

    said = zsched.refusal("--dry-run", code=NOT_FOUND)

    assert f"no archive of namespace 'default': {tmp_path}/zsched has no default-1.db to default-16.db" in said


def test_the_one_file_where_daemons_keep_theirs_is_taken_and_of_several_it_is_asked_which(
    scene: Scene, redis_url: str, tmp_path: Path
) -> None:
    populate(scene)
    scene.archive.commit()
    folder = tmp_path / "zsched"
    folder.mkdir()
    copied(scene, folder / "default-2.db")
    scene.redis.flushall()
    zsched = Zsched(redis_url, XDG_STATE_HOME=str(tmp_path))
    assert str(folder / "default-2.db") == zsched.json("--dry-run")["archive"]["path"]

    copied(scene, folder / "default-5.db")
    (folder / "default-7.db").write_bytes(b"no database at all, but a file with that name")
    said = zsched.refusal()

    position = scene.archive.position
    assert position is not None
    for text in (
        "there are 3 archives: ", f"default-2.db, up to log entry {position.id} of 20",
        "complete since the beginning; ", "default-5.db, up to", "default-7.db, which cannot be read (", "--from FILE",
    ):  # fmt: skip
        assert text in said
    assert 4 == zsched.json("--dry-run", "--from", str(folder / "default-5.db"))["counts"]["put_back"]


def test_of_several_a_dry_run_takes_the_one_that_goes_furthest_and_says_which(
    scene: Scene, redis_url: str, tmp_path: Path
) -> None:
    populate(scene)
    scene.archive.commit()
    folder = tmp_path / "zsched"
    folder.mkdir()
    behind = copied(scene, folder / "default-1.db")
    scene.client.schedule("app.more", id="more", after=HOUR_S)
    assert scene.follower.step()
    scene.archive.commit()
    furthest = copied(scene, folder / "default-2.db")
    (folder / "default-3.db").write_bytes(b"no database at all, but a file with that name")
    scene.redis.flushall()
    zsched = Zsched(redis_url, XDG_STATE_HOME=str(tmp_path))

    result = zsched("--dry-run")

    assert (DONE, True) == (result.exit_code, "put back 5 schedules" in result.stdout)
    assert f"this is of {furthest}, which goes furthest: --from FILE takes another one" in result.stderr
    assert f"{behind}, up to log entry " in result.stderr
    assert str(furthest) == zsched.json("--dry-run")["archive"]["path"]
    assert "say which with --from FILE" in zsched.refusal()


def test_of_several_that_end_alike_any_is_taken_also_to_recover(scene: Scene, redis_url: str, tmp_path: Path) -> None:
    populate(scene)
    scene.archive.commit()
    folder = tmp_path / "zsched"
    folder.mkdir()
    for number in (1, 2):
        copied(scene, folder / f"default-{number}.db")
    before = listed(scene.client)
    scene.redis.flushall()

    result = Zsched(redis_url, XDG_STATE_HOME=str(tmp_path))()

    assert (DONE, told(before)) == (result.exit_code, told(listed(scene.client)))


def copied(scene: Scene, path: Path) -> Path:
    """The archive as a file of its own."""
    with closing(sqlite3.connect(scene.archive.path)) as db:
        db.execute("VACUUM INTO ?", (str(path),))
    return path


def test_a_corrupt_archive_is_refused(scene: Scene, zsched: Zsched, tmp_path: Path) -> None:
    populate(scene)
    path = copied(scene, tmp_path / "copy.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE entry SET t = t + 1 WHERE n = 2")
    scene.redis.flushall()

    for arguments in ((), ("--dry-run",)):
        said = zsched.refusal("--from", str(path), *arguments)

        assert f"zsched: archive {path}: " in said
        assert "checksum differs; it cannot be trusted; give another archive with --from FILE" in said
    assert {} == dump(scene.redis)


def test_an_archive_that_says_nonsense_of_itself_is_corrupt(scene: Scene, zsched: Zsched, tmp_path: Path) -> None:
    populate(scene)
    path = copied(scene, tmp_path / "copy.db")
    scene.redis.flushall()

    for name in ("life", "position"):
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("UPDATE fact SET value = 'x' WHERE name = ?", (name,))

        assert "it cannot be trusted; give another archive with --from FILE" in zsched.refusal("--from", str(path))


def test_another_namespaces_archive_is_refused_with_what_to_run(
    redis_client: redis.Redis, redis_url: str, scene: Scene, zsched: Zsched, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Scene(redis_client, redis_url, tmp_path / "other", "shop")
    other.client.schedule("app.task", id="a", after=HOUR_S)
    other.follower.step()
    path = other.archive.path
    other.close()
    redis_client.delete(KEYS.lease(), other.keys.lease())

    said = zsched.refusal("--from", str(path))

    assert f"archive {path} is of namespace 'shop', not of 'default'; run zsched recover -n shop --from {path}" in said
    assert DONE == zsched("-n", "shop", "--from", str(path)).exit_code


def test_a_file_that_is_no_archive_is_refused(redis_url: str, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE something(x)")

    assert f"{path} is a database of something else" in Zsched(redis_url, path).refusal()


def test_an_archive_with_nothing_in_it_yet_is_refused(scene: Scene, zsched: Zsched) -> None:
    assert scene.archive.position is None
    scene.redis.flushall()

    assert "it has nothing yet of what Redis holds" in zsched.refusal()


# -- which history ------------------------------------------------------------------------------------


def unrelated(scene: Scene) -> tuple[Position, Position]:
    """Redis becomes another data set, begun long before: the archive's last entry, and the log's first one."""
    populate(scene)
    scene.redis.flushall()
    scene.redis.hset(scene.keys.meta(), mapping={"gen": "other", "epoch": 4, "seq": 700})
    scene.redis.xadd(scene.keys.log(), {"kind": "cancel", "t": 1_600_000_000_000_000, "id": "x", "due": 5}, id="4-700")
    mine = scene.archive.position
    assert mine is not None
    return mine, Position(4, 700, 1_600_000_000_000_000)


def test_another_data_set_is_refused_unless_the_archive_is_named(scene: Scene, zsched: Zsched) -> None:
    mine, first = unrelated(scene)
    before = dump(scene.redis)

    said = zsched.refusal()

    assert before == dump(scene.redis)
    for text in (
        f"ends with log entry {mine.id} of ", f"the log in Redis goes from {first.id} of 2020-09-13",
        "they have nothing in common (data set other here, ", f"zsched recover --from {scene.archive.path} puts it in",
    ):  # fmt: skip
        assert text in said
    planned = zsched.json("--dry-run")
    assert ("unrelated", 1) == (planned["verdict"], len(planned["warnings"]))
    assert 4 == zsched.json("--from", str(scene.archive.path))["counts"]["put_back"]


def test_a_log_that_was_trimmed_past_the_archive_is_refused_unless_it_is_named_and_forced(
    scene: Scene, zsched: Zsched
) -> None:
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
        assert f"would be done again; zsched recover --from {path} --force" in said
    assert before == dump(scene.redis)
    assert "left behind" == zsched.json("--dry-run")["verdict"]
    assert DONE == zsched("--from", path, "--force").exit_code


# -- while a daemon leads -----------------------------------------------------------------------------


def leading(scene: Scene) -> None:
    """Somebody leads the emptied Redis."""
    scene.redis.flushall()
    scene.redis.set(scene.keys.lease(), "somebody:3:2000:x", px=600_000)


def test_while_somebody_leads_it_is_left_to_them_unless_forced(scene: Scene, zsched: Zsched) -> None:
    populate(scene)
    leading(scene)
    report_of_archive(scene, ArchiveState.LOST, daemon="somebody", trouble="disk full")
    before = dump(scene.redis)

    said = zsched.refusal()

    assert "daemon somebody leads, and its archive box:/x.db is lost: a daemon puts back what Redis lost by" in said
    assert "--force does it all the same, and zsched recover --dry-run shows what is missing" in said
    assert 1 == len(zsched.json("--dry-run")["warnings"])
    assert before == dump(scene.redis)
    assert 4 == zsched.json("--force")["counts"]["put_back"]


def test_a_leader_without_an_archive_is_told(scene: Scene, zsched: Zsched) -> None:
    populate(scene)
    leading(scene)

    assert "daemon somebody leads, and it reports no archive: " in zsched.refusal()


def test_an_archive_that_waits_for_people_is_told_of_unless_this_one_has_all_that_it_has(
    scene: Scene, zsched: Zsched
) -> None:
    populate(scene)
    leading(scene)
    mine = scene.archive.position
    assert mine is not None
    about = {"host": "box", "path": "/x.db", "awaits_people": True}
    archivers = Archivers(scene.wire, scene.keys)
    archivers.report("a", mine, ArchiveState.LOST, about)
    archivers.report("b", mine._replace(t_us=mine.t_us + 1), ArchiveState.LOST, about | {"path": "/y.db"})

    warnings = zsched.json()["warnings"]

    assert ["archive box:/y.db waits as well, and may know more: run zsched recover --from its file"] == warnings


def test_a_daemon_in_manual_mode_fires_nothing_until_recover_was_run(
    redis_client: redis.Redis, redis_url: str, guard: Guard, tmp_path: Path
) -> None:
    # given: a leader whose Redis is emptied
    path, zsched, client = tmp_path / "one.db", Zsched(redis_url, tmp_path / "one.db"), Client.from_url(redis_url)
    settings = {"ARCHIVE_PATH": str(path), "ARCHIVE_RECOVERY": "manual", "DAEMON_LEASE_MS": "500"}
    daemon = DaemonProcess(guard, redis_url, **settings, DAEMON_RENEW_MS="100")
    await_caught_up(redis_url, path)
    eventually(lambda: daemon.of("hold_ended"))
    client.schedule("app.task", id="later", after=HOUR_S)
    await_caught_up(redis_url, path)
    before = listed(client)
    redis_client.flushall()
    daemon.wait_for("recovery_awaited")
    client.schedule("app.task", id="new", after=0)

    # when
    eventually(lambda: zsched("--dry-run").stdout.count("\nput back  later"))
    status = eventually(lambda: awaited(redis_url))

    # then: it holds, and says so
    assert (0, None) == (redis_client.llen("rq:queue:default"), redis_client.get("rq:job:new"))
    assert [problem for problem in status["problems"] if f"{path} lost: Redis lost something" in problem]

    result = zsched()

    assert (DONE, "") == (result.exit_code, result.stderr)
    assert told(before) == told([one for one in listed(client) if one.id == "later"])
    daemon.wait_for("archive_bootstrapped", 2)
    eventually(lambda: redis_client.llen("rq:queue:default"))
    await_caught_up(redis_url, path)
    daemon.send(signal.SIGTERM)
    assert 0 == daemon.wait()
    [run] = redis_client.lrange("rq:queue:default", 0, -1)
    assert run.startswith(b"new-")


def awaited(url: str) -> Any:
    """What ``zsched status`` says, as soon as a recovery is awaited."""
    result = CliRunner().invoke(program, ["status", "--json"], env={"ZSCHED_REDIS_URL": url})
    status = json.loads(result.stdout)
    is_awaited = any("run zsched recover" in str(archive["trouble"]) for archive in status["archives"])
    assert not is_awaited or UNHEALTHY == result.exit_code
    return status if is_awaited else None


# -- what happens meanwhile ---------------------------------------------------------------------------


def test_while_another_archive_restores_it_waits_and_says_so(
    scene: Scene, zsched: Zsched, monkeypatch: pytest.MonkeyPatch
) -> None:
    populate(scene)
    monkeypatch.setattr(recovery, "WAIT_MS", 1.0)
    scene.redis.flushall()
    other, run = Restoring(scene.wire, scene.keys, "another", "lost", 0), Merge.run
    asked: list[int] = []

    def interrupted(merge: Merge) -> Iterator[int]:
        asked.append(1)
        if len(asked) == 1:
            rows = [row for page in merge.rows() for row in page if row.id == "once"]
            assert other.restore(rows, merge.seen, lambda: None)
        yield from run(merge)

    monkeypatch.setattr(Merge, "run", interrupted)

    result = zsched()

    assert (DONE, 2) == (result.exit_code, len(asked))
    assert "zsched: archive another is putting back what it knows; comparing again in 0.001 s" in result.stderr
    assert "put back 3 schedules, 1 of them overdue" in result.stdout.splitlines()


def test_a_redis_that_loses_it_once_more_gets_it_once_more(
    scene: Scene, zsched: Zsched, monkeypatch: pytest.MonkeyPatch
) -> None:
    populate(scene)
    before, run, asked = listed(scene.client), Merge.run, list[int]()
    scene.redis.flushall()

    def interrupted(merge: Merge) -> Iterator[int]:
        asked.append(1)
        for compared in run(merge):
            if len(asked) == 1:
                scene.redis.flushall()
            yield compared

    monkeypatch.setattr(Merge, "run", interrupted)

    result = zsched()

    assert (DONE, 2) == (result.exit_code, len(asked))
    assert "Redis lost its history once more; comparing again" in result.stderr
    assert "put back 4 schedules, 1 of them overdue" in result.stdout.splitlines()
    assert told(before) == told(listed(scene.client))


def test_a_dry_run_compares_again_when_the_history_changes(
    scene: Scene, zsched: Zsched, monkeypatch: pytest.MonkeyPatch
) -> None:
    populate(scene)
    scene.redis.flushall()
    rows, errors = Merge.rows, [HistoryChanged(), OtherRestores()]

    def interrupted(merge: Merge) -> Iterator[list[Any]]:
        if errors:
            yield next(rows(merge))
            raise errors.pop()
        yield from rows(merge)

    monkeypatch.setattr(Merge, "rows", interrupted)

    assert (4, []) == (zsched.json("--dry-run")["counts"]["put_back"], errors)


def test_ctrl_c_ends_it_between_two_pages_and_the_next_one_goes_on(
    scene: Scene, zsched: Zsched, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.client.schedule_many({"func": "app.task", "id": f"s{n:03}", "after": HOUR_S} for n in range(450))
    scene.follower.step()
    scene.redis.flushall()
    run = Merge.run

    def interrupted(merge: Merge) -> Iterator[int]:
        for compared in run(merge):
            os.kill(os.getpid(), signal.SIGINT)
            yield compared

    monkeypatch.setattr(Merge, "run", interrupted)
    result = zsched()

    assert (INTERRUPTED, "") == (result.exit_code, result.stdout)
    said = "zsched: stopped; what was put back (200 so far) stays, and running it again goes on"
    assert said in result.stderr
    assert 200 == len(listed(scene.client))
    assert signal.default_int_handler is signal.getsignal(signal.SIGINT)

    monkeypatch.setattr(Merge, "run", run)
    assert {"put_back": 250, "left_as_is": 200} == {
        name: number for name, number in zsched.json()["counts"].items() if number
    }
    assert 450 == len(listed(scene.client))


def test_a_redis_that_goes_away_is_a_failure_that_says_what_stays(
    scene: Scene, zsched: Zsched, monkeypatch: pytest.MonkeyPatch
) -> None:
    populate(scene)
    scene.redis.flushall()
    run = Merge.run

    def cut(merge: Merge) -> Iterator[int]:
        for compared in run(merge):
            scene.redis.client_kill_filter(skipme=True, _type="normal")
            yield compared

    monkeypatch.setattr(Merge, "run", cut)

    said = zsched.refusal()

    assert "lost Redis at " in said
    assert "; what was put back (6 so far) stays, and running it again goes on" in said


def test_what_another_archive_put_back_already_is_not_compared(scene: Scene, zsched: Zsched) -> None:
    # given: an archive, and one that knows one schedule less
    populate(scene)
    older = copied(scene, scene.folder / "older.db")
    scene.client.schedule("app.task", id="last", after=HOUR_S)
    scene.follower.step()
    before = listed(scene.client)
    scene.redis.flushall()
    assert 4 == zsched.json("--from", str(older))["counts"]["put_back"]

    result = zsched("--dry-run")

    assert "both have   no entry, but another archive put back a part of what this one has" in result.stdout
    assert "put back 1 schedule, 0 of them overdue" in result.stdout
    assert 1 == zsched.json()["counts"]["put_back"]
    assert told(before) == told(listed(scene.client))
    assert zsched("--from", str(older)).stdout.startswith("Nothing to do")


# -- a process of its own -----------------------------------------------------------------------------


def test_beside_the_writer_of_the_file_it_reads_and_writes_nothing_to_it(
    scene: Scene, zsched: Zsched, redis_url: str
) -> None:
    populate(scene)
    scene.redis.flushall()
    env = {**os.environ, "ZSCHED_REDIS_URL": redis_url, "ZSCHED_ARCHIVE_PATH": str(scene.archive.path)}
    before = sorted(scene.archive.state(), key=lambda each: each[0].key)

    command = [sys.executable, "-m", "zsched.cli", "recover"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=WITHIN_S, check=True)

    assert ("", True) == (done.stderr, "put back 4 schedules" in done.stdout)
    assert before == sorted(scene.archive.state(), key=lambda each: each[0].key)


def test_a_zone_that_there_is_not_is_refused_first(zsched: Zsched) -> None:
    assert "Mars" in zsched.refusal("--tz", "Mars/Base", code=USAGE)
