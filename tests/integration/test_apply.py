"""A file applied to a real Redis: what it creates, changes, leaves alone and removes; and written back."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
import redis
from rq import Callback, Retry

from tests.integration.client.ground import KEYS, pass_time
from zsched.client import Client
from zsched.client.keeper import Keeper
from zsched.core.model import Priority, Scheduled
from zsched.core.options import SCHEDULE_OPTIONS
from zsched.errors import InvalidFile, InvalidSchedule, RedisUnavailable
from zsched.files import Application, Applied, ClientChecks, ScheduleFile, Step, read, write
from zsched.files.difference import changes
from zsched.files.options import REFUSED

DIGEST = '[schedules.digest]\nfunc = "app.tasks.digest"\ncron = "0 9 * * *"\n'
BEAT = '[schedules.beat]\nfunc = "app.tasks.beat"\nevery = "30s"\n'


class Ground:
    """Applies texts as the file ``jobs.toml``."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def read(self, text: str) -> ScheduleFile:
        return read("jobs.toml", text.encode(), ClientChecks(self.client))

    def application(self, text: str, *, takes_over: bool = False) -> Application:
        return Application(self.client, self.read(text), takes_over=takes_over)

    def compare(self, text: str) -> list[Step]:
        return self.application(text).compare()

    def apply(self, text: str, *, prune: bool = False, takes_over: bool = False) -> Applied:
        application = self.application(text, takes_over=takes_over)
        steps, stale = application.compare(), application.stale()
        return application.run(steps, stale if prune else [], lambda done: None)

    def ids(self) -> list[str]:
        return sorted(one.id for one in self.client.list())


@pytest.fixture(params=["pickle", "json"])
def ground(request: pytest.FixtureRequest, redis_client: redis.Redis) -> Ground:
    return Ground(Client(redis_client, serializer=request.param))


def outcomes(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.entry.id, step.outcome) for step in steps]


def texts(step: Step) -> list[str]:
    return [change.text() for change in step.changes]


def log_length(redis_client: redis.Redis) -> int:
    return int(redis_client.xlen(KEYS.log()))


# -- created, updated, unchanged ------------------------------------------------------------------------


def test_a_file_creates_its_schedules_and_owns_them(ground: Ground) -> None:
    applied = ground.apply(DIGEST + BEAT)

    assert [("digest", "created"), ("beat", "created")] == outcomes(applied.steps)
    assert ["file:jobs.toml", "file:jobs.toml"] == [one.managed_by for one in ground.client.list()]


def test_the_same_file_again_changes_nothing_and_writes_nothing(ground: Ground, redis_client: redis.Redis) -> None:
    ground.apply(DIGEST + BEAT)
    before = log_length(redis_client)

    applied = ground.apply(BEAT + DIGEST)

    assert [("beat", "unchanged"), ("digest", "unchanged")] == outcomes(applied.steps)
    assert before == log_length(redis_client)


def test_what_differs_is_told_and_put(ground: Ground) -> None:
    ground.apply(DIGEST + "args = [1]\nkwargs = { to = 'all', n = 1 }\ntags = ['old']\nexpires_after = '1h'")
    text = DIGEST.replace("0 9", "0 10") + "args = [2]\nkwargs = { n = 1, to = 'all' }\nqueue = 'email'\ntimeout = '5m'"

    (step,) = ground.apply(text).steps

    assert [
        "cron: 0 9 * * * → 0 10 * * *",
        "args: [1] → [2]",
        "queue: default → email",
        "timeout: 3m → 5m",
        'tags: ["old"] → -',
        "expires_after: 1h → -",
    ] == texts(step)
    assert [("digest", "unchanged")] == outcomes(ground.compare(text))


def test_a_payload_that_is_equal_is_the_same_however_it_was_pickled(ground: Ground) -> None:
    word = "weekly, and long enough to be worth remembering"
    ground.client.schedule(
        "app.tasks.digest", id="digest", cron="0 9 * * *", managed_by="file:jobs.toml",
        args=(word, word), kwargs={"b": word, "a": 1}, meta={"x": word, "y": [word]},
    )  # fmt: skip

    steps = ground.compare(
        DIGEST
        + f'args = ["{word}", "{word}"]\nkwargs = {{ a = 1, b = "{word}" }}\n'
        + f'meta = {{ x = "{word}", y = ["{word}"] }}'
    )

    assert [("digest", "unchanged")] == outcomes(steps)


