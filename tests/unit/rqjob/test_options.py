"""Options of a run in RQ's words: timeouts, times to live, retries, callbacks; and what would kill a worker."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from rq import Callback, Retry

from tests.unit.rqjob.ground import definition_of
from zsched.errors import InvalidSchedule
from zsched.storage.rqjob import Encoder, plain, timeout_s


@pytest.mark.parametrize(
    ("given_as", "seconds"),
    [
        (None, 180), (60, 60), ("60", 60), ("90s", 90), ("5m", 300), ("1h", 3600), ("1H", 3600), ("1d", 86_400),
        (-1, -1), ("-1", -1), (1.9, 1), (timedelta(minutes=2), 120), (timedelta(milliseconds=1), 1),
    ],
)  # fmt: skip
def test_a_timeout_is_stored_in_seconds(given_as: Any, seconds: int) -> None:
    assert seconds == timeout_s(given_as)
    assert str(seconds) == Encoder().shared(definition_of(timeout=given_as))["timeout"]


@pytest.mark.parametrize(
    "timeout",
    ["soon", "", "1w", "1.5", "1h30m", 0, "0", -2, math.nan, math.inf, 1e300, 10**400, True, [], b"60", "9" * 5000],
)
def test_a_timeout_that_would_kill_a_worker_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^timeout="):
        timeout_s(timeout)


@pytest.mark.parametrize("field", ["result_ttl", "failure_ttl"])
@pytest.mark.parametrize("ttl", ["60", 1.5, -2, True, 10**12, timedelta(days=-1), [], math.nan])
def test_a_time_to_live_that_rq_cannot_read_is_refused(field: str, ttl: Any) -> None:
    with pytest.raises(InvalidSchedule, match=f"^{field}="):
        Encoder().shared(definition_of(**{field: ttl}))


@pytest.mark.parametrize("retry", [0, -1, True, 1.5, "3", [1]])
def test_retries_are_a_number(retry: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^retry="):
        Encoder().shared(definition_of(retry=retry))


def test_retries_are_written_with_their_intervals_and_how_many_there_were_at_first() -> None:
    at_once, spread = definition_of(retry=3), definition_of(retry=Retry(max=3, interval=[60, 300]))

    written = [Encoder().shared(definition) for definition in (at_once, spread)]

    assert [("3", "3", "[0]"), ("3", "3", "[60, 300]")] == [
        (pairs["zs_retries"], pairs["retries_left"], pairs["retry_intervals"]) for pairs in written
    ]
    assert [60, 300] == Encoder().options(written[1])["retry"].intervals


@pytest.mark.parametrize("interval", [[], [1.5], [60, True], [10**12]])
def test_a_retry_interval_that_rq_would_choke_on_is_refused(interval: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^retry=.*whole seconds"):
        Encoder().shared(definition_of(retry=Retry(max=3, interval=interval)))


@pytest.mark.parametrize("meta", [[], "text", 5])
def test_meta_is_a_dict(meta: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^meta="):
        Encoder().shared(definition_of(meta=meta))


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
def test_rqs_own_objects_can_be_said_as_plain_values(option: str, given: object, said: object) -> None:
    told = plain(given)

    assert said == told
    assert Encoder().shared(definition_of(**{option: given})) == Encoder().shared(definition_of(**{option: told}))


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("retry", {}),
        ("retry", {"max": 0}),
        ("retry", {"max": 2.5}),
        ("retry", {"max": True}),
        ("retry", Retry(2.5)),  # type: ignore[arg-type]  # a worker would die of it
        ("retry", {"max": 1, "interval": "x"}),
        ("retry", {"maximum": 1}),
        ("retry", {1: 2}),
        ("on_success", {"func": "nodots"}),
        ("on_success", {"func": "app.done", "timeout": "1x"}),
        ("on_success", {"path": "app.done"}),
    ],
)
def test_plain_values_that_rq_would_refuse_are_refused(option: str, given: object) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        Encoder().shared(definition_of(**{option: given}))

    assert option == caught.value.field
