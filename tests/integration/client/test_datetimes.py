"""Datetimes given to a client: the second pass of a repeated time, and odd values, at every door."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zsched import Client, InvalidSchedule, ZschedError
from zsched.core.clock import LAST_MS
from zsched.core.triggers.zones import instant_ms

NEW_YORK = "America/New_York"
FIRST = datetime(2031, 11, 2, 1, 30)  # a local time that winter time repeats
SECOND = FIRST.replace(fold=1)
SECOND_PASS = datetime(2031, 11, 2, 6, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)

Put = Callable[[Client, datetime], datetime | None]


def by_schedule(client: Client, at: datetime) -> datetime | None:
    return client.schedule("app.task", at=at, tz=NEW_YORK).next_at


def by_starts(client: Client, at: datetime) -> datetime | None:
    return client.schedule("app.task", every=3600, starts=at, tz=NEW_YORK).next_at


def by_ends(client: Client, at: datetime) -> datetime | None:
    given = client.preview(every=60, starts=FIRST - HOUR, ends=at, tz=NEW_YORK, n=1000)
    return given[-1].astimezone(UTC)


def by_update(client: Client, at: datetime) -> datetime | None:
    made = client.schedule("app.task", id="a", at=FIRST - HOUR, tz=NEW_YORK)
    return client.update(made.id, at=at).next_at


def by_an_update_of_its_start(client: Client, at: datetime) -> datetime | None:
    made = client.schedule("app.task", id="a", every=3600, starts=FIRST, tz=NEW_YORK)
    return client.update(made.id, starts=at).next_at


def by_many(client: Client, at: datetime) -> datetime | None:
    client.schedule_many({"func": "app.task", "id": str(n), "at": at, "tz": NEW_YORK} for n in range(2))
    return client.get("1").next_at


def by_many_rules(client: Client, at: datetime) -> datetime | None:
    starts = [FIRST, at, at.replace(tzinfo=ZoneInfo(NEW_YORK), fold=0), at.replace(tzinfo=ZoneInfo(NEW_YORK))]
    client.schedule_many(
        {"func": "app.task", "id": str(n), "every": 3600, "starts": each, "tz": NEW_YORK}
        for n, each in enumerate(starts)
    )
    assert [client.get(id).next_at for id in "02"] == [SECOND_PASS - HOUR] * 2
    assert client.get("1").next_at == client.get("3").next_at
    return client.get("3").next_at


def by_the_start_of_a_preview(client: Client, at: datetime) -> datetime | None:
    return client.preview(every=60, tz=NEW_YORK, start=at, n=1)[0].astimezone(UTC) - timedelta(minutes=1)


DOORS = (
    by_schedule, by_starts, by_ends, by_update, by_an_update_of_its_start, by_many, by_many_rules,
    by_the_start_of_a_preview,
)  # fmt: skip


@pytest.mark.parametrize("put", DOORS)
def test_a_naive_time_with_fold_1_is_the_second_pass(client: Client, put: Put) -> None:
    assert SECOND_PASS == put(client, SECOND)


def test_a_rules_fold_is_not_changed_by_the_fold_of_its_start(client: Client) -> None:
    made = client.schedule("app.task", cron="30 1 * * *", tz=NEW_YORK, fold="first", starts=SECOND)

    assert SECOND_PASS + timedelta(hours=24) == made.next_at


# -- odd values -------------------------------------------------------------------------------------


class Failing(tzinfo):
    """A zone whose code fails."""

    def utcoffset(self, _: datetime | None) -> timedelta:
        raise RuntimeError("no network")


class NotATime(datetime):
    """Like NaT of pandas: a datetime by its class."""

    def utcoffset(self) -> timedelta:
        raise ValueError("NaTType does not support utcoffset")

    def isoformat(self, *_: Any) -> str:
        return "NaT"


ODD: tuple[Any, ...] = (
    "2031-01-01", "2031-01-01T00:00:00Z", "tomorrow", "", "\0", "9" * 5000, b"2031-01-01", 0, 1, -1, 1_930_000_000,
    1.5, float("nan"), float("inf"), 10**30, True, False, Decimal(5), date(2031, 1, 1), time(9), HOUR, UTC, datetime,
    datetime.now, (2031, 1, 1), [FIRST], {"at": FIRST}, {FIRST}, object(), Ellipsis, NotImplemented, 1j,
    datetime(1969, 12, 31, 23, 59, tzinfo=UTC), datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), datetime(2031, 1, 1, tzinfo=tzinfo()),
    datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))), datetime(2031, 1, 1, tzinfo=Failing()),
    NotATime(2031, 1, 1),
)  # fmt: skip
NAIVE = (FIRST, SECOND)  # in calls without a zone

Ask = Callable[[Client, Any], object]
ASKED: dict[str, Ask] = {
    "at": lambda client, at: client.schedule("app.task", at=at),
    "starts": lambda client, at: client.schedule("app.task", every=5, starts=at),
    "ends": lambda client, at: client.schedule("app.task", cron="@daily", ends=at),
    "row": lambda client, at: client.schedule_many([{"func": "app.task", "at": at}], errors="return").errors[0][1],
    "update": lambda client, at: client.update("there", at=at),
    "start": lambda client, at: client.preview(every=5, start=at),
    "due_after": lambda client, at: list(client.list(due_after=at)),
    "due_before": lambda client, at: list(client.list(due_before=at)),
    "cancelled": lambda client, at: client.cancel_many(due_before=at, dry_run=True),
    "since": lambda client, at: client.history(since=at),
    "until": lambda client, at: client.runs(until=at),
    "log": lambda client, at: client.log(at),
    "from": lambda client, at: client.timeline(at, SECOND_PASS, 60),
    "to": lambda client, at: client.timeline(SECOND_PASS, at, 60),
    "backfill": lambda client, at: client.backfill("rule", at, SECOND_PASS),
}


def refusal(ask: Ask, client: Client, value: Any) -> BaseException | None:
    try:
        found = ask(client, value)
    except Exception as error:
        return error
    return found if isinstance(found, ZschedError) else None


@pytest.mark.parametrize("door", ASKED)
def test_an_odd_value_for_a_time_is_refused_with_its_field_and_a_remedy(client: Client, door: str) -> None:
    client.schedule("app.task", id="there", at=SECOND_PASS)
    client.schedule("app.task", id="rule", every=60)
    naive = NAIVE if door not in ("update", "start", "backfill") else ()  # these have a zone: the schedule's

    for value in (*ODD, datetime.min, datetime.max, *naive):
        error = refusal(ASKED[door], client, value)

        assert isinstance(error, InvalidSchedule), (door, value, error)
        assert error.field in (door, "at", "due_before", "since", "start"), (door, value, error)
        assert error.remedy, (door, value, error)
        assert str(error).startswith(f"{error.field}="), (door, value, error)


ZONES = ("UTC", NEW_YORK, "Europe/Dublin", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "Africa/Cairo")
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.builds(
    lambda at, fold: at.replace(fold=fold),
    st.datetimes(timezones=st.none() | OFFSETS | st.sampled_from(ZONES).map(ZoneInfo)),
    st.integers(0, 1),
)
EPOCH, MS = datetime(1970, 1, 1), timedelta(milliseconds=1)


def meaning(at: datetime, tz: str | None) -> int | None:
    """Return the milliseconds that Python's own rules give; None: it names no instant, or one out of range."""
    if at.tzinfo is None and tz is None:
        return None
    aware = at if at.tzinfo is not None or tz is None else at.replace(tzinfo=ZoneInfo(tz))
    first, second = aware.replace(fold=0).utcoffset(), aware.replace(fold=1).utcoffset()
    assert first is not None
    assert second is not None
    is_skipped = first < second
    offset = second if at.fold and not (is_skipped and at.tzinfo is None) else first  # a skipped time moves on
    ms = -((EPOCH - at.replace(tzinfo=None) + offset) // MS)
    return ms if 0 <= ms <= LAST_MS else None


@settings(deadline=None)
@given(TIMES, st.none() | st.sampled_from(ZONES))
def test_a_datetime_means_what_python_says_of_it_or_is_refused(at: datetime, tz: str | None) -> None:
    try:
        found = instant_ms("at", at, tz)
    except InvalidSchedule:
        found = None

    assert meaning(at, tz) == found