def test_the_same_instant_is_no_difference_in_another_zone(ground: Ground) -> None:
    ground.apply(BEAT + "starts = 2030-01-01T00:00:00Z")

    (step,) = ground.compare(BEAT + "starts = 2030-01-01T09:00:00\ntz = 'Asia/Seoul'")

    assert ["tz: UTC → Asia/Seoul"] == texts(step)


def test_one_and_true_are_different_arguments(ground: Ground) -> None:
    ground.apply(DIGEST + "args = [1]")

    (step,) = ground.compare(DIGEST + "args = [true]")

    assert ["args: [1] → [true]"] == texts(step)


def test_a_quarantined_schedule_comes_back(ground: Ground, redis_client: redis.Redis) -> None:
    ground.apply(BEAT)
    redis_client.zrem(KEYS.due(Priority.NORMAL), "beat")
    redis_client.hset(KEYS.quarantine(), "beat", "normal 1 1 broken")

    dry, real = ground.compare(BEAT), ground.apply(BEAT).steps

    assert [("beat", "updated")] == outcomes(dry) == outcomes(real)
    assert "active" == ground.client.get("beat").state.value


@pytest.mark.parametrize("ground", ["pickle"], indirect=True)
def test_a_payload_that_cannot_be_read_is_replaced(ground: Ground, redis_client: redis.Redis) -> None:
    ground.apply(BEAT + "args = [1]")
    redis_client.hset(KEYS.template("beat"), "data", b"cnowhere.at_all\nThing\n.")
    redis_client.hset(KEYS.schedule("beat"), "digest", "another")

    (step,) = ground.apply(BEAT + "args = [1]").steps

    assert ("updated", "[1]") == (step.outcome, step.changes[0].new)
    assert "the stored payload cannot be read" in str(step.changes[0].old)
    assert [("beat", "unchanged")] == outcomes(ground.compare(BEAT + "args = [1]"))


def test_arguments_of_a_class_that_is_not_opened_are_the_same_if_their_bytes_are(redis_client: redis.Redis) -> None:
    keeper = Keeper(Client(redis_client))
    red, other = ({"every": 60, "id": "beat", "args": [value]} for value in (Fraction(1, 3), Fraction(1, 2)))
    definition, _ = keeper.wanted(keeper.define("app.beat", red), None)
    keeper.put(definition, None)

    (held,) = keeper.held(["beat"])
    _, same = keeper.wanted(keeper.define("app.beat", red), held)
    _, changed = keeper.wanted(keeper.define("app.beat", other), held)

    assert "fractions.Fraction" in held.unreadable
    assert (True, False) == (keeper.is_unchanged(held, same), keeper.is_unchanged(held, changed))
    assert ([], ["args"]) == ([c.option for c in changes(held, same)], [c.option for c in changes(held, changed)])


def test_a_schedule_whose_end_has_passed_stays_but_cannot_be_changed(ground: Ground, redis_client: redis.Redis) -> None:
    end = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    ground.apply(BEAT + f"ends = {end}")
    pass_time(redis_client, timedelta(hours=2))

    unchanged = ground.compare(BEAT + f"ends = {end}")
    with pytest.raises(InvalidFile) as caught:
        ground.compare(BEAT + f"ends = {end}\nqueue = 'email'")

    assert [("beat", "unchanged")] == outcomes(unchanged)
    assert caught.value.complaints[0].startswith("jobs.toml:1: [schedules.beat]: ends=")


# -- paused ---------------------------------------------------------------------------------------------


def test_paused_is_left_as_it_is_unless_the_file_says_so(ground: Ground) -> None:
    ground.apply(BEAT)
    ground.client.pause("beat")

    applied = ground.apply(BEAT + "queue = 'email'")

    assert [("beat", "updated")] == outcomes(applied.steps)
    assert "paused" == ground.client.get("beat").state.value


def test_a_file_pauses_and_resumes(ground: Ground) -> None:
    (created,) = ground.apply(BEAT + "paused = true").steps
    paused = ground.client.get("beat")
    again = ground.apply(BEAT + "paused = true").steps
    (resumed,) = ground.apply(BEAT + "paused = false").steps

    assert ("paused", "paused in jobs.toml") == (paused.state.value, paused.note)
    assert ("created", [("beat", "unchanged")]) == (created.outcome, outcomes(again))
    assert ("updated", ["paused: true → false"]) == (resumed.outcome, texts(resumed))
    assert "active" == ground.client.get("beat").state.value


