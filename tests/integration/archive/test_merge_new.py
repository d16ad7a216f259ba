"""Changes after a loss are kept, whenever they come between the steps of a merge; Redis loses its data again."""

from typing import Any

import pytest

from tests.breadth import some
from tests.builders.scenes import Scene, assert_state_is_redis_own, rows_put_back, schedule
from tests.integration.archive.merging import (
    due_now,
    lane_states,
    lead,
    lose,
    merge_of,
    once,
    put_back,
    run,
    said,
    snapshot,
    trim,
    watch,
)
from tests.integration.archive.storms import Storm
from tests.prefix import RQ
from zsched.archive import Archive
from zsched.core.occurrences.outcomes import What
from zsched.daemon import merge as merge_module
from zsched.daemon.reconciler import HistoryChanged
from zsched.storage import restoring
from zsched.storage.restoring import Restoring, Written


def test_a_merge_keeps_changes_made_after_the_loss(scene: Scene) -> None:
    schedule(scene, "paused", "cancelled", "put", "fired", "alone")
    old = snapshot(scene)
    for id in ("paused", "cancelled", "put", "fired", "alone"):
        scene.client.update(id, args=("lost",))
    lose(scene, old)
    scene.client.pause("paused", "since then")
    scene.client.cancel("cancelled")
    schedule(scene, "put", args=("since then",))
    scene.client.run_now("fired")

    run(scene)

    assert [("alone", "due")] == rows_put_back(scene)
    assert {"paused": "paused", "put": "due", "fired": "open", "alone": "due"} == lane_states(scene)
    watch(scene).go_on()
    assert_state_is_redis_own(scene)


@pytest.mark.parametrize("rows", [1, 200])
def test_a_merge_keeps_a_put_between_two_restores(scene: Scene, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "ROWS", rows)
    schedule(scene, "a", "b", "c")
    lose(scene)
    once(monkeypatch, Restoring, "restore", lambda: schedule(scene, "b", args=("since then",)))

    merge = run(scene)

    assert [("a", "due"), ("c", "due")] == rows_put_back(scene)
    assert merge.done.total() == 2
    watch(scene).go_on()
    assert_state_is_redis_own(scene)
    assert [What.PUT] == said(scene, "b")


def test_a_put_after_the_last_page_of_a_merge_is_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule(scene, "a")
    lose(scene)
    once(monkeypatch, Restoring, "merged", lambda: schedule(scene, "b"))

    merge = run(scene)

    assert ["restore", "put", "merged"] == [one.kind for one in scene.log()]
    assert scene.log()[-1].position == merge.merged


@pytest.mark.parametrize("what", ["pause", "cancel", "update", "run_now"])
def test_a_change_while_a_run_is_restored_is_seen(scene: Scene, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    due_now(scene, "a")
    old = snapshot(scene)
    scene.tick()
    schedule(scene, "a")
    lose(scene, old)
    once(monkeypatch, Restoring, "restore", lambda: getattr(scene.client, what)("a", **_arguments(what)))

    run(scene)

    places = sorted(place for place, *_ in scene.in_redis().values())
    assert {"pause": ["paused"], "cancel": [], "update": ["due"], "run_now": ["open"]}[what] == places
    assert "refused" not in {place for _, place in rows_put_back(scene)}
    watch(scene).go_on()
    assert_state_is_redis_own(scene)


def _arguments(what: str) -> dict[str, Any]:
    return {"args": ("since then",)} if what == "update" else {}


@pytest.mark.parametrize("seed", some(range(6), 0, 1))
def test_random_operations_between_pages_are_noticed(scene: Scene, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "PAGE", 1)
    storm = Storm(scene, seed)
    storm.run(60)
    old = snapshot(scene)
    storm.run(60)
    lose(scene, old if seed % 2 else None)
    lead(scene)
    really = Restoring.restore

    def restore(self: Restoring, *arguments: Any, **more: Any) -> Written | None:
        storm.run(storm.random.choice([0, 0, 1, 3]))
        scene.redis.hset(scene.keys.meta(), "hold", 0)
        done = really(self, *arguments, **more)
        scene.redis.hset(scene.keys.meta(), "hold", 0)
        return done

    monkeypatch.setattr(Restoring, "restore", restore)

    merge = run(scene)

    assert merge.merged == scene.log()[-1].position
    assert "refused" not in {place for _, place in rows_put_back(scene)}
    watched = watch(scene)
    watched.go_on()
    assert_state_is_redis_own(scene)
    pushed = [run.decode() for run in scene.redis.lrange(f"{RQ}:queue:default", 0, -1)]
    assert sorted(set(pushed)) == sorted(pushed)


def test_a_flush_during_a_merge_raises_history_changed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "PAGE", 1)
    schedule(scene, "a", "b", "c")
    lose(scene)
    merge = merge_of(scene)
    pages = merge.run()
    next(pages)
    put_back(scene)

    with pytest.raises(HistoryChanged):
        list(pages)

    run(scene)
    assert {"a", "b", "c"} == lane_states(scene).keys()


