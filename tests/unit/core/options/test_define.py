"""Options of client.schedule: refused values, and the meaning of accepted ones."""

import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from zsched.core.clock import LAST_MS
from zsched.core.model import After, At, Now
from zsched.core.options.arguments import check_id, check_queue, seconds_to_ms
from zsched.core.options.choices import IfExists, OnLost, OnUncertain, Priority
from zsched.core.options.define import SCHEDULE_OPTIONS, define, define_now, define_trigger
from zsched.core.options.forms import ValueType
from zsched.core.options.table import FOR_ENQUEUE, options_taking
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.spec import Fold, Gap, TriggerSpec
from zsched.core.triggers.trigger import check
from zsched.core.triggers.zones import instant_ms
from zsched.errors import NOT_GIVEN, InvalidSchedule

AT = datetime(2026, 11, 21, 8, 0, 0, 123000, tzinfo=UTC)
AT_MS = 1_795_248_000_123


def _define(**options: Any) -> Any:
    return define("app.task", options, fallback_id="made-up")


def _define_and_check(options: dict[str, Any]) -> None:
    """Define and check a schedule, like the client before it writes."""
    check(_define(**options).when, AT_MS)


def each(field: str, *values: object, **more: object) -> list[tuple[str, dict[str, Any]]]:
    """Return a row for each value of an option that is refused beside *more*."""
    return [(field, more | {field: value}) for value in values]


NEW_YORK = {"tz": "America/New_York"}
LAST, EAST, WEST = datetime(9999, 12, 31, 23), timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))
BAD: list[tuple[str, dict[str, Any]]] = [
    ("trigger", {"at": None}),
    ("cron and rrule", {"cron": "* * * * *", "rrule": "FREQ=DAILY"}),
    *each("tz", "Mars/Olympus", "EST", "right/UTC", "posix/UTC", "localtime", cron="* * * * *"),
    *each("tz", "../../etc/passwd", "", 5, timezone(timedelta(hours=1)), cron="* * * * *"),
    # instants
    *each("at", datetime(2026, 11, 21, 8), "2026-11-21T08:00Z", 1_795_248_000),
    *each("at", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(1, 1, 1, tzinfo=EAST)),
    *each("at", datetime(9999, 12, 31, 23, 59, 59, 999_900, tzinfo=UTC), LAST.replace(tzinfo=WEST)),
    *each("at", date(2026, 11, 21), tz="UTC"),
    *each("at", datetime(1, 1, 1), tz="Pacific/Apia"),
    *each("at", LAST, **NEW_YORK),
    *each("at", datetime(2026, 3, 8, 2, 30), gap="skip", **NEW_YORK),
    *each("gap", "forward", at=AT),
    *each("fold", "third", at=AT),
    *each("fold", "both", at=datetime(2026, 11, 1, 1, 30), **NEW_YORK),
    # durations
    *each("every", 0, -1, math.nan, math.inf, True, "5 m", 0.0001, timedelta(0), timedelta.max, 10**400),
    *each("after", -1, math.nan, -math.inf, 1e306, 10**400, "soon", False, timedelta.max, timedelta(milliseconds=-1)),
    # rules
    *each("cron", "* * * *", "61 * * * *", "0 0 30 2 *", ",".join(["1"] * 20_000) + " * * * *"),
    *each("cron", "9" * 5000 + " * * * *", "", 5, "* * * * * * * *"),
    *each("rrule", "FREQ=SECONDLY", "FREQ=DAILY;INTERVAL=0", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "nonsense", 5),
    *each("rrule", "FREQ=DAILY;UNTIL=20271301", starts=AT),
    *each("count", 2, rrule="FREQ=DAILY;COUNT=3"),
    *each("count", 0, True, 1.5, every=5),
    *each("count", 3, after=5),
    *each("starts", datetime(2026, 1, 1), every=5),
    *each("starts", AT, at=AT),
    *each("ends", "tomorrow", every=5),
    *each("ends", AT - timedelta(seconds=1), every=5, starts=AT),
    # ids, lanes, queues, texts
    *each("id", "a b", "a.b", "a:b", "a" * 200, "", "ümlaut", "line\n", 42, b"bytes", at=AT),
    *each("priority", "urgent", 1, None, at=AT),
    *each("queue", "", "a b", "a\tb", "bell\a", "esc\x1b[31m", "zero\u200bwidth", "no\u00a0break", at=AT),
    *each("queue", "sur\ud800rogate", "--url", "a:intermediate", "q" * 129, 5, None, at=AT),
    *each("description", "two\nlines", "x" * 201, at=AT),
    *each("tags", "one", ["a"] * 33, [1], None, at=AT),
    *each("owner", 5, at=AT),
    *each("owner", "\x00", at=AT),
    *each("at_front", "yes", at=AT),
    *each("allow_past", 1, at=AT),
    *each("if_exists", "update", at=AT),
    *each("on_uncertain", "maybe", at=AT),
]


