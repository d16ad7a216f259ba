"""Versions of schedules, which a change may require; puts of shapes that a client remembers."""

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from itertools import permutations
from typing import Any

import pytest
import redis

from tests.integration.client.calls import KEYS, payload
from tests.waiting import WITHIN_S
from zsched import Client, InvalidSchedule, RowsRefused, ScheduleNotFound, VersionConflict

KINDS: dict[str, dict[str, Any]] = {"one-shot": {"after": 3600}, "recurring": {"every": 3600}}
CHANGES: dict[str, Callable[[Any, str], Any]] = {
    "schedule": lambda client, version: client.schedule("app.other", id="a", after=60, if_version=version),
    "schedule by a rule": lambda client, version: client.schedule("app.other", id="a", every=60, if_version=version),
    "update": lambda client, version: client.update("a", queue="sms", if_version=version),
    "pause": lambda client, version: client.pause("a", "why", if_version=version),
    "resume": lambda client, version: client.resume("a", if_version=version),
    "resume with skip": lambda client, version: client.resume("a", "skip", if_version=version),
    "cancel": lambda client, version: client.cancel("a", if_version=version),
    "run now": lambda client, version: client.run_now("a", if_version=version),
}
AT = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=3)
ONCE: list[dict[str, Any]] = [
    {"at": AT},
    {"at": AT.astimezone(timezone(timedelta(hours=9))), "args": (1,)},
    {"at": (AT + timedelta(days=1)).replace(tzinfo=None), "tz": "Asia/Seoul", "args": [True]},
    {"at": AT, "kwargs": {"a": 1.0}, "queue": "mail"},
    {"at": AT, "tags": ["b", "a"], "priority": "high"},
    {"at": AT, "tags": ["a"], "priority": "high", "jitter": 60},
    {"at": AT, "timeout": 60, "expires_after": 90},
    {"at": AT, "done_by": "06:00"},
    {"at": AT, "enabled": False},
]
RULES: list[dict[str, Any]] = [
    {"every": 60},
    {"every": 60.0, "args": (1,)},
    {"cron": "0 9 * * *", "tz": "Asia/Seoul"},
    {"cron": "0 9 * * *", "tz": "Asia/Seoul", "jitter": 600},
    {"cron": "0 10 * * *", "count": 2, "overlap": "skip"},
]


@pytest.fixture(params=KINDS)
def given(request: pytest.FixtureRequest) -> dict[str, Any]:
    return KINDS[request.param]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_with_the_present_version_is_made(client: Client, given: dict[str, Any], change: str) -> None:
    made = client.schedule("app.task", id="a", **given)

    CHANGES[change](client, made.version or "")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_with_another_version_names_both_and_writes_nothing(
    client: Client, redis_client: redis.Redis, given: dict[str, Any], change: str
) -> None:
    stale = client.schedule("app.task", id="a", **given).version or ""
    present = client.update("a", queue="mail").version
    before = {key: redis_client.dump(key) for key in redis_client.scan_iter()}

    with pytest.raises(VersionConflict) as caught:
        CHANGES[change](client, stale)

    error = caught.value
    assert ("a", stale, present) == (error.id, error.given, error.present)
    assert stale in str(error)
    assert str(present) in str(error)
    assert before == {key: redis_client.dump(key) for key in redis_client.scan_iter()}
    assert str(error) == str(pickle.loads(pickle.dumps(error)))


def test_a_put_returns_the_version_that_a_reader_gets(client: Client, given: dict[str, Any]) -> None:
    made = client.schedule("app.task", id="a", **given)
    assert made.version == client.get("a").version == client.get("a").to_dict()["version"]

    updated = client.update("a", queue="mail")
    assert updated.version == client.get("a").version != made.version
    assert client.pause("a").version != updated.version
    resumed = client.resume("a")
    assert resumed is not None
    assert len({made.version, updated.version, resumed.version}) == 3
    assert client.schedule("app.task", id="a", queue="mail", **given).version in (None, client.get("a").version)


@pytest.mark.parametrize("change", ["schedule", "schedule by a rule"])
def test_a_put_of_a_version_of_a_gone_schedule_is_refused(client: Client, given: dict[str, Any], change: str) -> None:
    version = client.schedule("app.task", id="a", **given).version or ""
    client.cancel("a")

    with pytest.raises(VersionConflict, match="is stale: it is not waiting any more") as caught:
        CHANGES[change](client, version)
    assert caught.value.present is None


@pytest.mark.parametrize("change", ["update", "pause", "resume"])
def test_a_change_of_a_schedule_that_is_gone_says_so(client: Client, change: str) -> None:
    with pytest.raises(ScheduleNotFound):
        CHANGES[change](client, "1-1-1")
    assert "not_found" == client.cancel("a", if_version="1-1-1")