def test_a_merge_keeps_a_schedule_that_a_client_put_during_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule(scene, "a", "b", "c")
    lose(scene)
    schedule(scene, "new")
    merge = merge_of(scene)
    merge.reconciler._size = 1  # so c is put back by a later script than a
    once(monkeypatch, Restoring, "restore", lambda: schedule(scene, "c", priority="high"))

    list(merge.run())

    assert {"a", "b", "c", "new"} == lane_states(scene).keys()
    assert "c" in {member.decode() for member in scene.redis.zrange(scene.keys.due_high(), 0, -1)}


def test_an_empty_redis_is_asked_for_the_first_page_only(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "PAGE", 2)
    schedule(scene, *"abcdefg")
    assert scene.follower.step()
    known = scene.in_archive()
    put_back(scene)
    merge, asked = merge_of(scene), list[list[str]]()
    really = merge.reconciler.compare
    monkeypatch.setattr(
        merge.reconciler, "compare", lambda page: (asked.append([one.id for one in page]), really(page))[1]
    )

    list(merge.run())

    assert [["a", "b"]] == asked
    assert known == scene.in_redis()


@pytest.mark.parametrize("when", [1, 2])
def test_a_client_keeps_a_schedule_of_a_later_page(scene: Scene, when: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "PAGE", 2)
    schedule(scene, *"abcdefg")
    lose(scene)
    merge, restores = merge_of(scene), 0
    really = Restoring.restore

    def restore(self: Restoring, *arguments: Any, **more: Any) -> Written | None:
        nonlocal restores
        restores += 1
        if restores == when:  # the page of e is guessed during the second restore
            schedule(scene, "e", priority="high")
        return really(self, *arguments, **more)

    monkeypatch.setattr(Restoring, "restore", restore)

    list(merge.run())

    assert set("abcdefg") == lane_states(scene).keys()
    assert [b"e"] == scene.redis.zrange(scene.keys.due_high(), 0, -1)


@pytest.mark.parametrize("lost_in", ["merge", "bootstrap", "bootstrap's end"])
@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_second_flush_during_recovery_loses_nothing(
    scene: Scene, lost_in: str, is_trimmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule(scene, "a", "b")
    due_now(scene, "open")
    scene.tick()
    lose(scene)
    watched = watch(scene)
    with monkeypatch.context() as patch:
        if lost_in == "merge":
            once(patch, Restoring, "merged", lambda: put_back(scene))
        elif lost_in == "bootstrap":
            once(patch, Archive, "begin_bootstrap", lambda: put_back(scene))
        else:
            once(patch, Archive, "end_bootstrap", lambda: put_back(scene))
        if is_trimmed:
            once(patch, Archive, "begin_bootstrap", lambda: trim(scene))

        watched.go_on()

    watched.go_on()
    assert {"a": "due", "b": "due", "open": "open"} == lane_states(scene)
    assert_state_is_redis_own(scene)


def test_a_merge_lost_again_is_repeated_from_the_common_history(scene: Scene) -> None:
    schedule(scene, "a")
    old = snapshot(scene)
    schedule(scene, "b")
    scene.client.cancel("a")
    lose(scene, old)
    schedule(scene, "c")
    newer = snapshot(scene)
    watch(scene).go_on()
    scene.client.pause("b")
    schedule(scene, "d")
    assert scene.follower.step()

    for saved in (newer, old, None):
        put_back(scene, saved)
        watch(scene).go_on()

        assert {"b": "paused", "c": "due", "d": "due"} == lane_states(scene)
        assert_state_is_redis_own(scene)