@pytest.mark.parametrize(("field", "options"), BAD, ids=[f"{n}-{field}" for n, (field, _) in enumerate(BAD)])
def test_bad_input_is_an_error_with_field_value_and_remedy(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        _define_and_check(options)

    error = caught.value
    assert field == error.field
    assert str(error).startswith(field + (": " if error.value is NOT_GIVEN else "="))
    assert error.problem
    assert error.remedy
    assert len(str(error)) < 2000


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("eta", "at"), ("run_date", "at"), ("countdown", "after"), ("delay", "after"), ("interval", "every"),
        ("job_id", "id"), ("job_timeout", "timeout"), ("timezone", "tz"), ("start_date", "starts"),
        ("queue_name", "queue"), ("depends_on", "on_success"), ("ttl", "expires_after"), ("cron_string", "cron"),
        ("prioritiy", "priority"), ("quee", "queue"), ("time_out", "timeout"), ("result_tll", "result_ttl"),
    ],
)  # fmt: skip
def test_an_unknown_option_is_refused_with_the_matching_option(theirs: str, ours: str) -> None:
    with pytest.raises(InvalidSchedule, match=rf"^{theirs}=5: no such option here; our option is {ours}=$"):
        _define(at=AT, **{theirs: 5})


@pytest.mark.parametrize("argument", ["cart", "uid", "user_id", "data"])
def test_an_argument_of_the_function_given_as_an_option_is_sent_to_kwargs(argument: str) -> None:
    remedy = "an argument of the function goes into kwargs=; options are after, allow_past, "
    with pytest.raises(InvalidSchedule, match=rf"^{argument}=5: no such option here; {remedy}"):
        _define(at=AT, **{argument: 5})


def test_an_object_as_queue_is_refused_with_the_demand_for_its_name() -> None:
    with pytest.raises(InvalidSchedule, match=r"not a usable queue name; give a name of 1 to 128 printable"):
        _define(at=AT, queue=object())


TIMES = ["at", "after", "every", "cron", "rrule", "tz", "starts", "allow_past", "count"]


@pytest.mark.parametrize("name", [*TIMES, "pause_after_failures"])
def test_enqueue_takes_no_time_and_no_option_of_rules(name: str) -> None:
    assert name in SCHEDULE_OPTIONS - FOR_ENQUEUE
    with pytest.raises(InvalidSchedule, match=f"^{name}=.*no such option here"):
        define_now("app.task", {name: None}, "made-up")


@pytest.mark.parametrize(
    ("given", "meant"), [({}, "retry"), ({"on_lost": "fail"}, "fail"), ({"on_lost": None}, "retry")]
)
@pytest.mark.parametrize("when", [{"at": AT}, {"after": 5}, {"every": 5}])
def test_every_schedule_has_on_lost_retry_by_default(given: dict[str, Any], meant: str, when: dict[str, Any]) -> None:
    assert OnLost(meant) is _define(**when, **given).on_lost
    assert OnLost(meant) is define_now("app.task", given, "made-up").on_lost


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"at": AT, "xyzzy": 5}, "options are .*after.*rrule"),
    *(({"every": 5, "on_lost": value}, "^on_lost=.*give one of retry, fail") for value in ("again", "", 0, False)),
    *(
        ({"every": 5, "pause_after_failures": value}, "^pause_after_failures=.*give a whole number from 1")
        for value in (0, -1, 1_000_001, True, 2.0, "2")
    ),
    ({"at": AT, "pause_after_failures": 2}, "^pause_after_failures=.*a one-shot has one run.*leave it out"),
    ({}, "^trigger: none was given; give exactly one of at, "),
    ({"at": AT, "every": 5}, "^at and every: more than one"),
]


@pytest.mark.parametrize(("options", "says"), REFUSED)
def test_a_refusal_says_what_to_give_instead(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says):
        _define(**options)


