"""An archive that read the log has the state of Redis, whatever operations were done in whatever order."""

from __future__ import annotations

import pytest

from tests.breadth import some
from tests.faults.archives import history
from tests.integration.archive.ground import Scene, Storm, assert_state_is_redis_own
from zsched.archive import START
from zsched.storage import scanner

STEPS = 250
SEEDS = some(range(4), 0, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_following_archive_has_the_state_of_redis(scene: Scene, seed: int) -> None:
    storm = Storm(scene, seed)

    for _ in range(STEPS):
        storm.step()
        if storm.random.random() < 0.2:
            assert scene.follower.step()
            assert_state_is_redis_own(scene)
        if storm.random.random() < 0.02:
            scene.reopen()

    assert scene.follower.step()
    assert_state_is_redis_own(scene)
    assert scene.log() == history(scene.archive.path)
    assert (START, 0) == (scene.archive.complete_since, scene.archive.unknown_entries)
    assert len(scene.queued()) > 10
    assert scene.queued() == {f"{row.id}-{row.run}" for row, _ in scene.archive.state() if row.place == "open"}


@pytest.mark.parametrize("seed", SEEDS)
def test_an_archive_started_with_a_trimmed_log_has_the_state_of_redis(scene: Scene, seed: int) -> None:
    storm = Storm(scene, seed)
    for _ in range(STEPS):
        storm.step()
    scene.redis.xtrim(scene.keys.log(), maxlen=20, approximate=False)
    scene.follow("late.db")

    assert scene.follower.step()

    assert_state_is_redis_own(scene)
    assert scene.log() == history(scene.archive.path)
    assert str(scene.log()[0].position.t_us) == scene.archive.complete_since
    for _ in range(STEPS):
        storm.step()
        if storm.random.random() < 0.1:
            assert scene.follower.step()
            assert_state_is_redis_own(scene)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_archive_left_behind_by_trimming_gets_the_state_of_redis(scene: Scene, seed: int) -> None:
    storm = Storm(scene, seed)
    for _ in range(50):
        storm.step()
    assert scene.follower.step()
    for _ in range(STEPS):
        storm.step()
    scene.redis.xtrim(scene.keys.log(), maxlen=10, approximate=False)

    assert scene.follower.step()

    assert_state_is_redis_own(scene)
    assert scene.log() == history(scene.archive.path)[-10:]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bootstrap_during_changes_ends_with_the_state_of_redis(
    scene: Scene, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "_PAGE", 1)
    storm = Storm(scene, seed)
    for _ in range(STEPS):
        storm.step()
    scene.redis.xtrim(scene.keys.log(), maxlen=20, approximate=False)
    archive = scene.follow("late.db")
    take_in = archive.scan

    def scan(*arguments: object) -> None:
        take_in(*arguments)  # type: ignore[arg-type]  # as given
        for _ in range(storm.random.randint(0, 6)):
            storm.step()

    archive.scan = scan  # type: ignore[method-assign]  # things happen between pages

    assert scene.follower.step()

    assert_state_is_redis_own(scene)
    assert scene.log() == history(scene.archive.path)
