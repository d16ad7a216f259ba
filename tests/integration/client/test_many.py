"""client.schedule_many."""

import json
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from tests.clocks import freeze
from tests.integration.client.calls import HOUR, KEYS, SOON, payload
from tests.prefix import RQ
from zsched import Client, InvalidSchedule, RedisUnavailable, RowsRefused
from zsched.core.clock import ManualClock, from_ms, to_ms
from zsched.errors import RedisRefused
from zsched.storage.log import LogPlace
from zsched.storage.puts import PutScripts, Replies


def test_valid_rows_are_scheduled_and_invalid_rows_reported_by_index(client: Client) -> None:
    client.schedule("app.task", id="there", every=60)
    rows: list[Any] = [
        {"func": "app.task", "id": "a", "at": SOON, "args": (1,)},
        {"func": "app.task", "id": "b c", "at": SOON},
        {"func": "app.task", "id": "r", "cron": "0 9 * * *"},
        {"func": "app.task", "id": "p", "at": datetime.now(UTC) - HOUR},
        {"at": SOON},
        {"func": "app.task", "id": "rel", "after": 60},
        {"func": "app.task"},
        "not a row", 5, None, [1, 2], {1: 2},
        {"func": "app.task", "every": 60, "id": "there", "if_exists": "error"},
        {"func": "app.task", "at": SOON, "id": "there", "if_exists": "error"},
        {"func": "app.task", "at": SOON, "id": "there", "if_exists": "keep"},
        {"func": "app.task", "every": 0},
        {"func": "app.task", "at": SOON, "timeout": "soon"},
        {"func": "app.task", "at": SOON, "tags": ["a", "b"], "id": "tagged"},
        {"func": "app.task", "at": SOON, "args": (lambda: None,)},
        {"func": "app.task", "id": "a", "at": SOON, "args": (2,)},
    ]  # fmt: skip

    many = client.schedule_many(rows, errors="return")

    bad = {
        1: "id=", 3: "at=", 4: "func: ", 6: "trigger: ", 7: "row=", 8: "row=", 9: "row=", 10: "row=", 11: "",
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


def test_refused_rows_are_raised_after_all_others_were_written(client: Client) -> None:
    rows: list[Any] = [{"func": "app.task", "id": f"i-{n}", "at": SOON} for n in range(500)]
    for n in (7, 8, 300, 499):
        rows[n]["queue"] = "a b"

    with pytest.raises(RowsRefused) as caught:
        client.schedule_many(rows)

    told, many = str(caught.value), caught.value.many
    assert told.startswith("4 of 500 rows were refused, 496 written: row 7: queue='a b': ")
    assert all(f"row {n}: queue=" in told for n in (7, 8, 300))
    assert told.endswith("; and 1 more in .many.errors")
    assert (496, [7, 8, 300, 499]) == (many.created, [index for index, _ in many.errors])
    assert 496 == len(list(client.list()))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (told, 496) == (str(copy), copy.many.created)


def test_misspelt_and_bad_choices_are_refused_and_no_rows_are_fine(client: Client) -> None:
    with pytest.raises(RowsRefused, match=r"row 0: func: the row has none; did you mean func where it says fun\?"):
        client.schedule_many([{"fun": "app.task", "at": SOON}])  # type: ignore[typeddict-item]

    with pytest.raises(InvalidSchedule, match=r"^errors='ignore': .*give one of raise, return"):
        client.schedule_many(iter(lambda: pytest.fail("it read a row"), None), errors="ignore")  # type: ignore[arg-type]

    assert (0, []) == (client.schedule_many([]).done, client.schedule_many(iter(())).ids)


def test_the_later_of_rows_with_one_id_wins(client: Client, redis_client: redis.Redis) -> None:
    many = client.schedule_many({"func": "app.task", "id": "a", "at": SOON, "args": (n,)} for n in range(3))

    assert (1, 2, ["a"] * 3) == (many.created, many.updated, many.ids)
    assert ("app.task", None, (2,), {}) == payload(redis_client, f"{RQ}:job:a-{to_ms(SOON)}")

    many = client.schedule_many({"func": "app.task", "id": "r", "every": 60 + n} for n in range(9))

    assert (1, 8, []) == (many.created, many.updated, many.errors)
    trigger = client.get("r").trigger
    assert trigger is not None
    assert "68000" == trigger.expr


@pytest.mark.parametrize(
    "kinds", ["one-shot, rule", "rule, one-shot", "rule, one-shot, rule", "one-shot, rule, one-shot"]
)
def test_rows_of_one_id_and_different_kinds_are_put_in_turn(client: Client, kinds: str) -> None:
    times: dict[str, Any] = {"one-shot": {"at": SOON}, "rule": {"cron": "0 9 * * *"}}
    names = kinds.split(", ")

    many = client.schedule_many({"func": "app.task", "id": "a", **times[name]} for name in names)

    kind = "once" if names[-1] == "one-shot" else "cron"
    assert ([], 1, len(names) - 1) == (many.errors, many.created, many.updated)
    assert [kind] == [schedule.kind for schedule in client.list()]


def test_a_generator_of_ten_thousand_rows_is_read(client: Client, redis_client: redis.Redis) -> None:
    told: list[int] = []

    many = client.schedule_many(
        ({"func": "app.task", "id": f"i-{n}", "at": SOON, "args": (n,)} for n in range(10_500)), told.append
    )

    assert (10_500, 10_500, []) == (many.created, many.done, many.errors)
    assert 10_500 == redis_client.zcard(KEYS.due_normal())
    assert (sorted(told), 10_500) == (told, told[-1])
    assert len(told) >= 50
    again = client.schedule_many({"func": "app.task", "id": f"i-{n}", "at": SOON, "args": (n,)} for n in range(10_500))
    assert 10_500 == again.unchanged


def test_rows_of_many_shapes_without_ids_are_scheduled(client: Client) -> None:
    rows = [
        {"func": f"app.task{n % 7}", "at": SOON, "queue": f"q{n % 3}", "priority": ("high", "low")[n % 2]}
        for n in range(500)
    ]

    many = client.schedule_many(rows)

    assert (500, 500) == (many.created, len(set(many.ids)))
    funcs = {(schedule.func, schedule.queue) for schedule in client.list()}
    assert 21 == len(funcs)


def test_naive_times_of_rows_are_local_in_their_zone(client: Client) -> None:
    at = datetime(2031, 1, 1, 9)
    rows = [{"func": "app.task", "id": f"a{n}", "at": at, "tz": tz} for n, tz in enumerate(["Asia/Seoul", "UTC"] * 2)]

    client.schedule_many([*rows, {"func": "app.task", "at": at}], errors="return")

    assert [0, 9, 0, 9] == [client.get(f"a{n}").next_at.hour for n in range(4)]  # type: ignore[union-attr]


def test_an_error_raised_by_the_row_generator_is_not_a_lost_connection(client: Client) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield {"func": "app.task", "id": "a", "at": SOON}
        raise RedisUnavailable("their own Redis is gone")

    with pytest.raises(RedisUnavailable, match=r"^their own"):
        client.schedule_many(rows())


def test_a_row_like_the_previous_row_is_checked_as_strictly(client: Client) -> None:
    rows = [{"func": "app.task", "at": SOON, "at_front": yes, "id": id} for id, yes in [("a", True), ("b", 1)]]

    many = client.schedule_many(rows, errors="return")

    assert (["a", None], 1) == (many.ids, len(many.errors))


def _rules(count: int, **options: Any) -> list[Any]:
    """Rows with 60 rules and 3 shapes."""
    return [
        {"func": "app.task", "id": f"r-{n:04}", "cron": f"{n % 60} 9 * * *", "args": (n,), "queue": f"q{n % 3}"}
        | options
        for n in range(count)
    ]


def test_recurring_rows_of_many_shapes_share_calls_and_entries(client: Client, redis_client: redis.Redis) -> None:
    told: list[int] = []

    many = client.schedule_many(_rules(1050), told.append)

    assert (1050, 1050, []) == (many.created, many.done, many.errors)
    assert 11 == redis_client.xlen(KEYS.log())
    assert (sorted(told), 1050) == (told, told[-1])
    found = client.get("r-1049")
    assert ("cron", "29 9 * * *", "q2") == (found.kind, found.trigger and found.trigger.expr, found.queue)
    assert ("app.task", None, (1049,), {}) == payload(redis_client, KEYS.template("r-1049"))


@pytest.mark.parametrize("jitter", [None, 30])
def test_a_row_and_a_call_put_the_same_schedule(client: Client, redis_client: redis.Redis, jitter: int | None) -> None:
    options = {"jitter": jitter, "tags": ["b", "a"], "pause_after_failures": 3, "catch_up": "all", "overlap": "queue"}
    client.schedule_many(_rules(120, **options))
    before = redis_client.xlen(KEYS.log())

    again = [client.schedule(row.pop("func"), **row) for row in _rules(120, **options)[57:62]]

    assert {"unchanged"} == {one.outcome for one in again}
    assert [client.get(one.id).next_at for one in again] == [one.next_at for one in again]
    assert (120, before) == (client.schedule_many(_rules(120, **options)).unchanged, redis_client.xlen(KEYS.log()))


def test_bad_recurring_rows_among_500_are_reported_and_the_rest_are_put(client: Client) -> None:
    rows = _rules(500)
    rows[1] |= {"cron": "0 0 30 2 *"}  # it never fires
    rows[2] |= {"ends": datetime(2020, 1, 1, tzinfo=UTC)}
    rows[250] |= {"cron": "61 9 * * *"}

    many = client.schedule_many(rows, errors="return")

    assert [1, 2, 250] == [index for index, _ in many.errors] == [n for n, id in enumerate(many.ids) if id is None]
    assert (497, 500) == (many.created, many.done)
    error = many.errors[-1][1]
    assert isinstance(error, InvalidSchedule)
    assert str(error).startswith("cron='61 9 * * *': ")
    assert error.remedy


def test_recurring_rows_that_may_not_replace_are_refused_or_kept_one_by_one(client: Client) -> None:
    client.schedule_many(_rules(3))

    many = client.schedule_many([*_rules(5, if_exists="error"), *_rules(7, if_exists="keep")], errors="return")

    assert [0, 1, 2] == [index for index, _ in many.errors]
    assert all("exists" in str(error) for _, error in many.errors)
    assert (4, 5) == (many.created, many.kept)


def test_a_recurring_row_whose_key_holds_another_type_is_reported(client: Client, redis_client: redis.Redis) -> None:
    redis_client.set(KEYS.template("r-0001"), "not ours")

    many = client.schedule_many(_rules(3), errors="return")

    [(index, error)] = many.errors
    assert (1, 2) == (index, many.created)
    assert isinstance(error, RedisRefused)


@pytest.mark.parametrize("wrong", [-2 * HOUR, 30 * HOUR])
def test_a_client_with_a_wrong_clock_puts_rows_by_the_servers_clock(
    redis_url: str, client: Client, redis_client: redis.Redis, wrong: timedelta
) -> None:
    rows = [
        {"func": "app.task", "id": f"r-{n:03}", "cron": "*/30 * * * *", "jitter": n % 2 or None} for n in range(700)
    ]
    now = from_ms(freeze(redis_client))
    clock = ManualClock(wall_ms=to_ms(now + wrong))
    redis_client.config_resetstat()

    many = Client.from_url(redis_url, clock=clock).schedule_many(rows)

    assert (700, []) == (many.created, many.errors)
    assert redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] <= 7 + 4  # the first rows twice
    assert 700 == client.schedule_many(rows).unchanged
    assert all(now < one.next_at <= now + HOUR for one in client.list() if one.next_at)


def test_a_row_whose_plans_are_always_outdated_is_reported(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def replies(puts: PutScripts, calls: Any) -> Iterator[Replies]:
        for _, texts, _ in calls:
            words = [b"AGAIN", b"created"] if "b" in texts else [b"AGAIN"]
            yield Replies(LogPlace("0-1", 5, True), words, [b"-", b"9"][: len(words)])

    monkeypatch.setattr(PutScripts, "put_many", replies)

    many = client.schedule_many([{"func": "app.task", "id": id, "every": 60} for id in "ab"], errors="return")

    [(index, error)] = many.errors
    assert (0, [None, "b"], 1, 2) == (index, many.ids, many.created, many.done)
    assert "faster than Redis answers" in str(error)
