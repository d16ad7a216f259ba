"""An auditor by hand, a schedule in every place, and changes by other writers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.builders.leaders import ALWAYS, HOUR_MS
from tests.builders.scenes import SOON, Scene
from tests.integration.archive.storms import Storm
from tests.prefix import RQ
from tests.states import State
from zsched.core.clock import ManualClock, from_ms
from zsched.core.log import Entry
from zsched.daemon import auditor as module
from zsched.daemon.auditor import Auditor
from zsched.storage.dispatch import FireResult

FUNC = "app.task"


class Auditing:
    """An auditor by hand on *scene*. It also stands in for the archiver that the auditor asks."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.clock = scene, ManualClock()
        self.audit: dict[str, Any] | None = None
        self.begin()

    def begin(self) -> None:
        """Start with a new auditor that has read the clock once."""
        self.auditor = Auditor(self, self.scene.keys, self.clock).over(self.scene.wire)  # type: ignore[arg-type]
        self.auditor.step(self.scene.term)
        assert module._LOOK_MS == self.auditor.every_ms

    @property
    def path(self) -> Path:
        return self.scene.archive.path

    def pass_time(self, ms: int) -> None:
        """Move the clocks of the server and of this machine."""
        self.scene.pass_time(ms)
        self.clock.advance(ms)

    def steps(self, between: Callable[[], None] = lambda: None) -> None:
        """Run one whole pass."""
        self.audit, self.auditor._next_ms = None, 0.0
        for _ in range(100):
            between()
            assert not self.auditor.step(self.scene.term)
            if self.auditor.every_ms != module._PAUSE_MS:
                return
        raise AssertionError("a pass without an end")

    def look(self) -> list[dict[str, Any]]:
        """Let it look for new schedules in quarantine, when the archive has the whole log; return the alarms."""
        assert self.scene.follower.step()
        self.auditor._next_ms = math.inf
        with capture_logs() as told:
            while not self.auditor.step(self.scene.term) and self.auditor.every_ms == module._PAUSE_MS:
                pass
        return alarms(told)

    def run(self) -> list[dict[str, Any]]:
        """Run a pass of an archive that has the whole log; return the alarms."""
        assert self.scene.follower.step()
        with capture_logs() as told:
            self.steps()
        assert self.audit is not None
        return alarms(told)


def alarms(told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(each) for each in told if each["log_level"] == "error"]


def schedules(state: State) -> dict[str, Any]:
    """
    Return the schedules without runs. A quarantined schedule is compared only by place and reason: its content, or its
    time, may be broken.
    """
    return {
        id: value[:-3] if value[0] == "quarantine" else (run, *value)
        for (id, run), value in state.items()
        if value[0] != "open"
    }


def is_due_as_its_run(value: tuple[Any, ...]) -> bool:
    run, _place, due_ms, *_ = value
    return not run or run.partition("-")[0] == str(due_ms)


def fill(scene: Scene) -> None:
    """Put a schedule of every kind into every place."""
    client = scene.client
    client.schedule(FUNC, id="a", at=SOON)
    client.schedule(FUNC, id="b", at=SOON, priority="high", args=(1,))
    client.schedule(FUNC, id="r", cron="0 9 * * *", tz="Europe/Berlin", args=(2,))
    client.schedule(FUNC, id="paused", at=SOON)
    client.pause("paused", "for now")
    client.schedule(FUNC, id="paused_rule", every=60)
    client.pause("paused_rule")
    quarantine(scene, "bad")
    client.schedule(FUNC, id="ended", every=0.001, count=1)
    scene.pass_time(10)
    scene.tick()
    assert {"due", "paused", "quarantine", "ended"} == {place for place, *_ in scene.in_redis().values()} - {"open"}


def quarantine(scene: Scene, id: str, reason: str = "cannot be planned") -> None:
    """Quarantine a rule, which is as the log has it."""
    scene.client.schedule(FUNC, id=id, every=3600, starts=from_ms(scene.now_ms + 1000))
    scene.pass_time(1001)
    fired = scene.dispatch.fire(scene.term, ALWAYS, 100)
    assert isinstance(fired, FireResult)
    [due] = [one for one in fired.recurring if one.id == id.encode()]
    assert 1 == scene.dispatch.quarantine(scene.term, [(due, reason.encode())])


