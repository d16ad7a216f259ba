"""A file applied to a real Redis: what it creates, changes, pauses and leaves alone."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
import redis

from tests.builders.progress import change_progress
from tests.clocks import pass_time
from tests.integration.client.calls import KEYS
from tests.integration.files.applying import BEAT, DIGEST, JobsFile, log_length, outcomes, texts
from zsched.client import Client
from zsched.client.file_sync import FileSync
from zsched.core.options.choices import Priority
from zsched.errors import InvalidFile
from zsched.files.applying import Applied
from zsched.storage.comparing import option_changes

pytestmark = pytest.mark.once


def test_a_file_creates_its_schedules_and_owns_them_and_writes_nothing_again(
    jobs: JobsFile, redis_client: redis.Redis
) -> None:
    created = jobs.apply(DIGEST + BEAT)
    owners, before = [one.owner for one in jobs.client.list()], log_length(redis_client)

    again = jobs.apply(BEAT + DIGEST)

    assert [("digest", "created"), ("beat", "created")] == outcomes(created.steps)
    assert [("beat", "unchanged"), ("digest", "unchanged")] == outcomes(again.steps)
    assert (["file:jobs.toml"] * 2, before) == (owners, log_length(redis_client))


def test_changed_options_are_listed_and_applied(jobs: JobsFile) -> None:
    jobs.apply(DIGEST + "args = [1]\nkwargs = { to = 'all', n = 1 }\ntags = ['old']\nexpires_after = '1h'")
    text = DIGEST.replace("0 9", "0 10") + "args = [2]\nkwargs = { n = 1, to = 'all' }\nqueue = 'email'\ntimeout = '5m'"

    (step,) = jobs.apply(text).steps

    assert [
        "cron: 0 9 * * * → 0 10 * * *",
        "args: [1] → [2]",
        "queue: default → email",
        "timeout: 3m → 5m",
        'tags: ["old"] → -',
        "expires_after: 1h → -",
    ] == texts(step)
    assert [("digest", "unchanged")] == outcomes(jobs.compare(text))


def test_an_equal_payload_is_unchanged_however_it_was_pickled(jobs: JobsFile) -> None:
    word = "weekly, and long enough to be worth remembering"
    jobs.client.schedule(
        "app.tasks.digest", id="digest", cron="0 9 * * *", owner="file:jobs.toml",
        args=(word, word), kwargs={"b": word, "a": 1}, meta={"x": word, "y": [word]},
    )  # fmt: skip

    steps = jobs.compare(
        DIGEST
        + f'args = ["{word}", "{word}"]\nkwargs = {{ a = 1, b = "{word}" }}\n'
        + f'meta = {{ x = "{word}", y = ["{word}"] }}'
    )

    assert [("digest", "unchanged")] == outcomes(steps)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (BEAT + "starts = 2030-01-01T00:00:00Z", BEAT + "starts = 2030-01-01T09:00:00\ntz = 'Asia/Seoul'",
         "tz: UTC → Asia/Seoul"),  # the same instant
        (DIGEST + "args = [1]", DIGEST + "args = [true]", "args: [1] → [true]"),
    ],
)  # fmt: skip
def test_a_comparison_names_only_the_options_that_differ(jobs: JobsFile, before: str, after: str, told: str) -> None:
    jobs.apply(before)

    (step,) = jobs.compare(after)

    assert [told] == texts(step)


def test_applying_a_file_returns_a_quarantined_schedule_to_its_lane(jobs: JobsFile, redis_client: redis.Redis) -> None:
    jobs.apply(BEAT)
    redis_client.zrem(KEYS.due(Priority.NORMAL), "beat")
    redis_client.hset(KEYS.quarantine(), "beat", "normal 1 1 broken")

    dry, real = jobs.compare(BEAT), jobs.apply(BEAT).steps

    assert [("beat", "updated")] == outcomes(dry) == outcomes(real)
    assert "active" == jobs.client.get("beat").state.value


@pytest.mark.parametrize("jobs", ["pickle"], indirect=True)
def test_an_unreadable_payload_is_replaced(jobs: JobsFile, redis_client: redis.Redis) -> None:
    jobs.apply(BEAT + "args = [1]")
    redis_client.hset(KEYS.template("beat"), "data", b"cnowhere.at_all\nThing\n.")
    redis_client.hset(KEYS.schedule("beat"), "digest", "another")

    (step,) = jobs.apply(BEAT + "args = [1]").steps

    assert ("updated", "[1]") == (step.outcome, step.changes[0].new)
    assert "the stored payload cannot be read" in str(step.changes[0].old)
    assert [("beat", "unchanged")] == outcomes(jobs.compare(BEAT + "args = [1]"))


def test_arguments_of_unopened_classes_are_compared_by_their_bytes(redis_client: redis.Redis) -> None:
    sync = FileSync(Client(redis_client))
    red, other = ({"every": 60, "id": "beat", "args": [value]} for value in (Fraction(1, 3), Fraction(1, 2)))
    definition, _ = sync.wanted(sync.define("app.beat", red), None)
    sync.put(definition, None)

    (held,) = sync.held(["beat"])
    _, same = sync.wanted(sync.define("app.beat", red), held)
    _, changed = sync.wanted(sync.define("app.beat", other), held)

    assert "fractions.Fraction" in held.unreadable
    assert (True, False) == (held.is_same_put(same), held.is_same_put(changed))
    assert ([], ["args"]) == (
        [c.option for c in option_changes(held, same)],
        [c.option for c in option_changes(held, changed)],
    )


def test_a_schedule_whose_end_has_passed_stays_but_cannot_be_changed(jobs: JobsFile, redis_client: redis.Redis) -> None:
    end = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    jobs.apply(BEAT + f"ends = {end}")
    pass_time(redis_client, timedelta(hours=2))

    unchanged = jobs.compare(BEAT + f"ends = {end}")
    with pytest.raises(InvalidFile) as caught:
        jobs.compare(BEAT + f"ends = {end}\nqueue = 'email'")

    assert [("beat", "unchanged")] == outcomes(unchanged)
    assert caught.value.complaints[0].startswith("jobs.toml:1: [schedules.beat]: ends=")


def test_a_paused_schedule_stays_paused_unless_the_file_resumes_it(jobs: JobsFile) -> None:
    jobs.apply(BEAT)
    jobs.client.pause("beat")

    applied = jobs.apply(BEAT + "queue = 'email'")

    assert [("beat", "updated")] == outcomes(applied.steps)
    assert "paused" == jobs.client.get("beat").state.value


def test_a_file_pauses_and_resumes(jobs: JobsFile) -> None:
    (created,) = jobs.apply(BEAT + "enabled = false").steps
    paused = jobs.client.get("beat")
    again = jobs.apply(BEAT + "enabled = false").steps
    (resumed,) = jobs.apply(BEAT + "enabled = true").steps

    assert ("paused", "put with enabled=False") == (paused.state.value, paused.note)
    assert ("created", [("beat", "unchanged")]) == (created.outcome, outcomes(again))
    assert ("updated", ["enabled: false → true"]) == (resumed.outcome, texts(resumed))
    assert "active" == jobs.client.get("beat").state.value


def test_an_update_and_a_pause_are_one_step(jobs: JobsFile) -> None:
    jobs.apply(BEAT)

    (step,) = jobs.apply(BEAT + "enabled = false\nqueue = 'email'").steps

    schedule = jobs.client.get("beat")
    assert ["queue: default → email", "enabled: true → false"] == texts(step)
    assert ("paused", "email") == (schedule.state.value, schedule.queue)


def test_a_schedule_that_has_ended_is_changed_but_not_paused(jobs: JobsFile, redis_client: redis.Redis) -> None:
    jobs.apply(BEAT + "count = 1")
    redis_client.zrem(KEYS.due(Priority.NORMAL), "beat")
    change_progress(redis_client, KEYS, "beat", nominal=None)
    redis_client.hset(KEYS.schedule("beat"), "ended_at", "1795359600000")

    applied = jobs.apply(BEAT + "count = 1\nqueue = 'email'\nenabled = false")

    schedule = jobs.client.get("beat")
    assert ([], [("beat", "updated")]) == (applied.errors, outcomes(applied.steps))
    assert ("ended", "email") == (schedule.state.value, schedule.queue)


def _large(count: int, minute: int = 0) -> str:
    return "".join(
        f'[schedules.r-{n:03}]\nfunc = "app.task"\ncron = "{minute} 9 * * *"\nqueue = "q{n % 4}"\n'
        for n in range(count)
    )


def test_a_large_file_is_put_by_a_few_calls(jobs: JobsFile, redis_client: redis.Redis) -> None:
    applied = jobs.apply(_large(250))

    assert (250, 3) == (applied.count("created"), log_length(redis_client))
    assert [f"r-{n:03}" for n in range(250)] == [step.entry.id for step in applied.steps]
    assert all(step.next_ms for step in applied.steps)


def test_schedules_changed_during_a_long_apply_are_compared_again(jobs: JobsFile, redis_client: redis.Redis) -> None:
    jobs.apply(_large(150))
    application = jobs.application(_large(160, minute=5))
    steps = application.compare()
    jobs.client.update("r-007", args=("of another writer",))
    jobs.client.cancel("r-008")
    jobs.client.schedule("app.task", id="r-155", every=60)

    applied = application.carry_out(Applied(steps), lambda done: None)

    assert [("r-155", True)] == [(id, "owned by nobody" in str(error)) for id, error in applied.errors]
    assert 159 == len(applied.steps)
    assert {"5 9 * * *"} == {one.trigger.expr for one in jobs.client.list(kind="cron") if one.trigger}
    assert 160 == len(jobs.ids())


def test_a_refused_schedule_of_a_large_file_stops_no_other(jobs: JobsFile, redis_client: redis.Redis) -> None:
    redis_client.set(KEYS.template("r-007"), "not ours")

    applied = jobs.apply(_large(120))

    assert ["r-007"] == [id for id, _ in applied.errors]
    assert 119 == len(applied.steps) == len(jobs.ids())
