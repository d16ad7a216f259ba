"""client.schedule_many."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from tests.integration.client.ground import HOUR, KEYS, payload
from tests.prefix import RQ
from zsched import Client, RedisUnavailable
from zsched.core.clock import to_ms


def test_valid_rows_are_scheduled_and_invalid_rows_reported_by_index(client: Client, soon: datetime) -> None:
    client.schedule("app.task", id="there", every=60)
    rows: list[Any] = [
        {"func": "app.task", "id": "a", "at": soon, "args": (1,)},
        {"func": "app.task", "id": "b c", "at": soon},
        {"func": "app.task", "id": "r", "cron": "0 9 * * *"},
        {"func": "app.task", "id": "p", "at": datetime.now(UTC) - HOUR},
        {"at": soon},
        {"func": "app.task", "id": "rel", "after": 60},
        {"func": "app.task"},
        "not a row", 5, None, [1, 2], {1: 2},
        {"func": "app.task", "every": 60, "id": "there", "if_exists": "error"},
        {"func": "app.task", "at": soon, "id": "there", "if_exists": "error"},
        {"func": "app.task", "at": soon, "id": "there", "if_exists": "keep"},
        {"func": "app.task", "every": 0},
        {"func": "app.task", "at": soon, "timeout": "soon"},
        {"func": "app.task", "at": soon, "tags": ["a", "b"], "id": "tagged"},
        {"func": "app.task", "at": soon, "args": (lambda: None,)},
        {"func": "app.task", "id": "a", "at": soon, "args": (2,)},
    ]  # fmt: skip

    many = client.schedule_many(rows)

    bad = {
        1: "id=", 3: "at=", 4: "func=", 6: "at=", 7: "row=", 8: "row=", 9: "row=", 10: "row=", 11: "",
        12: "schedule 'there'",
        13: "schedule 'there'", 15: "every=", 16: "timeout=", 18: "args=",
    }  # fmt: skip
    assert list(bad) == [index for index, _ in many.errors]
    assert all(str(error).startswith(bad[index]) for index, error in many.errors)
    good = {0: "a", 2: "r", 5: "rel", 14: "there", 17: "tagged", 19: "a"}
    assert [good.get(n) for n in range(len(rows))] == many.ids
    assert (4, 1, 0, 1, len(rows)) == (many.created, many.updated, many.unchanged, many.kept, many.done)
    assert {"a", "r", "rel", "tagged", "there"} == {schedule.id for schedule in client.list()}
    json.dumps(many.to_dict())


def test_the_later_of_two_rows_with_one_id_wins(client: Client, redis_client: redis.Redis, soon: datetime) -> None:
    many = client.schedule_many({"func": "app.task", "id": "a", "at": soon, "args": (n,)} for n in range(3))

    assert (1, 2, ["a"] * 3) == (many.created, many.updated, many.ids)
    assert ("app.task", None, (2,), {}) == payload(redis_client, f"{RQ}:job:a-{to_ms(soon)}")


def test_a_one_shot_row_replaces_a_recurring_row_of_the_same_id(client: Client, soon: datetime) -> None:
    rows = [{"func": "app.task", "id": "a", "every": 60}, {"func": "app.task", "id": "a", "at": soon}]

    many = client.schedule_many(rows)

    assert ([], "once", 1) == (many.errors, client.get("a").kind, len(list(client.list())))


def test_a_generator_of_more_than_ten_thousand_rows_is_scheduled(
    client: Client, redis_client: redis.Redis, soon: datetime
) -> None:
    told: list[int] = []

    many = client.schedule_many(
        ({"func": "app.task", "id": f"i-{n}", "at": soon, "args": (n,)} for n in range(10_500)), told.append
    )

    assert (10_500, 10_500, []) == (many.created, many.done, many.errors)
    assert 10_500 == redis_client.zcard(KEYS.due_normal())
    assert (sorted(told), 10_500) == (told, told[-1])
    assert len(told) >= 50
    again = client.schedule_many({"func": "app.task", "id": f"i-{n}", "at": soon, "args": (n,)} for n in range(10_500))
    assert 10_500 == again.unchanged


def test_rows_of_many_shapes_without_ids_are_scheduled(client: Client, soon: datetime) -> None:
    rows = [
        {"func": f"app.task{n % 7}", "at": soon, "queue": f"q{n % 3}", "priority": ("high", "low")[n % 2]}
        for n in range(500)
    ]

    many = client.schedule_many(rows)

    assert (500, 500) == (many.created, len(set(many.ids)))
    funcs = {(schedule.func, schedule.queue) for schedule in client.list()}
    assert 21 == len(funcs)


def test_schedule_many_accepts_an_empty_list(client: Client) -> None:
    assert (0, []) == (client.schedule_many([]).done, client.schedule_many(iter(())).ids)


def test_naive_times_of_rows_are_local_in_their_zone(client: Client) -> None:
    at = datetime(2031, 1, 1, 9)
    rows = [{"func": "app.task", "id": f"a{n}", "at": at, "tz": tz} for n, tz in enumerate(["Asia/Seoul", "UTC"] * 2)]

    client.schedule_many([*rows, {"func": "app.task", "at": at}])

    assert [0, 9, 0, 9] == [client.get(f"a{n}").next_at.hour for n in range(4)]  # type: ignore[union-attr]


def test_an_error_raised_by_the_row_generator_is_not_a_lost_connection(client: Client, soon: datetime) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield {"func": "app.task", "id": "a", "at": soon}
        raise RedisUnavailable("their own Redis is gone")

    with pytest.raises(RedisUnavailable, match=r"^their own"):
        client.schedule_many(rows())


def test_a_row_like_the_previous_row_is_checked_as_strictly(client: Client, soon: datetime) -> None:
    rows = [{"func": "app.task", "at": soon, "at_front": yes, "id": id} for id, yes in [("a", True), ("b", 1)]]

    many = client.schedule_many(rows)

    assert (["a", None], 1) == (many.ids, len(many.errors))
