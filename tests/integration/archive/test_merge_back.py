"""A Redis that lost data, and an archive that has all of it: everything is restored unchanged."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.builders.leaders import HOUR_MS
from tests.builders.progress import progress_of
from tests.builders.scenes import Scene, assert_state_is_redis_own, rows_put_back, schedule
from tests.integration.archive.merging import (
    HOLD_MS,
    SEEDS,
    assert_is_known,
    due_now,
    lane_states,
    lead,
    lose,
    merge_of,
    put_back,
    run,
    said,
    skips,
    snapshot,
    trim,
    watch,
)
from tests.integration.archive.storms import Storm
from tests.waiting import eventually
from zsched.core.log.puts import MergedEntry
from zsched.core.occurrences.outcomes import What
from zsched.daemon import merge as merge_module
from zsched.storage.records import Scanner


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("page", [2, 200])
def test_a_merge_into_an_empty_redis_restores_the_archives_state(
    scene: Scene, seed: int, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_module, "PAGE", page)
    storm = Storm(scene, seed)
    storm.run(150)
    assert scene.follower.step()
    known, skipped = scene.in_archive(), skips(scene)
    put_back(scene)

    merge = run(scene)

    expected = {
        key: (*row[:4], "uncertain", *row[5:]) if row[0] == "open" else row
        for key, row in known.items()
        if key not in skipped
    }
    assert expected == scene.in_redis()
    assert (None, False) == (merge.common, merge.is_known)
    assert merge.done.total() == len(known) == len(rows_put_back(scene))
    assert {f"{id}-{run}" for (id, run), row in expected.items() if row[0] == "open"} == scene.queued()
    watched = watch(scene)
    watched.go_on()
    assert_state_is_redis_own(scene)
    assert len(known) == len(rows_put_back(scene))
    lead(scene)
    storm.run(30)
    watched.go_on()
    assert_state_is_redis_own(scene)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_merge_continues_a_killed_merge_and_reads_no_restored_schedule_from_redis(
    scene: Scene, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_module, "PAGE", 1)
    schedule(scene, *"fghijk")
    Storm(scene, seed).run(150)
    assert scene.follower.step()
    known, skipped = scene.in_archive(), skips(scene)
    put_back(scene)
    rows_of, killed, is_back = Counter(id for id, _ in known), merge_of(scene).run(), set[str]()
    while len(is_back) < 3:
        next(killed)
        is_back = {id for id, _ in scene.in_redis() if rows_of[id] == 1}
    killed.close()
    really, asked = Scanner.schedules, list[str]()

    def noted(scanner: Scanner, ids: Iterable[str]) -> Any:
        asked.extend(page := list(ids))
        return really(scanner, page)

    monkeypatch.setattr(Scanner, "schedules", noted)
    run(scene)

    assert not is_back & {*asked}
    assert {key: row[:4] for key, row in known.items() if key not in skipped} == {
        key: row[:4] for key, row in scene.in_redis().items()
    }
    assert len(known) == len(rows_put_back(scene))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("trimmed_to", [None, 5])
def test_a_merge_into_an_older_copy_restores_what_it_lost(scene: Scene, seed: int, trimmed_to: int | None) -> None:
    storm = Storm(scene, seed)
    storm.run(80)
    assert scene.follower.step()
    if trimmed_to:
        scene.redis.xtrim(scene.keys.log(), maxlen=trimmed_to, approximate=False)
    old, before = snapshot(scene), scene.in_redis()
    storm.run(80)
    assert scene.follower.step()
    known, skipped = scene.in_archive(), skips(scene)
    put_back(scene, old)
    common = scene.log()[-1].position

    merge = run(scene)

    assert (common, True) == (merge.common, merge.is_known)
    assert_is_known(scene, known, before, skipped)
    watched = watch(scene)
    watched.go_on()
    assert_state_is_redis_own(scene)
    lead(scene)
    storm.run(30)
    watched.go_on()
    assert_state_is_redis_own(scene)


def test_a_merge_logs_restored_rows_and_its_archive(scene: Scene) -> None:
    schedule(scene, "a", "gone", "b")
    schedule(scene, "r", at=None, every=60)
    due_now(scene, "open")
    due_now(scene, "skipped", on_uncertain="skip")
    old = snapshot(scene)
    scene.client.pause("b", "until the sale is over")
    scene.client.cancel("gone")
    assert 2 == scene.tick().runs
    scene.client.run_now("r")
    schedule(scene, "lost")
    lose(scene, old)
    position, before_ms = scene.archive.position, scene.now_ms

    merge = run(scene)

    put_again = [("b", "paused"), ("gone", "gone"), ("r", "due"), ("r", "open"), ("lost", "due")]
    assert sorted(put_again) == sorted(rows_put_back(scene))
    assert What.PUSHED_AGAIN in said(scene, "r")
    assert [What.PUT, What.WITHDRAWN] == said(scene, "gone")
    assert ["due", "due"] == [lane_states(scene)[id] for id in ("open", "skipped")]
    last = scene.log()[-1]
    assert ("merged", merge.merged, [position]) == (last.kind, last.position, MergedEntry(last).positions())
    hold_ms = int(scene.redis.hget(scene.keys.meta(), "hold"))  # type: ignore[arg-type]
    assert before_ms + HOLD_MS <= hold_ms <= scene.now_ms + HOLD_MS


def test_a_second_merge_restores_nothing(scene: Scene) -> None:
    schedule(scene, "a", "b")
    schedule(scene, "r", at=None, every=60)
    due_now(scene, "open")
    scene.tick()
    lose(scene)
    run(scene)
    first = len(rows_put_back(scene))

    again = run(scene)

    assert (4, 4, 0) == (first, len(rows_put_back(scene)), again.done.total())


def test_restored_schedules_can_be_used(scene: Scene) -> None:
    schedule(scene, "a", args=("one",), tags=["x"])
    policies = {"on_lost": "fail", "pause_after_failures": 3}
    schedule(scene, "r", at=None, cron="0 8 * * *", tz="Asia/Tokyo", args=("two",), **policies)
    scene.client.pause("a", "why")
    before = {id: scene.client.get(id) for id in ("a", "r")}
    lose(scene)

    run(scene)

    for id, old in before.items():
        now = scene.client.get(id)
        assert (old.state, old.next_ms, old.note, old.since_ms) == (now.state, now.next_ms, now.note, now.since_ms)
        assert old.to_dict() == now.to_dict() | {
            name: old.to_dict()[name] for name in ("version", "updated_at", "created_at") if name in old.to_dict()
        }
    scene.client.update("r", args=("three",))
    scene.client.resume("a")
    scene.client.cancel("a")
    scene.client.cancel("r")
    assert {} == scene.in_redis()


def test_a_merge_restores_arguments_that_the_history_does_not_keep(scene: Scene) -> None:
    archive = scene.follow("no-args.db", keep_args=False)
    schedule(scene, "a", args=("secret",))
    schedule(scene, "r", at=None, every=60, args=("secret",))
    due_now(scene, "open", args=("secret",))
    scene.tick()
    assert scene.follower.step()
    before = scene.in_redis()
    for _ in range(2):  # also by what the archive read of the first time
        put_back(scene)
        run(scene, archive)
        watch(scene, archive).go_on()

        expected = {key: (*row[:4], "uncertain", *row[5:]) if row[0] == "open" else row for key, row in before.items()}
        assert expected == scene.in_redis() == scene.in_archive()


def test_a_corrupted_score_does_not_stop_a_merge(scene: Scene) -> None:
    schedule(scene, "a")
    scene.redis.zadd(scene.keys.due_low(), {"half": "1.5", "infinite": "inf"})
    scene.redis.hset(scene.keys.paused(), "odd", "never so so")
    scene.redis.xtrim(scene.keys.log(), maxlen=0)
    schedule(scene, "b")
    lose(scene)

    run(scene)

    found = lane_states(scene)
    assert {"a": "due", "b": "due", "half": "quarantine", "infinite": "quarantine", "odd": "quarantine"} == found


@pytest.mark.parametrize("is_rule", [False, True])
def test_an_archive_that_began_late_does_not_push_a_skip_run_twice(scene: Scene, is_rule: bool) -> None:
    when = {"at": None, "every": 3600} if is_rule else {}
    schedule(scene, "a", on_uncertain="skip", **when)
    scene.pass_time(2 * 24 * HOUR_MS)
    scene.tick()
    (run_id,) = scene.queued()
    trim(scene)
    scene.follow("late.db")
    lose(scene)
    lead(scene)

    merge = run(scene)

    assert 1 == merge.done["skipped"]
    assert run_id not in scene.queued()


def test_the_counts_of_a_schedule_survive_a_loss(scene: Scene) -> None:
    scene.client.schedule("app.task", id="r", every=0.02)
    eventually(lambda: scene.tick() and scene.redis.zscore(scene.keys.blocked(), "r"))
    state = progress_of(scene.redis, scene.keys, "r").get("state")
    lose(scene)

    run(scene)

    assert state == progress_of(scene.redis, scene.keys, "r").get("state")
    assert int(str(state).partition("=")[2]) == scene.redis.zscore(scene.keys.blocked(), "r")
