"""The reasons of lateness, given only if the past of a schedule and of the leaders proves them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import zsched
from tests.unit.core.stories import COMPLETE, DUE, DUE_MS, MINUTE_MS, RUN, change, put, texts
from zsched.core.log.kinds import leaders_kinds
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.lateness import Absences
from zsched.core.occurrences.outcomes import What
from zsched.core.story.source import Source
from zsched.storage.scripts import load

DELAYED = "firing was on hold, its queue was rate-limited, or other runs were due first"


def fired_late(
    *before: Change,
    by_ms: int = 10 * MINUTE_MS,
    term_ms: int | None = None,
    led_ms: int | None = None,
    source: Source = COMPLETE,
) -> str:
    """Return the words for a fire *by_ms* after its time, which was the first of January."""
    leaders = {"term_us": (term_ms or 0) * 1000, "led_us": (led_ms or 0) * 1000}
    fire = change(What.FIRED, DUE_MS + by_ms, entry="1-7", nominal_ms=DUE_MS, run_id=RUN, **leaders)
    return texts(*before, fire, source=source)[-1]


def reason(line: str) -> str:
    return line.partition(" late: ")[2].partition("; run ")[0]


def outage(until: str, since: str = "then") -> str:
    return f"no daemon led from {since} until 2026-01-01 00:{until}+00:00"


def resumed(at_ms: int) -> Change:
    return change(What.RESUMED, at_ms, nominal_ms=DUE_MS)


FIVE_MS = DUE_MS + 5 * MINUTE_MS
PUT_LATE = "it was put only 2026-01-01 00:05:00+00:00, when its time had passed"
NEW_RULES = change(What.REPLANNED, FIVE_MS, nominal_ms=DUE_MS + 60 * MINUTE_MS, next_ms=DUE_MS)
LED = "between 2026-01-01 00:00:06+00:00 and 2026-01-01 00:00:08+00:00"
LATE = {
    "more than a tenth of a second": (fired_late(put(0), by_ms=101, term_ms=DUE_MS + 100), outage("00:00.100")),
    "nobody led": (fired_late(put(0), term_ms=DUE_MS + 9 * MINUTE_MS), outage("09:00")),
    "paused": (
        fired_late(put(0), resumed(DUE_MS + MINUTE_MS), term_ms=DUE_MS - 1),
        "it was paused until 2026-01-01 00:01:00+00:00",
    ),
    "a pause that ended before the due time": (fired_late(put(0), resumed(DUE_MS - MINUTE_MS)), DELAYED),
    "a pause that ended before a late put": (fired_late(resumed(DUE_MS + MINUTE_MS), put(FIVE_MS)), PUT_LATE),
    "put late": (fired_late(put(FIVE_MS), term_ms=DUE_MS + MINUTE_MS), PUT_LATE),
    "put to fire at once": (fired_late(put(DUE_MS + 0.5)), DELAYED),
    "the new rules of its zone came late": (
        fired_late(put(0), NEW_RULES, term_ms=DUE_MS + 4 * MINUTE_MS),
        "its zone's new rules came only 2026-01-01 00:05:00+00:00, when its time had passed",
    ),
    "the later of two reasons": (
        fired_late(put(FIVE_MS), term_ms=DUE_MS + 6 * MINUTE_MS),
        outage("06:00", "2026-01-01 00:05:00+00:00"),
    ),
    "no term is known": (fired_late(put(0)), DELAYED),
    "a term began before": (fired_late(put(0), term_ms=DUE_MS - MINUTE_MS), DELAYED),
    "a leader wrote an entry": (
        fired_late(put(0), led_ms=DUE_MS + 6000, term_ms=DUE_MS + 8000, by_ms=13_000),
        f"{DELAYED}, or no daemon led {LED}",
    ),
    "a leader wrote before it was due": (fired_late(put(0), led_ms=DUE_MS - 1, term_ms=DUE_MS + 8000), outage("00:08")),
    "a leader wrote before the put": (
        fired_late(put(DUE_MS + 5000), led_ms=DUE_MS + 4000, term_ms=DUE_MS + 8000),
        outage("00:08", "2026-01-01 00:00:05+00:00"),
    ),
}


@pytest.mark.parametrize(("line", "expected"), LATE.values(), ids=LATE)
def test_the_reason_of_a_late_run_is_the_latest_that_its_past_proves(line: str, expected: str) -> None:
    assert expected == reason(line)


def test_a_tenth_of_a_second_is_not_explained() -> None:
    assert f"fired for {DUE}, 100.0 ms late; run {RUN}" == fired_late(put(0), by_ms=100)


@pytest.mark.parametrize(
    ("before", "reason"), [(put(FIVE_MS), PUT_LATE), (NEW_RULES, LATE["the new rules of its zone came late"][1])]
)
def test_a_run_that_fired_as_soon_as_it_could_is_not_late_and_says_why_it_was_not_in_time(
    before: Change, reason: str
) -> None:
    ready_us = FIVE_MS * 1000
    fire = change(What.FIRED, FIVE_MS + 5, entry="1-7", nominal_ms=DUE_MS, run_id=RUN, ready_us=ready_us)

    told = texts(put(0), replace(before, ready_us=ready_us), fire)

    assert f"fired for {DUE}, 5.0 ms late: {reason}; run {RUN}" == told[-1]


def test_an_occurrence_left_out_without_a_leader_or_in_a_pause_has_that_reason() -> None:
    times = {"first_ms": DUE_MS, "last_ms": DUE_MS + MINUTE_MS, "count": 2}
    at_ms, term_ms = DUE_MS + 9 * MINUTE_MS, DUE_MS + 8 * MINUTE_MS
    left_out = change(What.COALESCED, at_ms, entry="1-7", nominal_ms=DUE_MS + 2 * MINUTE_MS, **times)
    missed, over = (change(What.SKIPPED, at_ms, entry="1-7", why=why, **times) for why in ("missed", "paused"))
    which = f"{DUE} to 2026-01-01 00:01:00+00:00"

    absence = outage("08:00", DUE)
    favoured = "in favour of 2026-01-01 00:02:00+00:00"
    led = {"term_us": term_ms * 1000}
    assert [f"left out 2 occurrences, {which}, {favoured}: {absence}"] == texts(replace(left_out, **led))
    assert f"its catch_up and catch_up_window: {absence}" in texts(replace(missed, **led))[0]
    assert texts(left_out)[0].endswith(": all had passed by then")
    assert texts(resumed(term_ms), left_out)[1].endswith(": it was paused until 2026-01-01 00:08:00+00:00")
    assert [f"skipped 2 occurrences, {which}: it was paused"] == texts(replace(over, **led))


def test_a_run_that_expired_without_a_leader_has_that_reason() -> None:
    term_us = (DUE_MS + 4000) * 1000
    late = change(What.EXPIRED, DUE_MS + 5000, entry="1-7", nominal_ms=DUE_MS, run_id=RUN, term_us=term_us)

    told = texts(put(0), late)[-1]

    assert told.endswith(f"more than expires_after allows: {outage('00:04')}")


def test_absence_of_a_leader_is_not_claimed_before_the_history_begins() -> None:
    since = Source(None, DUE_MS + 1000, "1-9", "no archive answered within 2 s")

    line = fired_late(term_ms=DUE_MS + 8000, source=since)
    whole = fired_late(term_ms=DUE_MS + 8000, source=replace(since, is_untrimmed=True))

    assert f"{DELAYED}, or no daemon led before 2026-01-01 00:00:08+00:00" == reason(line)
    assert outage("00:08") == reason(whole)


def test_absence_of_a_leader_is_not_claimed_if_other_occurrences_fired() -> None:
    times = {"nominal_ms": DUE_MS + 1, "first_ms": DUE_MS, "last_ms": DUE_MS}
    leaders = {"term_us": (DUE_MS + 8000) * 1000, "led_us": (DUE_MS + 6000) * 1000}

    [told] = texts(change(What.COALESCED, DUE_MS + 9000, entry="1-7", **times, **leaders))

    assert told.endswith(": all had passed by then")


def test_the_kinds_of_leaders_are_exactly_the_kinds_that_only_leader_scripts_append() -> None:
    by_leaders, by_others = set[str](), set[str]()
    for path in (Path(zsched.__file__).parent / "lua").glob("*.lua"):
        text = load(path.stem).text
        is_leaders = path.stem == "acquire" or "expected_server" in load(path.stem).argv
        (by_leaders if is_leaders else by_others).update(re.findall(r"(?:append(?:_rows)?\(|kind = )'(\w+)'", text))

    assert by_leaders - by_others == set(leaders_kinds())


def test_a_time_without_a_leader_in_one_history_explains_occurrences_of_other_schedules() -> None:
    absences, term_ms = Absences("UTC"), DUE_MS + 9 * MINUTE_MS
    absences.add([change(What.FIRED, term_us=term_ms * 1000, led_us=(DUE_MS - MINUTE_MS) * 1000)], 0)

    def reason(first_ms: int, at_ms: int) -> str:
        times = {"first_ms": first_ms, "last_ms": first_ms + MINUTE_MS, "count": 2}
        return absences.reason(change(What.SKIPPED, at_ms, entry="1-9", why="missed", **times))

    assert outage("09:00", DUE) == reason(DUE_MS, DUE_MS + 10 * MINUTE_MS)
    assert ["", "", ""] == [
        reason(DUE_MS, term_ms - 1),  # it was decided before
        reason(term_ms, term_ms + MINUTE_MS),  # a daemon led
        reason(DUE_MS - MINUTE_MS, term_ms),  # a daemon led at its time
    ]
