"""survey.lua: finds the chains of runs that need a release, a withdrawal or a clean-up."""

from __future__ import annotations

import pytest

from tests.lua.chained import (
    CANCEL,
    FORGET,
    LONG_AGO,
    OVER,
    QUEUE,
    RELEASE,
    WHY,
    WITHDRAW,
    A,
    B,
    C,
    chain,
    jobs,
    survey,
    unblock,
)
from tests.lua.ground import Ground
from tests.prefix import RQ

OPEN = ("queued", "started", "scheduled", "rate_limited")


@pytest.mark.parametrize("status", OVER)
def test_survey_releases_a_waiting_run_when_the_previous_run_is_over(led: Ground, status: str) -> None:
    jobs(led, status, "deferred")
    chain(led, QUEUE)

    urgent = "urgent" if status in ("stopped", "canceled") else "-"  # RQ itself releases no run behind these
    assert ("0", [["r", *RELEASE, urgent, WHY[status]]]) == survey(led)


@pytest.mark.parametrize(
    ("statuses", "more"),
    [
        *(((status, "deferred"), {}) for status in OPEN),
        *(((status, "finished", "deferred"), {}) for status in OPEN),  # it waits for every open run of its chain
        *(((status, "ready_to_enqueue"), {}) for status in OPEN),
        (("finished", "ready_to_enqueue", "deferred"), {"origin": ""}),  # the ready one has no queue to go to
        (("stopped", "deferred"), {"origin": ""}),
    ],
)
def test_survey_keeps_a_run_waiting_for_open_runs_of_its_chain_or_a_queue(
    led: Ground, statuses: tuple[str, ...], more: dict[str, str]
) -> None:
    jobs(led, *statuses, **more)
    chain(led, QUEUE if len(statuses) == 2 else f"{QUEUE} {C}")

    assert ("0", []) == survey(led)


def test_survey_releases_a_run_that_rq_called_ready_and_did_not_enqueue(led: Ground) -> None:
    jobs(led, "finished", "ready_to_enqueue")
    chain(led, QUEUE)

    why = "RQ said that it is ready, and did not enqueue it"
    assert ("0", [["r", *RELEASE, "-", why]]) == survey(led)


def test_survey_drops_a_ready_run_that_expired(led: Ground) -> None:
    jobs(led, "finished", "ready_to_enqueue")
    led.redis.hdel(led.keys.rq.job(B), "data")
    chain(led, QUEUE)

    assert ("0", [["r", "drop", "-", "urgent", ""]]) == survey(led)


def dies(ground: Ground, run: str, **more: str) -> None:
    """Kill the worker of *run*, long ago."""
    ground.redis.hset(ground.keys.rq.job(run), mapping={"status": "started", "last_heartbeat": LONG_AGO} | more)


@pytest.mark.parametrize("text", [QUEUE, f"queue {B}"], ids=["in the chain", "not in the chain any more"])
def test_survey_releases_a_waiting_run_when_the_previous_worker_died(led: Ground, text: str) -> None:
    jobs(led, "started", "deferred")
    dies(led, A)
    chain(led, text)

    assert [["r", *RELEASE, "urgent", f"the worker w of {A} died"]] == survey(led)[1]


@pytest.mark.parametrize(("more", "waits"), [({"retries_left": "1"}, True), ({"retries_left": "0"}, False),
                                             ({"retries_left": "1", "zs_on_lost": "fail"}, False)])  # fmt: skip
def test_a_run_of_a_dead_worker_that_will_be_retried_blocks_its_chain(
    led: Ground, more: dict[str, str], waits: bool
) -> None:
    jobs(led, "started", "deferred")
    dies(led, A, **more)
    chain(led, QUEUE)

    assert waits == (survey(led)[1] == [])
    assert waits == (unblock(led, RELEASE) == [[], ["r"]])
    assert waits == ([] == led.queue())


@pytest.mark.parametrize("status", OPEN)
def test_a_chain_without_waiting_runs_needs_nothing_until_a_run_is_over(led: Ground, status: str) -> None:
    jobs(led, status)
    chain(led, f"queue {A}")
    assert ("0", []) == survey(led)

    jobs(led, "finished")
    assert ("0", [["r", *FORGET, "-", ""]]) == survey(led)


def test_survey_reads_only_the_first_waiting_run_of_a_chain(led: Ground) -> None:
    jobs(led, "stopped", "deferred", "deferred")
    chain(led, f"{QUEUE} {C}")
    led.redis.config_resetstat()

    assert [["r", *RELEASE]] == [need[:3] for need in survey(led)[1]]
    # meta's, A's, B's and again A's: B's before; and with a hash tag in RQ's prefix lib/whole.lua's
    assert (5 if "{" in RQ else 4) == led.redis.info("commandstats")["cmdstat_hmget"]["calls"]


@pytest.mark.parametrize("last", ["queued", "started"])
def test_survey_withdraws_earlier_runs_with_cancel_previous(led: Ground, last: str) -> None:
    jobs(led, "started", last)
    chain(led, CANCEL)
    assert [["r", *WITHDRAW, "urgent", ""]] == survey(led)[1]

    chain(led, f"cancel_previous {B}")
    assert [] == survey(led)[1]


@pytest.mark.parametrize("text", ["", "queue", "queue ", "nonsense", f"allow {A}"])
def test_survey_ignores_a_corrupted_chain(led: Ground, text: str) -> None:
    chain(led, text)

    assert ("0", []) == survey(led)


def test_survey_treats_a_job_of_another_type_as_deleted(led: Ground) -> None:
    led.redis.set(led.keys.rq.job(A), "text")
    jobs(led)
    chain(led, f"queue {A}")

    assert [["r", *FORGET, "-", ""]] == survey(led)[1]


def test_survey_returns_all_chains_page_by_page(led: Ground) -> None:
    for number in range(2000):
        chain(led, f"queue {'x' * 70}-{number}", f"s{number}")

    cursor, seen, pages = "0", set(), 0
    while cursor != "0" or not pages:
        cursor, told = survey(led, cursor, 50)
        assert len(told) < 400
        seen |= {one[0] for one in told}
        pages += 1

    assert (2000, True) == (len(seen), pages > 5)


def test_survey_returns_nothing_without_chains_or_for_a_key_of_another_type(led: Ground) -> None:
    assert ("0", []) == survey(led)

    led.redis.set(led.keys.chains(), "text")
    assert ("0", []) == survey(led)
