"""Schedules written to a file, which makes the same schedules when it is applied."""

import random
import string
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import redis
from rq import Callback, Retry

from tests.integration.client.calls import KEYS
from tests.integration.files.applying import JobsFile, log_length, outcomes, texts
from zsched.core.options.choices import Priority
from zsched.core.options.define import SCHEDULE_OPTIONS
from zsched.files.checking import REFUSED
from zsched.files.writing import write
from zsched.storage import rqjob

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def any_rq(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow rate limits with RQ 2 too, since nothing is executed here."""
    monkeypatch.setattr(rqjob, "HAS_RATE_LIMITS", True)


LETTERS = string.ascii_letters + "\"'\\\n\t\r\x7f\x00#=[]{} é한🎉\u2028"


def words(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randrange(12)))


def value(chance: random.Random, depth: int = 0) -> Any:
    """Return a random value that JSON can hold."""
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
    """Return random allowed options of a schedule, each of which may be missing."""
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
        "exclude": lambda: chance.sample(["Sat,Sun", "02:40-02:41", "2041-01-01..2041-01-05", "12-25", "kr"], 2),
        "args": lambda: tuple(value(chance) for _ in range(chance.randrange(1, 4))),
        "kwargs": lambda: {words(chance): value(chance) for _ in range(chance.randrange(1, 4))},
        "queue": lambda: chance.choice(["email", "default", "q:é"]),
        "priority": lambda: chance.choice(["high", "normal", "low"]),
        "at_front": lambda: chance.choice([True, False]),
        "urgency": lambda: chance.choice(["asap", "time_sensitive"]),
        "jitter": lambda: chance.choice([1, 0.25, 30, timedelta(seconds=59)]),
        "expires_after": lambda: chance.choice([60, 3600, 86_400 * 8, timedelta(hours=1, milliseconds=7)]),
        "done_by": lambda: chance.choice(["06:00", "23:59:59", 90, timedelta(minutes=5)]),
        "overlap": lambda: chance.choice(["allow", "queue", "cancel_previous", "skip"]),
        "catch_up_window": lambda: chance.choice([0, 5, 7200]),
        "on_lost": lambda: chance.choice(["retry", "fail"]),
        "on_uncertain": lambda: chance.choice(["refire", "skip"]),
        "pause_after_failures": lambda: chance.randrange(1, 9),
        "timeout": lambda: chance.choice([-1, 90, "1h", 180]),
        "retry": lambda: chance.choice([1, 3, Retry(2, 60), Retry(3, [1, 2], enqueue_at_front=True)]),
        "rate_limit": lambda: chance.choice(["sms:3", ('a "key": é', 1_000_000), {"key": "sms", "concurrency": 1}]),
        "result_ttl": lambda: chance.choice([-1, 60, 86_400]),
        "failure_ttl": lambda: chance.choice([-1, 0, 59, 86_400 * 400]),
        "meta": lambda: {words(chance): value(chance)},
        "on_success": lambda: chance.choice(["app.done", Callback("app.done", 5), Callback("app.done", 60)]),
        "on_failure": lambda: "app.failed",
        "description": lambda: "".join(filter(str.isprintable, words(chance))),
        "tags": lambda: ["b", "a", 'c"d'][: chance.randrange(1, 4)],
        "name": lambda: 'the "nightly" \\ report',
    }
    found = {name: make() for name, make in many.items() if chance.random() < 0.4} | rule
    if "starts" in found:
        found["tz"] = tz
    if "COUNT" in str(rule):
        found.pop("count", None)
    if "exclude" in found:
        found["on_excluded"] = chance.choice(["skip", "next_open"])
    if found.get("overlap") == "queue" and chance.random() < 0.8:
        found |= {"catch_up": "all", "catch_up_limit": 7, "overlap_limit": 5}
    elif "catch_up_window" not in found and chance.random() < 0.3:
        found["catch_up"] = chance.choice(["none", "latest"])
    if is_pickle and chance.random() < 0.2:
        found["args"] = (date(2030, 1, 2), datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC), float("inf"))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_an_exported_file_changes_nothing_when_applied(jobs: JobsFile, redis_client: redis.Redis, seed: int) -> None:
    chance, used = random.Random(seed), set()
    is_pickle = jobs.client._encoder.serializer == "pickle"
    jobs.client.put_calendar("kr", dates=["01-01"], owner="file:jobs.toml")
    for n in range(60):
        some = options(chance, is_pickle)
        used |= some.keys()
        jobs.client.schedule("app.tasks.any", id=f"n{n:02}", owner="file:jobs.toml", **some)
        if chance.random() < 0.1:
            jobs.client.pause(f"n{n:02}", "for now")
    before = log_length(redis_client)

    written = write(jobs.client)
    applied = jobs.apply(written.text, prune=True)

    changed = {step.entry.id: texts(step) for step in applied.steps if step.outcome != "unchanged"}
    assert ({}, [], [], 60) == (changed, written.unsaid, applied.removed, len(applied.steps))
    assert before == log_length(redis_client)
    assert SCHEDULE_OPTIONS - REFUSED.keys() - {"enabled"} == used
    assert written.text == write(jobs.client).text


def test_an_exported_file_creates_the_same_schedules_elsewhere(jobs: JobsFile, redis_client: redis.Redis) -> None:
    chance = random.Random(7)
    jobs.client.put_calendar("kr", dates=["01-01"], owner="file:jobs.toml")
    for n in range(40):
        jobs.client.schedule("app.any", id=f"n{n}", owner="file:jobs.toml", **options(chance, False))
    text = write(jobs.client).text
    redis_client.flushall()

    jobs.apply(text)

    assert text == write(jobs.client).text


def test_a_default_is_not_written(jobs: JobsFile) -> None:
    jobs.client.schedule("app.tasks.beat", id="beat", every=90, queue="default", timeout=180, owner="billing")

    written = write(jobs.client)

    entry = '[schedules.beat]\nfunc = "app.tasks.beat"\nevery = "1m30s"\n'
    assert f'# Written by `zsched export`; `zsched apply` reads it.\n\nowner = "billing"\n\n{entry}' == written.text


@pytest.mark.parametrize("jobs", ["pickle"], indirect=True)
def test_an_option_that_cannot_be_written_is_exported_as_a_comment(jobs: JobsFile) -> None:
    jobs.client.schedule("app.a", id="a", every=60, kwargs={"to": {1}}, queue="email", owner="billing")
    jobs.client.schedule("app.b", id="b", every=60, owner="billing")

    written = write(jobs.client)

    ((id, reason),) = written.unsaid
    assert ("a", "kwargs: JSON cannot say it: Object of type set is not JSON serializable") == (id, reason)
    assert (
        f"# cannot be written: {reason}\n"
        '# [schedules.a]\n# func = "app.a"\n# every = "1m"\n# kwargs = ?\n# queue = "email"\n'
    ) in written.text
    assert ["b"] == [entry.id for entry in jobs.read(written.text).entries]


def test_a_time_in_a_zone_with_seconds_in_its_offset_is_written_in_utc(jobs: JobsFile) -> None:
    starts = datetime(1971, 5, 1, tzinfo=UTC)
    jobs.client.schedule("app.a", id="a", cron="0 9 * * *", tz="Africa/Monrovia", starts=starts, owner="file:jobs.toml")

    written = write(jobs.client)

    assert "starts = 1971-05-01T00:00:00+00:00\n" in written.text
    assert [("a", "unchanged")] == outcomes(jobs.compare(written.text))


def test_an_export_separates_owners(jobs: JobsFile) -> None:
    jobs.client.schedule("app.a", id="a", every=60, owner="billing")
    jobs.client.schedule("app.b", id="b", every=60)

    both, one, nobody = write(jobs.client), write(jobs.client, owner="billing"), write(jobs.client, owner="")

    assert "# owned by billing\n[schedules.a]" in both.text
    assert "# without an owner\n[schedules.b]" in both.text
    assert ([None, "billing", None], [["a", "b"], ["a"], ["b"]]) == (
        [both.owner, one.owner, nobody.owner],
        [both.ids, one.ids, nobody.ids],
    )
    assert [("a", "updated"), ("b", "updated")] == outcomes(jobs.apply(both.text, takes_over=True).steps)


def test_an_export_omits_ended_schedules_and_marks_paused_ones(jobs: JobsFile, redis_client: redis.Redis) -> None:
    for id in ("active", "ended", "paused", "quarantined"):
        jobs.client.schedule("app.a", id=id, every=60)
    jobs.client.schedule("app.a", id="one-shot", after=60)
    jobs.client.pause("paused")
    for id in ("ended", "quarantined"):
        redis_client.zrem(KEYS.due(Priority.NORMAL), id)
    redis_client.hset(KEYS.quarantine(), "quarantined", "normal 1 1 broken\nby hand")

    written = write(jobs.client)

    assert (["active", "paused", "quarantined"], ["ended"]) == (written.ids, written.ended)
    assert 'func = "app.a"\nevery = "1m"\nenabled = false\n' in written.text
    assert "# quarantined: broken by hand\n[schedules.quarantined]" in written.text
    assert ["active", "paused", "quarantined"] == [entry.id for entry in jobs.read(written.text).entries]


def test_an_export_selects_ids_by_globs(jobs: JobsFile) -> None:
    assert () == jobs.read(write(jobs.client).text).entries
    for id in ("report-a", "report-b", "beat", "x"):
        jobs.client.schedule("app.a", id=id, every=60)

    assert ["beat", "report-a", "report-b"] == write(jobs.client, globs=["report-*", "b?at"]).ids