def entries(scene: Scene) -> list[Entry]:
    return [entry for entry in scene.log() if entry.kind == "restore"]


def job_of(scene: Scene, id: str) -> str:
    [run] = [key.decode() for key in scene.redis.keys(f"{RQ}:job:{id}-*")]
    return run


def lane(scene: Scene, name: str = "normal") -> str:
    return f"{scene.keys.prefix}due:{name}"


MISSING, DIFFERENT, MANY = "schedule_missing", "schedule_different", "schedule_in_many_places"
HANDS: dict[str, tuple[str, str, Callable[[Scene], Any]]] = {
    "takes it out of its lane": ("a", MISSING, lambda s: s.redis.zrem(lane(s), "a")),
    "takes a rule out of its lane": ("r", DIFFERENT, lambda s: s.redis.zrem(lane(s), "r")),
    "deletes its job": ("a", DIFFERENT, lambda s: s.redis.delete(job_of(s, "a"))),
    "deletes its lane": ("b", MISSING, lambda s: s.redis.delete(lane(s, "high"))),
    "moves it in time": ("a", DIFFERENT, lambda s: s.redis.zincrby(lane(s), HOUR_MS, "a")),
    "moves a rule in time": ("r", DIFFERENT, lambda s: s.redis.zincrby(lane(s), HOUR_MS, "r")),
    "skips an occurrence": ("r", DIFFERENT, lambda s: s.redis.hincrby(s.keys.schedule("r"), "nominal", 24 * HOUR_MS)),
    "adds it to a later lane": ("b", MANY, lambda s: s.redis.zadd(lane(s, "low"), {"b": 5})),
    "adds it to an earlier lane": ("a", MANY, lambda s: s.redis.zadd(lane(s, "high"), {"a": 5})),
    "adds it to all lanes": ("a", MANY, lambda s: [s.redis.zadd(lane(s, name), {"a": 5}) for name in ("high", "low")]),
    "adds what is paused to a lane": ("paused", MANY, lambda s: s.redis.zadd(lane(s), {"paused": 5})),
    "pauses what waits": ("r", MANY, lambda s: s.redis.hset(s.keys.paused(), "r", "normal 5 5 by hand")),
    "quarantines what waits": ("a", MANY, lambda s: s.redis.hset(s.keys.quarantine(), "a", "normal 5 5 by hand")),
    "lets go what is paused": ("paused", MISSING, lambda s: s.redis.hdel(s.keys.paused(), "paused")),
    "lets go a paused rule": ("paused_rule", DIFFERENT, lambda s: s.redis.hdel(s.keys.paused(), "paused_rule")),
    "deletes a rule": ("r", DIFFERENT, lambda s: s.redis.delete(s.keys.schedule("r"))),
    "deletes a template": ("r", DIFFERENT, lambda s: s.redis.delete(s.keys.template("r"))),
    "changes a rule": ("r", DIFFERENT, lambda s: s.redis.hset(s.keys.schedule("r"), "trigger", "never")),
    "says that it does not recur": ("r", DIFFERENT, lambda s: s.redis.srem(s.keys.recurring(), "r")),
    "says that it recurs": ("a", DIFFERENT, lambda s: s.redis.sadd(s.keys.recurring(), "a")),
    "forgets what has ended": ("ended", MISSING, lambda s: s.redis.srem(s.keys.recurring(), "ended")),
    "lets what has ended wait": ("ended", DIFFERENT, lambda s: s.redis.zadd(lane(s), {"ended": 5})),
}


class Quiet(Storm):
    """A storm in which no other writer but RQ changes anything."""

    def lose_hash(self) -> None:
        self.wait()

    def break_rule(self) -> None:
        self.tick()


def busy(auditing: Auditing, storm: Storm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the storm make changes also between two questions of the auditor."""

    def between(owner: object, name: str) -> None:
        does = getattr(owner, name)

        def done(*arguments: Any, **options: Any) -> Any:
            if storm.random.random() < 0.2:
                storm.step()
            return does(*arguments, **options)

        monkeypatch.setattr(owner, name, done)

    between(auditing.auditor._scanner, "places")
    between(auditing.auditor._log, "read")
    between(auditing.auditor._scanner, "schedules")
