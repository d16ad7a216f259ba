"""``zsched ack``, and what ``zsched status`` and ``zsched doctor`` leave out by it."""

import re

import pytest
import redis
from rq import Queue

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonThread
from tests.builders.entries import add_entry, end_fields
from tests.builders.workers import work_off
from tests.integration.standing import KEYS, names, now_ms, report, status
from tests.waiting import eventually
from zsched import Client
from zsched.cli.program import DONE, NOT_FOUND, USAGE
from zsched.core.runs.run import Run, RunStatus

pytestmark = pytest.mark.once
JOBS = "tests.integration.console.jobs"


@pytest.fixture
def ill(led: redis.Redis) -> redis.Redis:
    """A namespace whose runs failed, were lost and were refused, each three times, beside one that succeeded."""
    report(led, "one", daemon="somebody")
    report(led, "two", daemon="d2")
    runs = [Run("a-9", RunStatus.SUCCEEDED)]
    for status_, error in (
        (RunStatus.FAILED, "OSError: timed out"),
        (RunStatus.LOST, "its worker died"),
        (RunStatus.REFUSED, "it is not signed"),
    ):
        runs += [Run(f"{status_.value}-{n}", status_, error=error, func=f"app.{status_.value}") for n in range(3)]
    add_entry(led, KEYS.log(), "3-13", "end", now_ms(led) * 1000, *end_fields(*runs))
    led.hset(KEYS.meta(), "seq", 13)
    return led


def failures(zsched: Zsched) -> set[str]:
    return {one["status"] for one in status(zsched)["failures"]}


def test_ack_lists_and_removes_what_is_known(zsched: Zsched, led: redis.Redis) -> None:
    put = zsched.json("ack", "--func", "app.*", "--error", "OSError*", "--for", "2d", "--note", "the vendor mends it")
    shown = zsched("ack", "--tz", "UTC").stdout.splitlines()
    listed = zsched.json("ack")
    removed = zsched("ack", "--remove", put["name"])

    assert [put] == listed
    assert ["NAME", "FUNCTION", "ERROR", "UNTIL", "BY", "NOTE"] == shown[0].split()
    assert [put["name"], "app.*", "OSError*"] == shown[1].split()[:3]
    assert shown[1].endswith(f"{put['by']}  the vendor mends it")
    assert (DONE, f"{put['name']}: removed\n") == (removed.exit_code, removed.stdout)
    assert NOT_FOUND == zsched("ack", "--remove", put["name"]).exit_code
    assert "no failure is known" in zsched("ack").stdout


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--note", "why"], "func: nothing says which failures; give func, error or both"),
        (["--func", "a", "--for", "91d"], "for=.*: out of range; give 1s to 90d"),
        (["--func", "a", "--for", "soon"], "'--for'.*soon"),
        (["--func", "a", "--remove", "b"], "give --remove alone"),
    ],
)
def test_a_bad_ack_is_refused_with_the_remedy(zsched: Zsched, led: redis.Redis, given: list[str], says: str) -> None:
    refused = zsched("ack", *given)

    assert USAGE == refused.exit_code
    assert re.search(says, refused.stderr), refused.stderr
    assert [] == zsched.json("ack")


def test_known_failures_leave_the_status_and_its_warnings_but_not_its_counts(zsched: Zsched, ill: redis.Redis) -> None:
    before, found = status(zsched), failures(zsched)
    zsched("ack", "--func", "app.failed", "--error", "*timed out")
    one = failures(zsched)
    zsched("ack", "--func", "app.lost")
    zsched("ack", "--error", "*not signed", "--note", "a key is missing")
    after, shown = status(zsched), zsched("status").stdout

    assert ({"failed", "lost", "refused"}, {"lost", "refused"}, []) == (found, one, after["failures"])
    assert (["failing", "refused"], []) == (names(before)[1], names(after)[1])
    ended = [[stretch["ended"] for stretch in each["recent"]["stretches"]] for each in (before, after)]
    assert ended[0] == ended[1]
    assert [[0] * 3, [9] * 3] == [[each["known"] for each in told["recent"]["stretches"]] for told in (before, after)]
    assert re.search("^known +3 kinds of failures, left out here until .*; zsched ack lists them$", shown, re.MULTILINE)


def test_known_failures_return_to_the_status_when_their_time_has_passed_or_they_are_taken_back(
    zsched: Zsched, ill: redis.Redis
) -> None:
    kept = [zsched.json("ack", "--error", glob)["name"] for glob in ("*timed out", "*died")]
    zsched("ack", "--error", "*not signed", "--for", "1m")
    known = failures(zsched)
    zsched("ack", "--remove", kept[0])
    back = failures(zsched)
    ill.hincrby(KEYS.meta(), "frozen_ms", 60_000)

    assert (set(), {"failed"}, {"failed", "refused"}) == (known, back, failures(zsched))


def test_many_known_failures_are_left_out_and_others_of_that_minute_are_not(zsched: Zsched, ill: redis.Redis) -> None:
    for part in range(5):
        runs = [Run(f"m-{part}{n}", RunStatus.FAILED, error=f"E: {n}", func="app.many") for n in range(500)]
        add_entry(ill, KEYS.log(), f"3-{14 + part}", "end", now_ms(ill) * 1000, *end_fields(*runs))
    ill.hset(KEYS.meta(), "seq", 18)
    before = failures(zsched)
    zsched("ack", "--func", "app.many")
    told = status(zsched)

    assert ({"failed"}, {"failed", "lost", "refused"}) == (before, failures(zsched))
    assert "6 of 10 runs" in next(one["problem"] for one in told["warnings"] if one["name"] == "failing")


def test_a_schedule_whose_last_failure_is_known_leaves_the_warnings(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    def failing() -> bool:
        return "schedules_failing" in names(status(zsched))[1]

    client.schedule(f"{JOBS}.fail", id="nightly", every=3600, overlap="allow", description="Bills")
    with DaemonThread(redis_url):
        for _ in range(2):
            client.run_now("nightly")
            work_off(Queue(connection=redis_client), redis_client)
        eventually(failing)
        other = client.ack(func=f"{JOBS}.fail", error="another")
        is_other = failing()
        one = client.ack(func=f"{JOBS}.fail", error="*")
        is_known = failing()
        doctor = zsched("doctor").stdout
        client.run_now("nightly")  # it is queued: the function decides
        is_open = failing()
        client.remove_ack(one.name)
        client.remove_ack(other.name)

        assert [True, False, False, True] == [is_other, is_known, is_open, failing()]
        assert "whose last runs failed" not in doctor
        [run] = client.runs("nightly", "failed", 1)
        assert f"{JOBS}.fail" == run.func