def test_an_update_and_a_pause_are_one_step(ground: Ground) -> None:
    ground.apply(BEAT)

    (step,) = ground.apply(BEAT + "paused = true\nqueue = 'email'").steps

    schedule = ground.client.get("beat")
    assert ["queue: default → email", "paused: false → true"] == texts(step)
    assert ("paused", "email") == (schedule.state.value, schedule.queue)


def test_a_schedule_that_has_ended_is_changed_but_not_paused(ground: Ground, redis_client: redis.Redis) -> None:
    ground.apply(BEAT + "count = 1")
    redis_client.zrem(KEYS.due(Priority.NORMAL), "beat")
    redis_client.hdel(KEYS.schedule("beat"), "nominal")

    applied = ground.apply(BEAT + "count = 1\nqueue = 'email'\npaused = true")

    schedule = ground.client.get("beat")
    assert ([], [("beat", "updated")]) == (applied.errors, outcomes(applied.steps))
    assert ("ended", "email") == (schedule.state.value, schedule.queue)


# -- owners ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("owner", "told"), [("terraform", "'terraform'"), (None, "nobody")])
def test_what_somebody_else_owns_stops_the_whole_file(
    ground: Ground, redis_client: redis.Redis, owner: str | None, told: str
) -> None:
    ground.client.schedule("app.tasks.digest", id="digest", every=60, managed_by=owner)
    before = log_length(redis_client)

    with pytest.raises(InvalidFile) as caught:
        ground.apply(BEAT + DIGEST)

    problem = f"it exists and is managed by {told}, not by 'file:jobs.toml'; --take-over makes it this file's"
    assert (f"jobs.toml:4: [schedules.digest]: id='digest': {problem}, or give another id",) == caught.value.complaints
    assert before == log_length(redis_client)


def test_it_is_taken_over_when_asked(ground: Ground) -> None:
    ground.client.schedule("app.tasks.digest", id="digest", cron="0 9 * * *", managed_by="terraform")

    (step,) = ground.apply(DIGEST, takes_over=True).steps

    assert ("updated", ["managed_by: terraform → file:jobs.toml"]) == (step.outcome, texts(step))


def test_a_one_shot_is_never_replaced(ground: Ground) -> None:
    ground.client.schedule("app.tasks.digest", id="digest", after=3600, managed_by="file:jobs.toml")

    with pytest.raises(InvalidFile, match="a one-shot of this id exists; cancel that one first"):
        ground.apply(DIGEST, takes_over=True)

    assert "once" == ground.client.get("digest").kind


def test_a_namespace_of_another_serializer_is_refused_before_a_payload_is_opened(redis_client: redis.Redis) -> None:
    Ground(Client(redis_client, serializer="json")).apply(BEAT)

    with pytest.raises(InvalidSchedule, match="uses json"):
        Ground(Client(redis_client, serializer="pickle")).apply(BEAT)


# -- removed --------------------------------------------------------------------------------------------


def test_pruning_removes_what_the_file_owned_once_and_nothing_else(ground: Ground) -> None:
    ground.apply(BEAT + DIGEST)
    ground.client.schedule("app.other", id="nobodys", every=60)
    ground.client.schedule("app.other", id="others", every=60, managed_by="terraform")
    ground.client.schedule("app.other", id="one-shot", after=3600, managed_by="file:jobs.toml")
    ground.client.pause("beat")

    kept, removed = ground.apply(DIGEST), ground.apply(DIGEST, prune=True)

    assert ([], ["beat"]) == (kept.removed, removed.removed)
    assert ["digest", "nobodys", "one-shot", "others"] == ground.ids()


def test_what_changed_owners_meanwhile_is_not_removed(ground: Ground) -> None:
    ground.apply(BEAT + DIGEST)
    application = ground.application(DIGEST)
    stale = application.stale()
    ground.client.update("beat", managed_by="terraform")

    applied = application.run(application.compare(), stale, lambda done: None)

    assert (["beat"], []) == (stale, applied.removed)
    assert ["beat", "digest"] == ground.ids()


def test_an_empty_file_removes_all_only_with_pruning(ground: Ground) -> None:
    ground.apply(BEAT + DIGEST)

    applied = ground.apply("[schedules]", prune=True)

    assert (["beat", "digest"], []) == (applied.removed, ground.ids())


