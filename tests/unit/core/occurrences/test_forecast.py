"""A forecast of schedules: loads and their peaks, backlogs of workers, quiet gaps and suggestions."""

from dataclasses import replace

import pytest

from tests.builders import schedules
from zsched.core.model import Schedule, iso
from zsched.core.occurrences import forecast
from zsched.core.occurrences.forecast import By, Forecast, Forecaster, Load
from zsched.core.occurrences.policy import Policy
from zsched.core.options.choices import Overlap
from zsched.core.options.define import define_trigger
from zsched.core.triggers.trigger import build, due_of
from zsched.errors import InvalidSchedule

NOW_MS = 1_796_040_000_000  # a whole hour
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


def recurring(id: str, queue: str = "email", func: str = "app.send", jitter_ms: int = 0, **rule: object) -> Schedule:
    spec = replace(define_trigger(rule), jitter_ms=jitter_ms)  # type: ignore[arg-type]  # options of a rule
    nominal_ms = build(spec, NOW_MS).next_after(NOW_MS)
    assert nominal_ms is not None
    due_ms = due_of(build(spec, NOW_MS), id, nominal_ms)
    times = {"next_ms": due_ms, "nominal_ms": nominal_ms, "anchor_ms": NOW_MS}
    return schedules.schedule(id, trigger=spec, queue=queue, func=func, tz=spec.tz, **times)


def one_shots(*after_ms: int, queue: str = "email", func: str = "app.send") -> list[Schedule]:
    return [schedules.schedule(f"o{n}", next_ms=NOW_MS + ms, queue=queue, func=func) for n, ms in enumerate(after_ms)]


def of(given: list[Schedule], hours: int = 1, **durations_ms: int) -> Forecaster:
    known = {f"app.{name}": ms for name, ms in durations_ms.items()}
    return Forecaster(given, NOW_MS, NOW_MS, NOW_MS + hours * HOUR_MS, known)


MIXED = [recurring("a", every=600), recurring("b", "web", "app.page", cron="30 * * * *"), *one_shots(1_800_001)]


@pytest.mark.parametrize(
    ("by", "loads"),
    [
        (By.QUEUE, [("email", 6, 2, 30), ("web", 1, 1, 30)]),
        (By.FUNCTION, [("app.send", 6, 2, 30), ("app.page", 1, 1, 30)]),
        (By.MINUTE, [(None, 3, 3, 30), *((None, 1, 1, minute) for minute in (10, 20, 40, 50))]),
    ],
)
def test_loads_are_counted_by_a_key_with_the_highest_peak_first(
    by: By, loads: list[tuple[str | None, int, int, int]]
) -> None:
    found = of(MIXED).answer(by, None, 10)

    times = [(key, number, peak, NOW_MS + minute * MINUTE_MS) for key, number, peak, minute in loads]
    without_parts = [one._replace(parts=()) for one in found.loads]
    assert [Load(key or iso(at_ms) or "", *numbers, at_ms) for key, *numbers, at_ms in times] == without_parts
    assert ((), MINUTE_MS) == (found.occurrences, found.bucket_ms)


def test_the_first_minutes_of_a_forecast_have_their_largest_parts_by_function_and_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = [*MIXED, recurring("c", "fax", every=1800), recurring("d", "web", every=1800)]

    heaviest, *others = of(given).answer(By.MINUTE, None, 1).loads
    monkeypatch.setattr(forecast, "_MOST_CELLS", 100)
    [without, *_] = of(given).answer(By.MINUTE, None, 1).loads

    assert [("app.send", "email", 2), ("app.page", "web", 1), ("app.send", "fax", 1)] == list(heaviest.parts)
    assert (5, [()] * len(others)) == (heaviest.number, [one.parts for one in others])
    assert heaviest._replace(parts=()) == without


def test_suggestions_of_a_longer_forecast_are_those_for_the_peaks_of_its_first_six_days() -> None:
    given = [*MIXED, *one_shots(*[HOUR_MS] * 50)]

    short, long = (list(of(given, 24 * days).suggestions()) for days in (6, 30))

    assert short == long
    assert short


def test_a_forecast_lists_the_first_occurrences_and_says_if_there_are_more() -> None:
    some, everything = (of(MIXED).answer(None, None, limit) for limit in (2, 7))

    assert (["a", "a"], True) == ([one.id for one in some.occurrences], some.has_more)
    assert (7, False) == (len(everything.occurrences), everything.has_more)


@pytest.mark.parametrize(("hours", "bucket_ms"), [(24, MINUTE_MS), (24 * 30, HOUR_MS), (24 * 800, 24 * HOUR_MS)])
def test_a_longer_forecast_has_longer_buckets_on_whole_hours_and_days(hours: int, bucket_ms: int) -> None:
    found = of([recurring("a", every=86_400)], hours)

    assert bucket_ms == found.answer(By.QUEUE, None, 1).bucket_ms
    assert 0 == found.spans().start_ms % bucket_ms


def test_counts_of_too_many_keys_and_spans_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_MOST_CELLS", 100)

    with pytest.raises(InvalidSchedule, match="2 keys in 60 spans; give a longer one"):
        of(MIXED).answer(By.QUEUE, None, 1)


