"""An auditor by hand, a schedule in every place, and changes by other writers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.builders.leaders import ALWAYS, HOUR_MS
from tests.builders.progress import change_progress
from tests.builders.scenes import SOON, Scene
from tests.integration.archive.storms import Storm
from tests.prefix import RQ
from tests.states import State
from zsched.archive.recall import recalling_beside
from zsched.core.clock import from_ms
from zsched.core.entry import Entry
from zsched.core.recovery.audit import Alarm
from zsched.daemon import auditor as module
from zsched.daemon.auditor import Auditor, Inspection
from zsched.storage.dispatch import FireResult
from zsched.storage.log import Log
from zsched.storage.records import Scanner

FUNC = "app.task"


class Auditing:
    """An auditor by hand on *scene*. It also stands in for the archiver that the auditor asks."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.audit: dict[str, Any] | None = None
        self.begin()

    def begin(self) -> None:
        """Start with a new auditor in a new term."""
        self.auditor = Auditor(self, self.scene.keys).over(self.scene.wire)  # type: ignore[arg-type]
        self.auditor.step(self.scene.term)

    @property
    def path(self) -> Path:
        return self.scene.archive.path

    def step(self) -> None:
        """Make a pass; ``audit`` is its result, None if nothing could be concluded."""
        self.audit = None
        assert not self.auditor.step(self.scene.term)
        assert (module._AGAIN_MS if self.audit is None else module._EVERY_MS) == self.auditor.every_ms

    def run(self) -> list[dict[str, Any]]:
        """Run a pass of an archive that has the whole log; return the alarms."""
        assert self.scene.follower.step()
        with capture_logs() as told:
            self.step()
        assert self.audit is not None
        return alarms(told)


def alarms(told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(each) for each in told if each["log_level"] == "error"]


def faults(told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the alarms without those of late schedules: a storm fires late."""
    return [alarm for alarm in alarms(told) if alarm["event"] != "occurrence_overdue"]


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
    "takes a rule out of its lane": ("r", MISSING, lambda s: s.redis.zrem(lane(s), "r")),
    "deletes its job": ("a", MISSING, lambda s: s.redis.delete(job_of(s, "a"))),
    "deletes its lane": ("b", MISSING, lambda s: s.redis.delete(lane(s, "high"))),
    "moves it in time": ("a", DIFFERENT, lambda s: s.redis.zincrby(lane(s), HOUR_MS, "a")),
    "moves a rule in time": ("r", DIFFERENT, lambda s: s.redis.zincrby(lane(s), HOUR_MS, "r")),
    "skips an occurrence": ("r", DIFFERENT, lambda s: change_progress(s.redis, s.keys, "r", nominal=5)),
    "adds it to a later lane": ("b", MANY, lambda s: s.redis.zadd(lane(s, "low"), {"b": 5})),
    "adds it to an earlier lane": ("a", MANY, lambda s: s.redis.zadd(lane(s, "high"), {"a": 5})),
    "adds it to all lanes": ("a", MANY, lambda s: [s.redis.zadd(lane(s, name), {"a": 5}) for name in ("high", "low")]),
    "adds what is paused to a lane": ("paused", MANY, lambda s: s.redis.zadd(lane(s), {"paused": 5})),
    "pauses what waits": ("r", MANY, lambda s: s.redis.hset(s.keys.paused(), "r", "normal 5 5 by hand")),
    "quarantines what waits": ("a", MANY, lambda s: s.redis.hset(s.keys.quarantine(), "a", "normal 5 5 by hand")),
    "lets go what is paused": ("paused", MISSING, lambda s: s.redis.hdel(s.keys.paused(), "paused")),
    "lets go a paused rule": ("paused_rule", MISSING, lambda s: s.redis.hdel(s.keys.paused(), "paused_rule")),
    "deletes a rule": ("r", MISSING, lambda s: s.redis.delete(s.keys.schedule("r"))),
    "deletes a template": ("r", MISSING, lambda s: s.redis.delete(s.keys.template("r"))),
    "changes a rule": ("r", DIFFERENT, lambda s: s.redis.hset(s.keys.schedule("r"), "trigger", "never")),
    "says that it does not recur": ("r", DIFFERENT, lambda s: s.redis.srem(s.keys.recurring(), "r")),
    "says that it recurs": ("a", DIFFERENT, lambda s: s.redis.sadd(s.keys.recurring(), "a")),
    "forgets what has ended": ("ended", MISSING, lambda s: s.redis.srem(s.keys.recurring(), "ended")),
    "lets what has ended wait": ("ended", DIFFERENT, lambda s: s.redis.zadd(lane(s), {"ended": 5})),
}

AUDITED = [
    "quarantines what waits",
    *(hand for hand, (id, event, _) in HANDS.items() if event == MISSING and id != "ended"),
]


class Quiet(Storm):
    """A storm in which no other writer but RQ changes anything."""

    def lose_hash(self) -> None:
        self.wait()

    def break_rule(self) -> None:
        self.tick()


def inspected(scene: Scene) -> dict[str, Alarm]:
    """Compare all schedules with an archive that has the whole log; return the alarms by id."""
    assert scene.follower.step()
    with recalling_beside(scene.archive.path) as (recall, position):
        assert position is not None
        inspection = Inspection(scene.wire, scene.keys, recall, position)
        inspection.compare(list(recall.known_all()))
        inspection.compare(list(recall.known(recall.absent(list(Scanner(scene.wire, scene.keys).ids())))))
        return inspection.alarms


def busy(storm: Storm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the storm make changes also between two questions of the auditor."""
    is_in_storm = False

    def between(owner: type, name: str) -> None:
        does = getattr(owner, name)

        def done(*arguments: Any, **options: Any) -> Any:
            nonlocal is_in_storm
            if not is_in_storm and storm.random.random() < 0.2:
                is_in_storm = True
                storm.step()
                is_in_storm = False
            return does(*arguments, **options)

        monkeypatch.setattr(owner, name, done)

    between(Scanner, "missing")
    between(Scanner, "schedules")
    between(Log, "read")