# -- in between -----------------------------------------------------------------------------------------


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do *act* right before the first put."""
    put, acts = Keeper.put, [act]

    def after(self: Keeper, *args: Any) -> Scheduled | None:
        if acts:
            acts.pop()()
        return put(self, *args)

    monkeypatch.setattr(Keeper, "put", after)


def test_what_was_changed_in_between_is_compared_again(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.apply(BEAT)
    meanwhile(monkeypatch, lambda: ground.client.update("beat", queue="sms"))

    (step,) = ground.apply(BEAT + "timeout = 60").steps

    schedule = ground.client.get("beat")
    assert ("default", 60) == (schedule.queue, schedule.timeout_s)
    assert ["queue: sms → default", "timeout: 3m → 1m"] == texts(step)


def test_an_id_that_somebody_takes_in_between_is_not_overwritten(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: ground.client.schedule("app.theirs", id="beat", every=60))

    applied = ground.apply(BEAT + DIGEST)

    ((id, error),) = applied.errors
    assert ("beat", "app.theirs") == (id, ground.client.get("beat").func)
    assert "is managed by nobody" in str(error)
    assert [("digest", "created")] == outcomes(applied.steps)


def test_nothing_is_removed_when_a_step_failed(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.apply(DIGEST)
    meanwhile(monkeypatch, lambda: ground.client.schedule("app.theirs", id="beat", every=60))

    applied = ground.apply(BEAT, prune=True)

    assert ([], ["digest"]) == (applied.removed, applied.stale)
    assert ["beat", "digest"] == ground.ids()


def test_a_lost_connection_tells_how_far_it_came_and_the_same_again_goes_on(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = "".join(f'[schedules.n{n}]\nfunc = "app.n"\nevery = 60\n' for n in range(5))
    done: list[int] = []
    put = Keeper.put

    def broken(self: Keeper, *args: Any) -> Scheduled | None:
        if len(done) == 3:
            raise RedisUnavailable("the connection is gone", may_have_been_applied=True)
        return put(self, *args)

    application = ground.application(many)
    steps = application.compare()
    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "put", broken)
        with pytest.raises(RedisUnavailable, match="3 of 5 schedules were done, and the same command") as caught:
            application.run(steps, [], done.append)

    again = ground.apply(many)

    assert caught.value.may_have_been_applied
    assert [1, 2, 3] == done
    assert (2, 3) == (again.count("created"), again.count("unchanged"))


# -- dry runs agree -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_comparing_foretells_what_is_done(ground: Ground, seed: int) -> None:
    chance = random.Random(seed)

    for _ in range(6):
        text = "".join(
            f'[schedules.n{n}]\nfunc = "app.n"\nevery = {chance.choice([30, 60])}\nargs = [{chance.choice([1, 2])}]\n'
            f"{chance.choice(['', 'paused = true', 'paused = false'])}\n"
            for n in range(8)
            if chance.random() < 0.7
        )  # fmt: skip
        application = ground.application(text or "[schedules]")
        foretold, stale = application.compare(), application.stale()
        applied = application.run(foretold, stale, lambda done: None)

        assert outcomes(foretold) == outcomes(applied.steps)
        assert [step.changes for step in foretold] == [step.changes for step in applied.steps]
        assert stale == applied.removed
        assert {"unchanged"} >= {step.outcome for step in ground.compare(text or "[schedules]")}


# -- there and back -------------------------------------------------------------------------------------

LETTERS = string.ascii_letters + "\"'\\\n\t\r\x7f\x00#=[]{} é한🎉\u2028"


def words(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randrange(12)))


def value(chance: random.Random, depth: int = 0) -> Any:
    """Something that JSON has."""
    kinds: list[Callable[[], Any]] = [
        lambda: words(chance),
        lambda: chance.randrange(-(2**70), 2**70),
        lambda: chance.uniform(-1e300, 1e300),
        lambda: chance.choice([True, False, 0.0, -0.0, 1e-7, 10**21, 1, 1.0]),
        lambda: None if chance.random() < 0.3 else 7,
        lambda: [value(chance, depth + 1) for _ in range(chance.randrange(4))],
        lambda: {words(chance): value(chance, depth + 1) for _ in range(chance.randrange(4))},
    ]
    return chance.choice(kinds if depth < 3 else kinds[:5])()


def options(chance: random.Random, is_pickle: bool) -> dict[str, Any]:
    """Options of a schedule that is allowed, each there or not."""
    zones = ["UTC", "Asia/Seoul", "America/New_York", "Africa/Monrovia"]
    tz = chance.choice(zones)
    rules: list[dict[str, Any]] = [
        {"every": timedelta(milliseconds=chance.choice([1, 1500, 60_000, 5_400_000, 86_400_000 * 9]) + 86_400_000)},
        {"cron": chance.choice(["0 9 * * 1-5", "15 30 4 * * *", "@daily"]), "gap": "skip"},
        {"rrule": "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=8"},
        {"rrule": "FREQ=DAILY;COUNT=5"},
    ]
    rule = chance.choice(rules)
    many: dict[str, Callable[[], Any]] = {
        "tz": lambda: tz,
        "starts": lambda: datetime(2030, chance.randrange(1, 12), 3, chance.randrange(24), 30),
        "ends": lambda: datetime(2040, 1, 1, 5, tzinfo=UTC) + timedelta(milliseconds=chance.randrange(10**9)),
        "count": lambda: chance.randrange(1, 99),
        "gap": lambda: chance.choice(["skip", "shift", "first_valid"]),
        "fold": lambda: chance.choice(["first", "second", "both"]),
        "args": lambda: tuple(value(chance) for _ in range(chance.randrange(1, 4))),
        "kwargs": lambda: {words(chance): value(chance) for _ in range(chance.randrange(1, 4))},
        "queue": lambda: chance.choice(["email", "default", "q:é"]),
        "priority": lambda: chance.choice(["high", "normal", "low"]),
        "at_front": lambda: chance.choice([True, False]),
        "urgency": lambda: chance.choice(["asap", "time_sensitive"]),
        "jitter": lambda: chance.choice([1, 0.25, 30, timedelta(seconds=59)]),
        "expires_after": lambda: chance.choice([60, 3600, 86_400 * 8, timedelta(hours=1, milliseconds=7)]),
        "overlap": lambda: chance.choice(["allow", "queue", "cancel_previous", "skip"]),
        "catch_up_window": lambda: chance.choice([0, 5, 7200]),
        "on_lost": lambda: chance.choice(["retry", "fail"]),
        "on_uncertain": lambda: chance.choice(["refire", "skip"]),
        "pause_after_failures": lambda: chance.randrange(1, 9),
        "timeout": lambda: chance.choice([-1, 90, "1h", 180]),
        "retry": lambda: chance.choice([1, 3, Retry(2, 60), Retry(3, [1, 2], enqueue_at_front=True)]),
        "result_ttl": lambda: chance.choice([-1, 60, 86_400]),
        "failure_ttl": lambda: chance.choice([-1, 0, 59, 86_400 * 400]),
        "meta": lambda: {words(chance): value(chance)},
        "on_success": lambda: chance.choice(["app.done", Callback("app.done", 5), Callback("app.done", 60)]),
        "on_failure": lambda: "app.failed",
        "description": lambda: "".join(filter(str.isprintable, words(chance))),
        "tags": lambda: ["b", "a", 'c"d'][: chance.randrange(1, 4)],
        "created_by": lambda: 'ann "the" \\ admin',
    }
    found = {name: make() for name, make in many.items() if chance.random() < 0.4} | rule
    if "starts" in found:
        found["tz"] = tz
    if "COUNT" in str(rule):
        found.pop("count", None)
    if found.get("overlap") == "queue" and chance.random() < 0.8:
        found |= {"catch_up": "all", "catch_up_limit": 7, "overlap_limit": 5}
    elif "catch_up_window" not in found and chance.random() < 0.3:
        found["catch_up"] = chance.choice(["none", "latest"])
    if is_pickle and chance.random() < 0.2:
        found["args"] = (date(2030, 1, 2), datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC), float("inf"))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_what_is_exported_is_unchanged_when_applied(ground: Ground, redis_client: redis.Redis, seed: int) -> None:
    chance, used = random.Random(seed), set()
    is_pickle = ground.client._encoder.serializer == "pickle"
    for n in range(60):
        some = options(chance, is_pickle)
        used |= some.keys()
        ground.client.schedule("app.tasks.any", id=f"n{n:02}", managed_by="file:jobs.toml", **some)
        if chance.random() < 0.1:
            ground.client.pause(f"n{n:02}", "for now")
    before = log_length(redis_client)

    written = write(ground.client)
    applied = ground.apply(written.text, prune=True)

    changed = {step.entry.id: texts(step) for step in applied.steps if step.outcome != "unchanged"}
    assert ({}, [], [], 60) == (changed, written.unsaid, applied.removed, len(applied.steps))
    assert before == log_length(redis_client)
    assert SCHEDULE_OPTIONS - REFUSED.keys() == used
    assert written.text == write(ground.client).text


def test_a_file_that_was_exported_makes_the_same_schedules_elsewhere(ground: Ground, redis_client: redis.Redis) -> None:
    chance = random.Random(7)
    for n in range(40):
        ground.client.schedule("app.any", id=f"n{n}", managed_by="file:jobs.toml", **options(chance, False))
    text = write(ground.client).text
    redis_client.flushall()

    ground.apply(text)

    assert text == write(ground.client).text


def test_a_default_is_not_written(ground: Ground) -> None:
    ground.client.schedule("app.tasks.beat", id="beat", every=90, queue="default", timeout=180, managed_by="billing")

    written = write(ground.client)

    entry = '[schedules.beat]\nfunc = "app.tasks.beat"\nevery = "1m30s"\n'
    assert f'# Written by `zsched export`; `zsched apply` reads it.\n\nowner = "billing"\n\n{entry}' == written.text


@pytest.mark.parametrize("ground", ["pickle"], indirect=True)
def test_what_cannot_be_said_is_a_comment_with_the_reason(ground: Ground) -> None:
    ground.client.schedule("app.a", id="a", every=60, kwargs={"to": {1}}, queue="email", managed_by="billing")
    ground.client.schedule("app.b", id="b", every=60, managed_by="billing")

    written = write(ground.client)

    ((id, reason),) = written.unsaid
    assert ("a", "kwargs: JSON cannot say it: Object of type set is not JSON serializable") == (id, reason)
    assert (
        f"# cannot be written: {reason}\n"
        '# [schedules.a]\n# func = "app.a"\n# every = "1m"\n# kwargs = ?\n# queue = "email"\n'
    ) in written.text
    assert ["b"] == [entry.id for entry in ground.read(written.text).entries]


def test_a_time_in_a_zone_with_seconds_in_its_offset_is_written_in_utc(ground: Ground) -> None:
    starts = datetime(1971, 5, 1, tzinfo=UTC)
    ground.client.schedule(
        "app.a", id="a", cron="0 9 * * *", tz="Africa/Monrovia", starts=starts, managed_by="file:jobs.toml"
    )

    written = write(ground.client)

    assert "starts = 1971-05-01T00:00:00+00:00\n" in written.text
    assert [("a", "unchanged")] == outcomes(ground.compare(written.text))


def test_owners_are_told_apart(ground: Ground) -> None:
    ground.client.schedule("app.a", id="a", every=60, managed_by="billing")
    ground.client.schedule("app.b", id="b", every=60)

    both, one, nobody = write(ground.client), write(ground.client, owner="billing"), write(ground.client, owner="")

    assert "# managed by billing\n[schedules.a]" in both.text
    assert "# managed by nobody\n[schedules.b]" in both.text
    assert ([None, "billing", None], [["a", "b"], ["a"], ["b"]]) == (
        [both.owner, one.owner, nobody.owner],
        [both.ids, one.ids, nobody.ids],
    )
    assert [("a", "updated"), ("b", "updated")] == outcomes(ground.apply(both.text, takes_over=True).steps)


def test_ended_ones_and_one_shots_are_left_out_and_paused_and_quarantined_ones_marked(
    ground: Ground, redis_client: redis.Redis
) -> None:
    for id in ("active", "ended", "paused", "quarantined"):
        ground.client.schedule("app.a", id=id, every=60)
    ground.client.schedule("app.a", id="one-shot", after=60)
    ground.client.pause("paused")
    for id in ("ended", "quarantined"):
        redis_client.zrem(KEYS.due(Priority.NORMAL), id)
    redis_client.hset(KEYS.quarantine(), "quarantined", "normal 1 1 broken\nby hand")

    written = write(ground.client)

    assert (["active", "paused", "quarantined"], ["ended"]) == (written.ids, written.ended)
    assert 'func = "app.a"\nevery = "1m"\npaused = true\n' in written.text
    assert "# quarantined: broken by hand\n[schedules.quarantined]" in written.text
    assert ["active", "paused", "quarantined"] == [entry.id for entry in ground.read(written.text).entries]


def test_ids_are_chosen_by_globs(ground: Ground) -> None:
    for id in ("report-a", "report-b", "beat", "x"):
        ground.client.schedule("app.a", id=id, every=60)

    assert ["beat", "report-a", "report-b"] == write(ground.client, globs=["report-*", "b?at"]).ids


def test_an_export_of_nothing_is_a_file_of_nothing(ground: Ground) -> None:
    assert () == ground.read(write(ground.client).text).entries
