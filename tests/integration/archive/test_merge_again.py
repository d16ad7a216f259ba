"""Redis loses its data again while an archive merges, or afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.archive.ground import Scene, assert_state_is_redis_own, schedule
from tests.integration.archive.merging import due_now, lane_states, merge_of, once, put_back, run, snapshot, trim, watch
from zsched.archive import Archive
from zsched.daemon import merge as merge_module
from zsched.daemon.reconciler import HistoryChanged
from zsched.storage.restoring import Restoring, Written


def test_a_flush_during_a_merge_raises_history_changed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "_PAGE", 1)
    schedule(scene, "a", "b", "c")
    assert scene.follower.step()
    put_back(scene)
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
    assert scene.follower.step()
    put_back(scene)
    schedule(scene, "new")
    merge = merge_of(scene)
    merge.reconciler._size = 1  # so c is put back by a later script than a
    once(monkeypatch, Restoring, "restore", lambda: schedule(scene, "c", priority="high"))

    list(merge.run())

    assert {"a", "b", "c", "new"} == lane_states(scene).keys()
    assert "c" in {member.decode() for member in scene.redis.zrange(scene.keys.due_high(), 0, -1)}


def test_an_empty_redis_is_asked_for_the_first_page_only(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "_PAGE", 2)
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
def test_a_client_that_puts_a_schedule_of_a_later_page_keeps_it(
    scene: Scene, when: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_module, "_PAGE", 2)
    schedule(scene, *"abcdefg")
    assert scene.follower.step()
    put_back(scene)
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
    assert scene.follower.step()
    put_back(scene)
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
    assert scene.follower.step()
    put_back(scene, old)
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