def test_a_backlog_grows_at_a_peak_and_is_gone_when_its_last_job_starts() -> None:
    given = of(one_shots(*[10 * MINUTE_MS] * 10), send=60_000)

    found = given.backlog("email", 2, 0, given.spans())

    at_ms = NOW_MS + 10 * MINUTE_MS
    assert (8, at_ms, at_ms + 4 * MINUTE_MS) == (found.peak, found.peak_ms, found.gone_ms)
    assert {iso(at_ms + n * MINUTE_MS): 10 - 2 * n for n in range(1, 5)} == found.waits
    assert (0, []) == (found.waiting, found.unknown)


def test_jobs_that_wait_now_come_first_and_take_as_long_as_usual() -> None:
    given = of(one_shots(1), send=60_000)

    found = given.backlog("email", 1, 4, given.spans())

    assert (4, NOW_MS + 1, NOW_MS + 4 * MINUTE_MS) == (found.peak, found.peak_ms, found.gone_ms)


def test_a_backlog_that_only_grows_is_not_gone_and_unknown_durations_are_named() -> None:
    both = recurring("a", every=60), recurring("b", every=60, func="app.new")
    given = of([replace(one, policy=Policy(overlap=Overlap.ALLOW)) for one in both], send=100_000)

    found = given.backlog("email", 1, 0, given.spans())

    assert (None, ["app.new"]) == (found.gone_ms, found.unknown)
    assert found.peak > 20


def test_a_queue_without_waiting_jobs_has_no_backlog() -> None:
    found = of(MIXED, send=1000).backlog("web", 1, 0, of(MIXED).spans())

    assert (0, NOW_MS, {}) == (found.peak, found.gone_ms, found.waits)


def test_a_backlog_of_too_many_runs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_MOST_RUNS", 5)

    with pytest.raises(InvalidSchedule, match="email has more than 5 runs; end earlier"):
        of(MIXED).backlog("email", 1, 0, of(MIXED).spans())


@pytest.mark.parametrize(
    ("window_ms", "gap"),
    [
        (MINUTE_MS, (0, 5)),
        (7 * MINUTE_MS, (17, 25)),  # a run of 2 minutes is over at 17
        (20 * MINUTE_MS, (27, 60)),
        (40 * MINUTE_MS, None),
    ],
)
def test_the_quiet_window_is_the_first_gap_in_which_nothing_fires_or_runs(
    window_ms: int, gap: tuple[int, int] | None
) -> None:
    given = of(one_shots(*(minute * MINUTE_MS for minute in (5, 10, 15, 25))), send=2 * MINUTE_MS)

    expected = None if gap is None else (NOW_MS + gap[0] * MINUTE_MS, NOW_MS + gap[1] * MINUTE_MS)
    assert expected == given.quiet(window_ms)


def test_a_peak_gets_suggestions_that_flatten_it() -> None:
    given = [recurring(f"d{n}", cron="30 * * * *") for n in range(100)] + [recurring("a", every=60)]

    found = list(of(given).suggestions())

    assert {("email", 101, NOW_MS + 30 * MINUTE_MS)} == {one[:3] for one in found}
    assert [
        ("jitter=10m for the 100 occurrences of cron 30 * * * * (UTC)", 11),
        ("moving the 100 occurrences of cron 30 * * * * (UTC) 30m earlier", 100),
        ("[queues.email] max_per_second = 0.17", 11),
    ] == [(one.change, one.after) for one in found]


def test_the_suggested_jitter_flattens_the_peak_indeed() -> None:
    given = [recurring(f"d{n}", cron="30 * * * *", jitter_ms=600_000) for n in range(1000)]

    [load] = of(given).answer(By.QUEUE, None, 1).loads

    assert 1000 == load.number
    assert load.peak < 150  # of 100 on average


def test_an_even_load_gets_no_suggestion() -> None:
    assert [] == list(of([recurring("a", every=60)]).suggestions())


def test_a_forecast_can_be_converted_to_json() -> None:
    given = of(MIXED, send=1500)
    found: Forecast = given.answer(By.QUEUE, None, 1)
    found.backlogs, found.quiet = [given.backlog("email", 1, 2, given.spans())], given.quiet(1)

    told = found.to_dict()

    assert ("queue", 60.0, 0.0, {"app.send": 1.5}) == tuple(
        told[name] for name in ("by", "bucket_s", "moved_s", "durations_s")
    )
    page = {"key": "web", "number": 1, "peak": 1, "peak_at": iso(NOW_MS + 30 * MINUTE_MS), "parts": []}
    assert page == told["loads"][1]
    minute = of(MIXED).answer(By.MINUTE, None, 1).to_dict()["loads"][0]
    assert {"func": "app.send", "queue": "email", "number": 2} == minute["parts"][0]
    assert ("email", 1, 2, iso(NOW_MS)) == tuple(
        told["backlogs"][0][name] for name in ("queue", "workers", "waiting", "peak_at")
    )
    assert {"from": iso(NOW_MS), "to": iso(NOW_MS + 10 * MINUTE_MS)} == told["quiet"]