def test_a_one_shot_without_options_has_the_defaults() -> None:
    definition = _define(at=AT)

    assert (At(AT_MS), "made-up") == (definition.when, definition.id)
    assert ("app.task", (), None, None) == (definition.func, definition.args, definition.kwargs, definition.timeout)
    assert ("UTC", "default", Priority.NORMAL, False) == (
        definition.tz, definition.queue, definition.priority, definition.at_front,
    )  # fmt: skip
    assert (OnUncertain.REFIRE, IfExists.REPLACE, ()) == (
        definition.on_uncertain, definition.if_exists, definition.tags,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"at": AT, "id": "a-Z_9"}, {"id": "a-Z_9"}),
        ({"at": AT, "tags": ["b", "a", "b"]}, {"tags": ("a", "b")}),
        ({"at": AT, "priority": Priority.LOW}, {"priority": Priority.LOW}),
        ({"at": AT, "if_exists": IfExists.KEEP}, {"if_exists": IfExists.KEEP}),
        ({"at": AT, "on_uncertain": OnUncertain.SKIP}, {"on_uncertain": OnUncertain.SKIP}),
        *(({"every": 5, "pause_after_failures": n}, {"pause_after_failures": n}) for n in (1, 3, 1_000_000, None)),
        ({"at": datetime(2026, 11, 1, 1, 30), "tz": "America/New_York", "fold": "second"},
         {"when": At(1_793_511_000_000 + 3_600_000, -5 * 3600)}),
    ],
)  # fmt: skip
def test_an_option_sets_the_attributes_of_the_definition(options: dict[str, Any], expected: dict[str, Any]) -> None:
    definition = _define(**options)

    assert expected == {name: getattr(definition, name) for name in expected}


@pytest.mark.parametrize("length", [1, 128])
def test_ids_of_1_to_128_characters_are_accepted(length: int) -> None:
    assert "x" * length == check_id("x" * length)


@pytest.mark.parametrize("queue", ["default", "push.high", "a:b", "größe", "日本語", "q" * 128, "a-b"])
def test_queue_names_with_dots_colons_and_unicode_are_accepted(queue: str) -> None:
    assert queue == check_queue(queue)


@pytest.mark.parametrize(
    ("at", "tz", "expected"),
    [
        (AT, None, AT_MS),
        (AT, "Asia/Seoul", AT_MS),
        (AT + timedelta(microseconds=1), None, AT_MS + 1),
        (datetime(2026, 11, 21, 8), "UTC", AT_MS - 123),
        (datetime(2026, 11, 21, 8), "Asia/Seoul", AT_MS - 123 - 9 * 3_600_000),
        (datetime(2026, 11, 21, 8, 0, 0, 1), "UTC", AT_MS - 122),
        (datetime(2026, 11, 21, 8, 0, 0, 1000), "UTC", AT_MS - 122),
        (datetime(2026, 11, 21, 8, 0, 0, 1001), "UTC", AT_MS - 121),
        (datetime(2026, 3, 8, 2, 30), "America/New_York", 1_772_955_000_000),  # a gap: 03:30 EDT
        (datetime(2026, 11, 1, 1, 30), "America/New_York", 1_793_511_000_000),  # a fold: the first, EDT
        (datetime(2026, 11, 1, 1, 30, fold=1), "America/New_York", 1_793_514_600_000),  # PEP 495: the second, EST
        (datetime(2026, 3, 8, 2, 30, fold=1), "America/New_York", 1_772_955_000_000),  # no repeated time
        (datetime(1970, 1, 1, tzinfo=UTC), None, 0),
        (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), None, LAST_MS),
    ],
)
def test_an_instant_is_converted_to_milliseconds_in_its_zone(at: datetime, tz: str | None, expected: int) -> None:
    assert expected == _define(at=at, tz=tz).when.due_ms  # type: ignore[union-attr]  # a one-shot


def test_a_zone_may_be_given_as_zoneinfo() -> None:
    assert _define(cron="0 9 * * *", tz="Asia/Seoul") == _define(cron="0 9 * * *", tz=ZoneInfo("Asia/Seoul"))


MICROSECOND, DAY = timedelta(microseconds=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("after", "ms"), [(0, 0), (5, 5000), (0.1 + 0.2, 300), (1.0001, 1001), (MICROSECOND, 1), (DAY, 86_400_000)]
)
def test_a_delay_is_converted_to_whole_milliseconds_and_never_shortened(after: Any, ms: int) -> None:
    assert After(ms) == _define(after=after).when


