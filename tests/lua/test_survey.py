"""survey.lua: finds the chains of runs that need a release, a withdrawal or a clean-up."""

from __future__ import annotations

import pytest

from tests.builders.namespaces import Namespace
from tests.lua.chained import (
    CANCEL,
    FORGET,
    LONG_AGO,
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
from tests.prefix import RQ

OPEN = ("queued", "started", "scheduled", "rate_limited")


READY = "RQ said that it is ready, and did not enqueue it"
SURVEYED: list[tuple[tuple[str, ...], dict[str, str], str, list[list[str]]]] = [  # jobs, their fields, chain, needs
    *(((status, "deferred"), {}, QUEUE, [[*RELEASE, "-", WHY[status]]]) for status in ("finished", "failed", "-")),
    # RQ itself releases no run behind these
    *(((status, "deferred"), {}, QUEUE, [[*RELEASE, "urgent", WHY[status]]]) for status in ("stopped", "canceled")),
    *(((status, "deferred"), {}, QUEUE, []) for status in OPEN),
    *(((status, "finished", "deferred"), {}, f"{QUEUE} {C}", []) for status in OPEN),
    (("finished", "ready_to_enqueue"), {}, QUEUE, [[*RELEASE, "-", READY]]),
    *(((status, "ready_to_enqueue"), {}, QUEUE, []) for status in OPEN),
    (("finished", "ready_to_enqueue", "deferred"), {"origin": ""}, f"{QUEUE} {C}", []),  # it has no queue to go to
    (("stopped", "deferred"), {"origin": ""}, QUEUE, []),
    *(((), {}, text, []) for text in ("", "queue", "queue ", "nonsense", f"allow {A}")),  # corrupted
]


@pytest.mark.parametrize(("statuses", "more", "text", "needs"), SURVEYED)
def test_survey_releases_a_waiting_run_when_all_runs_before_it_are_over(
    led: Namespace, statuses: tuple[str, ...], more: dict[str, str], text: str, needs: list[list[str]]
) -> None:
    jobs(led, *statuses, **more)
    chain(led, text)

    assert ("0", [["r", *need] for need in needs]) == survey(led)


def test_survey_drops_a_ready_run_that_expired(led: Namespace) -> None:
    jobs(led, "finished", "ready_to_enqueue")
    led.redis.hdel(led.keys.rq.job(B), "data")
    chain(led, QUEUE)

    assert ("0", [["r", "drop", "-", "urgent", ""]]) == survey(led)


def dies(ns: Namespace, run: str, **more: str) -> None:
    """Kill the worker of *run*, long ago."""
    ns.redis.hset(ns.keys.rq.job(run), mapping={"status": "started", "last_heartbeat": LONG_AGO} | more)


@pytest.mark.parametrize("text", [QUEUE, f"queue {B}"], ids=["in the chain", "not in the chain any more"])
def test_survey_releases_a_waiting_run_when_the_previous_worker_died(led: Namespace, text: str) -> None:
    jobs(led, "started", "deferred")
    dies(led, A)
    chain(led, text)

    assert [["r", *RELEASE, "urgent", f"the worker w of {A} died"]] == survey(led)[1]


@pytest.mark.parametrize(("more", "waits"), [({"retries_left": "1"}, True), ({"retries_left": "0"}, False),
                                             ({"retries_left": "1", "zs_on_lost": "fail"}, False)])  # fmt: skip
def test_a_dead_run_that_will_be_retried_blocks_its_chain(led: Namespace, more: dict[str, str], waits: bool) -> None:
    jobs(led, "started", "deferred")
    dies(led, A, **more)
    chain(led, QUEUE)

    assert waits == (survey(led)[1] == [])
    assert waits == (unblock(led, RELEASE) == [[], ["r"]])
    assert waits == ([] == led.queue())


@pytest.mark.parametrize("status", OPEN)
def test_a_chain_without_waiting_runs_needs_nothing_until_a_run_is_over(led: Namespace, status: str) -> None:
    jobs(led, status)
    chain(led, f"queue {A}")
    assert ("0", []) == survey(led)

    jobs(led, "finished")
    assert ("0", [["r", *FORGET, "-", ""]]) == survey(led)


def test_survey_reads_only_the_first_waiting_run_of_a_chain(led: Namespace) -> None:
    jobs(led, "stopped", "deferred", "deferred")
    chain(led, f"{QUEUE} {C}")
    led.redis.config_resetstat()

    assert [["r", *RELEASE]] == [need[:3] for need in survey(led)[1]]
    # meta's, A's, B's and again A's: B's before; and with a hash tag in RQ's prefix lib/whole.lua's
    assert (5 if "{" in RQ else 4) == led.redis.info("commandstats")["cmdstat_hmget"]["calls"]


@pytest.mark.parametrize("last", ["queued", "started"])
def test_survey_withdraws_earlier_runs_with_cancel_previous(led: Namespace, last: str) -> None:
    jobs(led, "started", last)
    chain(led, CANCEL)
    assert [["r", *WITHDRAW, "urgent", ""]] == survey(led)[1]

    chain(led, f"cancel_previous {B}")
    assert [] == survey(led)[1]


def test_survey_treats_a_job_of_another_type_as_deleted(led: Namespace) -> None:
    led.redis.set(led.keys.rq.job(A), "text")
    jobs(led)
    chain(led, f"queue {A}")

    assert [["r", *FORGET, "-", ""]] == survey(led)[1]


def test_survey_returns_all_chains_page_by_page(led: Namespace) -> None:
    for number in range(2000):
        chain(led, f"queue {'x' * 70}-{number}", f"s{number}")

    cursor, seen, pages = "0", set(), 0
    while cursor != "0" or not pages:
        cursor, told = survey(led, cursor, 50)
        assert len(told) < 400
        seen |= {one[0] for one in told}
        pages += 1

    assert (2000, True) == (len(seen), pages > 5)


def test_survey_returns_nothing_without_chains_or_for_a_key_of_another_type(led: Namespace) -> None:
    assert ("0", []) == survey(led)

    led.redis.set(led.keys.chains(), "text")
    assert ("0", []) == survey(led)
