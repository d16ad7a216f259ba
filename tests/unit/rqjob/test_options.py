"""Options of a run in RQ's words: timeouts, times to live, retries, callbacks; and values that would kill a worker."""

import math
from datetime import timedelta
from typing import Any

import pytest
from rq import Callback, Retry

from tests.unit.rqjob.jobs import definition_of
from zsched.core.options.forms import RateLimit
from zsched.errors import InvalidSchedule
from zsched.storage import rqjob
from zsched.storage.rqjob import Encoder
from zsched.storage.rqoptions import plain


@pytest.mark.parametrize(
    ("given_as", "seconds"),
    [
        (None, 180), (60, 60), ("60", 60), ("90s", 90), ("5m", 300), ("1h", 3600), ("1h30m", 5400), ("1d", 86_400),
        (-1, -1), ("-1", -1), (1.9, 2), ("1.5", 2), ("500ms", 1),
        (timedelta(minutes=2), 120), (timedelta(milliseconds=1), 1),
    ],
)  # fmt: skip
def test_a_timeout_is_stored_in_seconds(given_as: Any, seconds: int) -> None:
    assert str(seconds) == Encoder().shared(definition_of(timeout=given_as))["timeout"]


TTLS = ["soon", "", -2, True, 10**12, timedelta(days=-1), [], math.nan]
REFUSED: dict[str, list[Any]] = {
    "timeout": ["soon", "", "1H", "5 m", 0, "0", -2, math.nan, math.inf, 1e300, 10**400, True, [], b"60", "9" * 5000],
    "result_ttl": TTLS,
    "failure_ttl": TTLS,
    "retry": [
        0, -1, True, 1.5, "3", [1], 1_000_001, 10**400, Retry(max=10**400), {}, {"max": 0}, {"max": 2.5},
        {"max": True}, Retry(2.5), {"max": 1, "interval": "x"}, {"maximum": 1}, {1: 2},  # type: ignore[arg-type]
    ],
    "meta": [[], "text", 5],
    "on_success": [
        {"func": "app.x", "timeout": 10**400}, {"func": "nodots"}, {"func": "app.done", "timeout": "1x"},
        {"path": "app.done"},
    ],
    "on_failure": [{"func": "app.x", "timeout": -2}],
}  # fmt: skip


@pytest.mark.parametrize(("option", "value"), [(option, value) for option in REFUSED for value in REFUSED[option]])
def test_an_option_that_rq_would_refuse_or_that_would_kill_a_worker_is_refused(option: str, value: Any) -> None:
    with pytest.raises(InvalidSchedule, match=f"^{option}=") as caught:
        Encoder().shared(definition_of(**{option: value}))

    assert option == caught.value.field


def test_retries_are_written_with_intervals_and_initial_number() -> None:
    at_once, spread = definition_of(retry=3), definition_of(retry=Retry(max=3, interval=[60, 300]))

    written = [Encoder().shared(definition) for definition in (at_once, spread)]

    assert [("3", "3", "[0]"), ("3", "3", "[60, 300]")] == [
        (pairs["zs_retries"], pairs["retries_left"], pairs["retry_intervals"]) for pairs in written
    ]
    assert [60, 300] == Encoder().options(written[1])["retry"].intervals
    assert "1000000" == Encoder().shared(definition_of(retry=1_000_000))["zs_retries"]  # the most


@pytest.mark.parametrize("interval", [[], [1.5], [60, True], [10**12]])
def test_a_retry_interval_that_rq_would_choke_on_is_refused(interval: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^retry=.*whole seconds"):
        Encoder().shared(definition_of(retry=Retry(max=3, interval=interval)))


@pytest.mark.parametrize(
    ("option", "given", "said"),
    [
        ("retry", Retry(3), 3),
        ("retry", Retry(2, 60), {"max": 2, "interval": [60]}),
        ("retry", Retry(3, [1, 2], enqueue_at_front=True), {"max": 3, "interval": [1, 2], "enqueue_at_front": True}),
        ("on_success", Callback("app.done"), "app.done"),
        ("on_failure", Callback("app.done", 5), {"func": "app.done", "timeout": 5}),
    ],
)
def test_rqs_own_objects_are_converted_to_plain_values(option: str, given: object, said: object) -> None:
    told = plain(given)

    assert said == told
    assert Encoder().shared(definition_of(**{option: given})) == Encoder().shared(definition_of(**{option: told}))


class _Likeness:
    """An object with the attributes of rq.RateLimit, also for an RQ without rate limits."""

    def __init__(self, key: Any, concurrency: Any) -> None:
        self.key, self.concurrency = key, concurrency


@pytest.mark.parametrize(
    "given_as", ["mail:a:3", ("mail:a", 3), ["mail:a", 3], {"key": "mail:a", "concurrency": 3}, _Likeness("mail:a", 3)]
)
def test_a_rate_limit_is_written_in_two_fields_and_as_a_flag(given_as: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rqjob, "HAS_RATE_LIMITS", True)
    definition = definition_of(rate_limit=given_as)

    pairs = Encoder().shared(definition)

    assert ("mail:a", "3", "l") == (pairs["rate_limit_key"], pairs["rate_limit_concurrency"], definition.letters())
    assert (RateLimit("mail:a", 3), "mail:a:3") == (definition.rate_limit, definition.arguments()["rate_limit"])


@pytest.mark.parametrize(
    ("rate_limit", "problem"),
    [
        ("mail", "not a rate limit"), ("mail:", "not a rate limit"), ("mail:-1", "not a rate limit"),
        ("10/m", "not a rate limit"), (3, "not a rate limit"), (("mail", 3, 4), "not a rate limit"),
        (("mail", True), "not a rate limit"), (("mail", 2.5), "not a rate limit"), ((b"mail", 3), "not a rate limit"),
        ({"key": "mail"}, "not a rate limit"), (_Likeness("mail", "3"), "not a rate limit"),
        ("mail:٣", "not a rate limit"), ("mail:" + "9" * 5000, "not a rate limit"),
        ("mail:0", "0 slots; give 1 to 1000000"), ("mail:1000001", "1000001 slots; give 1 to 1000000"),
        (":3", "not a usable key; give 1 to 200 printable"), ("x" * 201 + ":3", "not a usable key"),
        ("a\nb:3", "not a usable key"), ("mail:allowed:3", "keys that end in :allowed and :rate_limited are reserved"),
        ("mail:rate_limited:3", "reserved by RQ; give another key"),
    ],
)  # fmt: skip
def test_an_invalid_or_ambiguous_rate_limit_is_refused(rate_limit: Any, problem: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"^rate_limit=") as refused:
        definition_of(rate_limit=rate_limit)

    assert problem in str(refused.value)


def test_a_rate_limit_is_refused_with_an_rq_without_rate_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rqjob, "HAS_RATE_LIMITS", False)
    monkeypatch.setattr(rqjob, "HERE", "2.12.1")

    with pytest.raises(InvalidSchedule) as refused:
        Encoder().shared(definition_of(rate_limit="mail:3"))

    assert "rate_limit='mail:3': RQ 2.12.1, which is installed here, has no rate limits; install rq>=3" in str(
        refused.value
    )