def test_a_rule_keeps_all_of_its_bounds_and_the_count_of_an_rrule_apart_from_its_text() -> None:
    bounds = {"starts": datetime(2026, 1, 1), "ends": AT, "count": 7, "gap": "shift", "fold": "both"}

    when, counted = _define(cron="0 9  * * 1-5", **bounds, **NEW_YORK).when, _define(rrule="FREQ=DAILY;COUNT=3").when

    expected = TriggerSpec(CRON, "0 9 * * 1-5", "America/New_York", 1_767_243_600_000, AT_MS, 7, Gap.SHIFT, Fold.BOTH)
    assert (expected, "FREQ=DAILY", 3) == (when, counted.expr, counted.count)


@pytest.mark.parametrize(
    ("kind", "expr", "gap"),
    [("cron", "0 9 * * *", Gap.FIRST_VALID), ("rrule", "FREQ=DAILY", Gap.SHIFT), ("every", 5, Gap.SHIFT)],
)
def test_every_kind_of_trigger_has_its_default_for_gaps(kind: str, expr: Any, gap: Gap) -> None:
    assert gap is _define(**{kind: expr}).when.gap


def test_a_run_now_differs_from_a_one_shot_only_in_its_time() -> None:
    now, later = define_now("app.task", {"queue": "sms"}, "made-up"), _define(after=0, queue="sms")

    assert replace(later, when=Now()) == now


def test_a_trigger_alone_refuses_options_of_schedules_and_a_jitter_for_that_depends_on_an_id() -> None:
    assert EVERY is define_trigger({"every": 5, "jitter": None}).kind
    for options in ({"at": AT}, {"every": 5, "queue": "x"}, {"every": 5, "overlap": "skip"}, {}):
        with pytest.raises(InvalidSchedule):
            define_trigger(options)
    with pytest.raises(InvalidSchedule, match=r"^jitter=2: .*id.*preview a schedule by its id"):
        define_trigger({"every": 5, "jitter": 2})


@pytest.mark.parametrize(
    ("at", "remedy"),
    [
        ("2027-01-01T09:00", "give a datetime: datetime.fromisoformat('2027-01-01T09:00:00')"),
        ("2027-01-01T09:00Z", "give a datetime: datetime.fromisoformat('2027-01-01T09:00:00+00:00')"),
        ("tomorrow", "give a datetime"),
        (20270101, "give a datetime"),
        (date(2027, 1, 1), "give a datetime: a date alone has no time of day"),
    ],
)
def test_another_value_than_a_datetime_is_refused_with_the_datetime_to_give(at: Any, remedy: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        _define(at=at)

    assert ("at", "not a datetime", remedy) == (caught.value.field, caught.value.problem, caught.value.remedy)


@pytest.mark.parametrize(("field", "has_zone"), [("at", True), ("starts", True), ("when", False), ("since", False)])
def test_a_naive_datetime_is_refused_with_a_zone_only_where_there_is_one_to_give(field: str, has_zone: bool) -> None:
    with pytest.raises(InvalidSchedule, match="a naive datetime is ambiguous; give ") as caught:
        instant_ms(field, datetime(2027, 1, 1), None)

    assert (has_zone, True) == ("tz=" in caught.value.remedy, "aware one" in caught.value.remedy)


def test_an_error_message_cuts_a_long_value() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        _define(at=AT, id="x" * 100_000)

    assert len(str(caught.value)) < 200


def test_a_value_whose_repr_fails_does_not_hide_the_error() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(InvalidSchedule, match=r"^id=<Hostile>"):
        _define(at=AT, id=Hostile())


def test_every_duration_may_be_a_text() -> None:
    durations = {*options_taking(ValueType.DURATION)} - {"after"}
    assert {"every", "jitter", "expires_after", "catch_up_window", "timeout", "result_ttl", "failure_ttl"} == durations

    of_texts = _define(every="1d", jitter="90s", expires_after="1h30m", catch_up_window="2h")

    assert of_texts == _define(every=86_400, jitter=90, expires_after=5400, catch_up_window=7200)
    assert After(120_000) == _define(after="2m").when


@pytest.mark.parametrize("function", [instant_ms, lambda field, value, tz: seconds_to_ms(field, value, 0)])
def test_an_error_names_the_callers_field(function: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^due_after="):
        function("due_after", object(), None)
