"""``zsched archive recover`` while a daemon leads, another archive restores, or Redis goes away or loses data again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from tests.builders.daemons import DaemonProcess
from tests.builders.leaders import know
from tests.builders.scenes import Scene
from tests.faults.archives import await_caught_up
from tests.faults.leases import end_hold
from tests.integration.cli_recover.losses import HOUR_S, Recover, copied, dump, listed, lose_all, populate
from tests.prefix import RQ
from tests.states import state_of
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.cli import program
from zsched.cli.program import DONE, INTERRUPTED, UNHEALTHY
from zsched.daemon import recovery
from zsched.daemon.merge import Merge, OtherRestores
from zsched.daemon.reconciler import HistoryChanged
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.restoring import Restoring

pytestmark = pytest.mark.once


def report_of_archive(scene: Scene, state: ArchiveState, **about: Any) -> None:
    position = scene.archive.position
    Archivers(scene.wire, scene.keys).report("elsewhere", position, state, {"host": "box", "path": "/x.db"} | about)


def leading(scene: Scene) -> None:
    """Let a daemon lead the emptied Redis."""
    scene.redis.flushall()
    scene.redis.set(scene.keys.lease(), "somebody:3:2000:x", px=600_000)


def test_recover_is_refused_while_a_daemon_leads_unless_forced(scene: Scene, zsched: Recover) -> None:
    populate(scene)
    leading(scene)
    assert "daemon somebody leads, and it reports no archive: " in zsched.refusal()
    report_of_archive(scene, ArchiveState.LOST, daemon="somebody", trouble="disk full")
    before = dump(scene.redis)

    said = zsched.refusal()

    assert "daemon somebody leads, and its archive box:/x.db is lost: daemons restore lost data automatically" in said
    assert "use --force to restore now, and zsched archive recover --dry-run shows what is missing" in said
    assert 1 == len(zsched.json("--dry-run")["warnings"])
    assert before == dump(scene.redis)
    assert 4 == zsched.json("--force")["counts"]["put_back"]


def test_recover_warns_of_another_waiting_archive_that_may_know_more(scene: Scene, zsched: Recover) -> None:
    populate(scene)
    leading(scene)
    mine = scene.archive.position
    assert mine is not None
    about = {"host": "box", "path": "/x.db", "awaits_people": True}
    archivers = Archivers(scene.wire, scene.keys)
    archivers.report("a", mine, ArchiveState.LOST, about)
    archivers.report("b", mine._replace(t_us=mine.t_us + 1), ArchiveState.LOST, about | {"path": "/y.db"})

    warnings = zsched.json()["warnings"]

    assert [
        "archive box:/y.db waits as well, and may know more: run zsched archive recover --from its file"
    ] == warnings


def test_a_daemon_in_manual_mode_fires_nothing_until_recover_was_run(
    redis_client: redis.Redis, redis_url: str, guard: Guard, tmp_path: Path
) -> None:
    # given: a leader whose Redis is emptied
    path, zsched, client = tmp_path / "one.db", Recover(redis_url, tmp_path / "one.db"), Client.from_url(redis_url)
    know(redis_client)
    daemon = DaemonProcess(guard, redis_url, ARCHIVE_PATH=str(path), ARCHIVE_RECOVERY="manual")
    await_caught_up(redis_url, path)
    client.schedule("app.task", id="later", after=HOUR_S)
    await_caught_up(redis_url, path)
    before = listed(client)
    redis_client.flushall()
    daemon.wait_for("recovery_awaited")
    client.schedule("app.task", id="new", after=0)

    # when
    eventually(lambda: zsched("--dry-run").stdout.count("\nrestore  later"))
    status = eventually(lambda: awaited(redis_url))

    # then: it holds, and says so
    assert (0, None) == (redis_client.llen(f"{RQ}:queue:default"), redis_client.get(f"{RQ}:job:new"))
    assert [problem for problem in status["problems"] if f"{path} lost: Redis lost something" in problem]

    result = zsched()

    assert (DONE, "") == (result.exit_code, result.stderr)
    assert before == [one for one in listed(client) if one[0] == "later"]
    await_caught_up(redis_url, path)
    end_hold(redis_client, daemon)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))
    await_caught_up(redis_url, path)
    daemon.stop()
    [run] = redis_client.lrange(f"{RQ}:queue:default", 0, -1)
    assert run.startswith(b"new-")


def awaited(url: str) -> Any:
    """Return the output of ``zsched status`` as soon as a recovery is awaited."""
    result = CliRunner().invoke(program, ["status", "--json"], env={"ZSCHED_REDIS_URL": url})
    status = json.loads(result.stdout)
    is_awaited = any("run zsched archive recover" in str(archive["trouble"]) for archive in status["archives"])
    assert not is_awaited or UNHEALTHY == result.exit_code
    return status if is_awaited else None


def test_recover_waits_while_another_restores(scene: Scene, zsched: Recover, monkeypatch: pytest.MonkeyPatch) -> None:
    populate(scene)
    monkeypatch.setattr(recovery, "WAIT_MS", 1.0)
    scene.redis.flushall()
    other, run = Restoring(scene.wire, scene.keys, "another", "lost", 0), Merge.run
    asked: list[int] = []

    def interrupted(merge: Merge) -> Iterator[int]:
        asked.append(1)
        if len(asked) == 1:
            rows = [row for page in merge.rows() for row in page if row.id == "once"]
            assert other.restore(next(other.packed(rows)), merge.reconciler.seen, lambda: None)
        yield from run(merge)

    monkeypatch.setattr(Merge, "run", interrupted)

    result = zsched()

    assert (DONE, 2) == (result.exit_code, len(asked))
    assert "zsched: archive another is restoring its data; comparing again in 0.001 s" in result.stderr
    assert "restored 3 schedules, 1 of them overdue" in result.stdout.splitlines()


def test_recover_starts_again_after_another_loss(
    scene: Scene, zsched: Recover, monkeypatch: pytest.MonkeyPatch
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
    assert "restored 4 schedules, 1 of them overdue" in result.stdout.splitlines()
    assert before == listed(scene.client)


def test_a_dry_run_compares_again_after_a_change(
    scene: Scene, zsched: Recover, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_all(scene)
    rows, errors = Merge.rows, [HistoryChanged(), OtherRestores()]

    def interrupted(merge: Merge) -> Iterator[list[Any]]:
        if errors:
            yield next(rows(merge))
            raise errors.pop()
        yield from rows(merge)

    monkeypatch.setattr(Merge, "rows", interrupted)

    assert (4, []) == (zsched.json("--dry-run")["counts"]["put_back"], errors)


def test_ctrl_c_stops_recover_between_two_pages_and_the_next_call_continues(
    scene: Scene, zsched: Recover, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.client.schedule_many({"func": "app.task", "id": f"s{n:03}", "after": HOUR_S} for n in range(650))
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
    said = "zsched: stopped; at least 400 are restored so far; run it again to continue"
    assert said in result.stderr
    assert 400 == len(listed(scene.client))
    assert signal.default_int_handler is signal.getsignal(signal.SIGINT)

    monkeypatch.setattr(Merge, "run", run)
    assert {"put_back": 250, "left_as_is": 400} == {
        name: number for name, number in zsched.json()["counts"].items() if number
    }
    assert 650 == len(listed(scene.client))


def test_recover_that_loses_redis_says_how_far(scene: Scene, zsched: Recover, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_all(scene)
    run = Merge.run

    def cut(merge: Merge) -> Iterator[int]:
        for compared in run(merge):
            scene.redis.client_kill_filter(skipme=True, _type="normal")
            yield compared

    monkeypatch.setattr(Merge, "run", cut)

    said = zsched.refusal()

    assert "lost Redis at " in said
    assert "; at least 6 are restored so far; run it again to continue" in said


def test_recover_skips_what_another_archive_has_restored(scene: Scene, zsched: Recover) -> None:
    # given: an archive, and one that knows one schedule less
    populate(scene)
    older = copied(scene, scene.folder / "older.db")
    scene.client.schedule("app.task", id="last", after=HOUR_S)
    scene.follower.step()
    before = listed(scene.client)
    scene.redis.flushall()
    assert 4 == zsched.json("--from", str(older))["counts"]["put_back"]

    result = zsched("--dry-run")

    assert "both have   no entry, but another archive restored a part of this one's data" in result.stdout
    assert "restore 1 schedule, 0 of them overdue" in result.stdout
    assert 1 == zsched.json()["counts"]["put_back"]
    assert before == listed(scene.client)
    assert zsched("--from", str(older)).stdout.startswith("Nothing to do")


def test_recover_only_reads_an_archive_that_a_daemon_writes(scene: Scene, zsched: Recover, redis_url: str) -> None:
    lose_all(scene)
    env = {**os.environ, "ZSCHED_REDIS_URL": redis_url, "ZSCHED_ARCHIVE_PATH": str(scene.archive.path)}
    before = sorted(state_of(scene.archive), key=lambda each: each.key)

    command = [sys.executable, "-m", "zsched.cli", "archive", "recover"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=WITHIN_S, check=True)

    assert ("", True) == (done.stderr, "restored 4 schedules" in done.stdout)
    assert before == sorted(state_of(scene.archive), key=lambda each: each.key)