def test_rows_with_versions_are_judged_one_by_one(client: Client) -> None:
    old = {id: client.schedule("app.task", id=id, **KINDS[kind]).version for id, kind in zip("ab", KINDS, strict=True)}
    new = {id: client.update(id, queue="mail").version for id in "ab"}
    rows = [{"func": "app.task", "id": id, **KINDS[kind]} for id, kind in zip("ab", KINDS, strict=True)]

    with pytest.raises(RowsRefused) as caught:
        client.schedule_many([row | {"if_version": old[row["id"]]} for row in rows])
    again = client.schedule_many([row | {"if_version": new[row["id"]]} for row in rows])

    errors = [error for _, error in caught.value.many.errors]
    assert [VersionConflict] * 2 == [type(error) for error in errors]
    assert [(old[id], new[id]) for id in "ab"] == [(e.given, e.present) for e in errors]  # type: ignore[attr-defined]
    assert 2 == again.updated


@pytest.mark.parametrize("wrong", ["", "a b", "x" * 65, 5, "ä", "1\n"])
def test_a_malformed_version_is_refused(client: Client, wrong: Any) -> None:
    client.schedule("app.task", id="a", after=60)

    for change in CHANGES.values():
        with pytest.raises(InvalidSchedule, match=r"^if_version="):
            change(client, wrong)


@pytest.mark.parametrize("others", [{}, {"id": "a", "if_exists": "keep"}])
def test_a_version_needs_an_id_that_is_replaced(client: Client, others: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule, match=r"^if_version=.*give its id, and no if_exists"):
        client.schedule("app.task", after=60, if_version="1-1-1", **others)


def test_writers_with_versions_lose_no_update(redis_url: str, client: Client) -> None:
    client.schedule("app.task", id="a", every=3600, description="count 0")
    have_read = threading.Barrier(8)

    def write(_: int) -> int:
        """Count up 10 times; return the number of conflicts. All writers have read the first version."""
        conflicts, done, own = 0, 0, Client.from_url(redis_url)
        while done < 10:
            found = own.get("a")
            if not done and not conflicts:
                have_read.wait(WITHIN_S)
            count = int(str(found.description).split()[-1])
            try:
                own.update("a", description=f"count {count + 1}", if_version=found.version)
                done += 1
            except VersionConflict:
                conflicts += 1
        return conflicts

    with ThreadPoolExecutor(8) as pool:
        conflicts = sum(pool.map(write, range(8)))

    assert "count 80" == client.get("a").description
    assert conflicts >= 7


def stored(client: Client, redis_client: redis.Redis) -> Any:
    """Return what Redis holds of schedule ``a``, but the times of its puts."""
    found = client.get("a")
    key = KEYS.rq.job(KEYS.run_id("a", found.next_ms or 0)) if found.kind == "once" else KEYS.template("a")
    job = {name: value for name, value in redis_client.hgetall(key).items() if name not in (b"created_at", b"data")}
    own = found.to_dict()
    for name in ("version", "created_at", "updated_at", "anchor_at", "since"):
        own.pop(name)
    return own, job, payload(redis_client, key), found.next_ms


@pytest.mark.parametrize("puts", [ONCE, RULES], ids=["once", "rules"])
def test_a_put_of_a_known_shape_is_as_that_of_a_new_client(
    client: Client, redis_url: str, redis_client: redis.Redis, puts: list[dict[str, Any]]
) -> None:
    alone = []
    for options in puts:
        if "every" not in options:  # its times depend on the put's
            client.cancel("a")
            Client.from_url(redis_url).schedule("app.task", id="a", **options)
            alone.append((options, stored(client, redis_client)))
    for (first, _), (second, expected) in permutations(alone, 2):
        for options in (first, second, first, second):
            client.cancel("a")
            client.schedule("app.task", id="a", **options)
        assert expected == stored(client, redis_client), (first, second)


@pytest.mark.parametrize(
    ("bad", "option"),
    [({"args": 5}, "args"), ({"at": "noon"}, "at"), ({"id": "a/b"}, "id"), ({"kwargs": {1: 2}}, "kwargs"),
     ({"queue": "a b"}, "queue"), ({"at": None}, "trigger"), ({"after": 5}, "at and after")],
)  # fmt: skip
def test_a_bad_put_of_a_known_shape_names_the_option(client: Client, bad: dict[str, Any], option: str) -> None:
    good: dict[str, Any] = {"id": "a", "at": AT}
    client.schedule("app.task", **good)
    with pytest.raises(InvalidSchedule) as refused:
        client.schedule("app.task", **{**good, **bad})
    assert option == refused.value.field
