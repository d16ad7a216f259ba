"""RQ's cron strings, which fire here when they do there, and the scores of its registries."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter
from rq.cron import CronJob

from tests.unit.imports.test_fields import fires
from zsched.core.clock import from_ms, to_ms
from zsched.imports.rqcron import _item, cron_of_croniter
from zsched.imports.rqjobs import not_before, score_of
from zsched.storage.rqversion import IS_CRON_LOCAL

START = datetime(2028, 2, 20, tzinfo=UTC)  # before a leap day
DAYS = 90
STARTS = [datetime(2028, month, day, tzinfo=UTC) for month, day in ((3, 9), (3, 23), (10, 26), (11, 2), (9, 28))]


@pytest.mark.parametrize(
    "text",
    [
        "0 9 * * 1-5", "0 0 13 * 5", "0 0 */2 * mon", "0 0 */2 * */3", "0 0 */2 * *", "0 0 */1 * mon", "0 0 1-31 * mon",
        "0 0 1 * 0-6", "0 0 1 * 0-7", "0 0 ? * fri", "5/20 1 L * *", "5/20 1 L * 3", "0 0 * * L5",
        "0 12 * * 5#2,1#1", "30 2 13 * 5 15", "0 */6 * 2,3 * */30", "@weekly",
    ],
)  # fmt: skip
def test_a_cron_string_fires_when_rq_enqueues_it(text: str) -> None:
    theirs, expected = croniter(text, START - timedelta(seconds=1)), []
    while (at := theirs.get_next(datetime)) < START + timedelta(days=DAYS):
        expected.append(at)

    assert expected == fires(cron_of_croniter(text), "UTC", START, DAYS * 1440)


@pytest.mark.parametrize("text", ["0 0 1 1 * 0 2050", "0 0 *,5 * mon"])
def test_a_cron_string_without_a_counterpart_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^cron '.*; (write|schedule)"):
        cron_of_croniter(text)


@pytest.fixture
def as_before() -> Iterator[None]:
    """Reset zone changes of the process after the test: this is set up first, so it ends last."""
    yield
    time.tzset()


@pytest.mark.skipif(not IS_CRON_LOCAL, reason="RQ 2 reads cron strings in UTC")
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize("text", ["30 2 * * *", "0 9 * * 1-5", "0,30 1-3 * * *", "15 0,2 * * *"])
def test_local_times_around_a_clock_change_agree_with_rq(
    as_before: None, zone: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    for start in STARTS:
        job, expected = CronJob("q", func_name="app.task", cron=text), []
        job.latest_enqueue_time = start - timedelta(seconds=1)
        while (at := job.get_next_enqueue_time()) < start + timedelta(days=6):
            expected.append(at)
            job.latest_enqueue_time = at

        options = _item(job, zone, "n", "n").options

        told = {name: options[name] for name in ("gap", "fold")}
        assert expected == fires(options["cron"], options["tz"], start, 6 * 1440, **told)


def test_rq_reads_cron_fields_in_the_machines_zone_since_the_version_that_is_named(
    as_before: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    job = CronJob("q", func_name="app.task", cron="0 9 * * *")
    job.latest_enqueue_time = datetime(2028, 1, 1, 12, tzinfo=UTC)

    hour = job.get_next_enqueue_time().astimezone(UTC).hour

    assert (0 if IS_CRON_LOCAL else 9) == hour


SECOND_MS = 1_800_000_000_000


def test_a_score_of_a_whole_second_is_due_at_its_end() -> None:
    assert from_ms(SECOND_MS + 1000) == not_before(SECOND_MS / 1000)


def test_a_score_of_a_millisecond_is_read_back_unchanged() -> None:
    times_ms = range(SECOND_MS, SECOND_MS + 2001)

    assert list(times_ms) == [to_ms(not_before(score_of(at_ms))) for at_ms in times_ms]


def test_a_score_of_a_millisecond_lies_within_the_millisecond_before() -> None:
    assert all(
        (SECOND_MS + ms) / 1000 - 0.001 < score_of(SECOND_MS + ms) < (SECOND_MS + ms) / 1000 for ms in range(1000)
    )


@pytest.mark.parametrize("score_s", [float("inf"), float("-inf"), float("nan"), 1e300, 1.8e12])
def test_an_invalid_score_is_refused_with_a_remedy(score_s: float) -> None:
    with pytest.raises(ValueError, match="ZADD"):
        not_before(score_s)
