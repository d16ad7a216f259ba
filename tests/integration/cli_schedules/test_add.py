"""``zsched add``: every option, and refused input."""

import os
import pwd
import socket
from datetime import timedelta
from typing import Any

import pytest
import redis

from tests.builders.command_line import FUNC, LATER, Zsched
from tests.prefix import RQ
from zsched.cli.program import DONE, FAILED, USAGE
from zsched.core.wording import parse_duration

pytestmark = pytest.mark.once


def is_empty(redis_client: redis.Redis) -> bool:
    """Return True if no schedule was written; the serializer's name may be stored."""
    return redis_client.keys("zsched:*due*") == redis_client.keys(f"{RQ}:*") == redis_client.keys("*schedule:*") == []


def test_a_local_time_is_read_and_printed_in_its_zone(zsched: Zsched) -> None:
    printed = zsched("add", "another", FUNC, *LATER).output
    told = zsched.json("add", "reminder-42", FUNC, *LATER, "--args", "[42]")

    assert printed.startswith("another: created, next 2030-12-24 18:00:00+09:00 (in ")
    assert printed.endswith("), run another-1924333200000\n")
    assert {
        "id": "reminder-42",
        "outcome": "created",
        "next_at": "2030-12-24T09:00:00.000Z",
        "run_id": "reminder-42-1924333200000",
        "version": zsched.json("show", "reminder-42")["version"],
    } == told


def test_a_disabled_schedule_is_added_paused_under_the_users_name(zsched: Zsched) -> None:
    added = zsched("add", "beat", FUNC, "--every", "1h", "--disabled")
    again = zsched.json("add", "beat", FUNC, "--every", "1h")

    assert added.output.startswith("beat: created, paused, next ")
    assert ("unchanged", "paused") == (again["outcome"], zsched.json("show", "beat")["state"])
    zsched("add", "beat", FUNC, "--every", "1h", "--enabled")
    assert "active" == zsched.json("show", "beat")["state"]

    zsched("add", "beat", FUNC, "--every", "1h")

    who = f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}"
    shown = zsched.json("show", "beat")
    assert (who, who, None) == (shown["created_by"], shown["changed_by"], shown["owner"])


NOTE = "zsched: note: queue 'email' has urgent schedules (high: otp) and bulk ones (low: campaign). Priority ends at "


def test_add_notes_that_urgent_and_bulk_schedules_share_a_queue(zsched: Zsched) -> None:
    low = zsched("add", "campaign", FUNC, "--after", "1h", "--priority", "low", "--queue", "email")
    high = zsched("add", "otp", FUNC, "--every", "1h", "--urgency", "asap", "--queue", "email")
    again = zsched("add", "campaign", FUNC, "--after", "2h", "--priority", "low", "--queue", "email")

    assert (DONE, "", DONE) == (low.exit_code, low.stderr, high.exit_code)
    assert [True, True] == [told.stderr.startswith(NOTE) for told in (high, again)]


@pytest.mark.parametrize(
    "options", [("--priority", "high", "--queue", "sms"), ("--priority", "normal", "--queue", "email")]
)
def test_add_notes_nothing_of_other_queues_and_priorities(zsched: Zsched, options: tuple[str, ...]) -> None:
    zsched("add", "campaign", FUNC, "--after", "1h", "--priority", "low", "--queue", "email")

    assert "" == zsched("add", "otp", FUNC, "--every", "1h", *options).stderr


def test_add_notes_a_queue_that_looks_like_one_with_workers(zsched: Zsched, redis_client: redis.Redis) -> None:
    redis_client.sadd(f"{RQ}:queues", f"{RQ}:queue:email")
    redis_client.sadd(f"{RQ}:workers:email", f"{RQ}:worker:w1")

    noted = [zsched("add", queue, FUNC, "--every", "1h", "--queue", queue).stderr for queue in ("emaill", "email", "x")]

    assert ["zsched: note: no worker listens to queue 'emaill'; did you mean 'email'?\n", "", ""] == noted


def test_add_stores_every_option(zsched: Zsched) -> None:
    zsched.json(
        *("add", "digest", FUNC, "--cron", "0 9 * * 1-5", "--tz", "America/New_York"),
        *("--starts", "2030-01-01T00:00", "--ends", "2031-01-01T00:00Z", "--count", "9", "--gap", "skip"),
        *("--fold", "second", "--args", '["weekly"]', "--kwargs", '{"to": "all"}', "--queue", "email"),
        *("--priority", "high", "--at-front", "--on-uncertain", "skip", "--timeout", "1h", "--retry", "3"),
        *("--on-lost", "fail", "--pause-after-failures", "3"),
        *("--result-ttl", "5m", "--failure-ttl", "-1", "--meta", '{"team": 7}', "--on-success", "app.done"),
        *("--on-failure", "app.failed", "--description", "The digest", "--tag", "b", "--tag", "a"),
        *("--owner", "terraform", "--jitter", "5m", "--expires-after", "1h30m"),
        *("--overlap", "queue", "--overlap-limit", "7", "--catch-up", "all", "--catch-up-window", "2d"),
        *("--catch-up-limit", "9", "--exclude", "sat, sun", "--exclude", "12-25", "--on-excluded", "next_open"),
    )

    shown = zsched.json("show", "digest")

    trigger: dict[str, Any] = {
        "kind": "cron",
        "expr": "0 9 * * 1-5",
        "tz": "America/New_York",
        "count": 9,
        "gap": "skip",
    }
    trigger |= {"starts": "2030-01-01T05:00:00.000Z", "ends": "2031-01-01T00:00:00.000Z", "fold": "second"}
    trigger |= {"exclude": ["Sat,Sun", "12-25"], "on_excluded": "next_open"}
    expected: dict[str, Any] = {
        "state": "active",
        "kind": "cron",
        "tz": "America/New_York",
        "trigger": trigger | {"jitter_s": 300.0},
    }
    expected |= {"func": FUNC, "args": ["weekly"], "kwargs": {"to": "all"}, "nominal_at": "2030-01-01T14:00:00.000Z"}
    expected |= {"queue": "email", "priority": "high", "at_front": True, "on_uncertain": "skip", "on_lost": "fail"}
    expected |= {"pause_after_failures": 3, "overlap": "queue", "overlap_limit": 7, "catch_up": "all"}
    expected |= {"catch_up_window_s": 172_800.0, "catch_up_limit": 9, "jitter_s": 300.0, "expires_after_s": 5400.0}
    expected |= {"timeout_s": 3600, "result_ttl_s": 300, "failure_ttl_s": -1, "retries": 3, "tags": ["a", "b"]}
    expected |= {"description": "The digest", "owner": "terraform"}
    assert expected == {name: shown[name] for name in expected}


@pytest.mark.parametrize(
    ("text", "ms"),
    [("90", 90_000), ("0.5", 500), ("5m", 300_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("1m500ms", 60_500)],
)
def test_add_reads_durations_with_units(zsched: Zsched, text: str, ms: int) -> None:
    zsched("add", "beat", FUNC, "--every", text)

    assert timedelta(milliseconds=ms) == parse_duration(zsched.json("show", "beat")["trigger"]["expr"])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "exactly one of"),
        (("--every", "5", "--cron", "* * * * *"), "more than one trigger"),
        (("--at", "2030-01-01T00:00"), "--tz"),
        (("--at", "2020-01-01T00:00Z"), "on the Redis server"),
        (("--at", "1960-01-01T00:00Z"), "1970"),
        (("--at", "2030-01-01"), "time of day"),
        (("--every", "0"), "every"),
        (("--every", "-5"), "every"),
        (("--every", "nan"), "nan"),
        (("--every", "5", "--tz", "EST"), "America/New_York"),
        (("--every", "5", "--starts", "2030-01-01T00:00"), "--tz"),
        (("--every", "5", "--args", "{}"), "JSON array"),
        (("--every", "5", "--args", "[NaN]"), "NaN"),
        (("--every", "5", "--kwargs", "[]"), "JSON object"),
        (("--every", "5", "--meta", "{"), "not JSON"),
        (("--every", "5", "--timeout", "soon"), "timeout"),
        (("--every", "5", "--priority", "urgent"), "urgent"),
        (("--every", "5", "--queue", "a b"), "queue"),
        (("--every", "5", "--retry", "0"), "retry"),
        (("--every", "5", "--jitter", "5001ms"), "jitter="),
        (("--every", "5", "--jitter", "soon"), "--jitter"),
        (("--every", "5", "--catch-up", "all"), "catch_up="),
        (("--every", "5", "--catch-up", "some"), "latest"),
        (("--every", "5", "--overlap", "wait"), "cancel_previous"),
        (("--every", "5", "--overlap-limit", "2"), "overlap_limit="),
        (("--every", "5", "--catch-up-limit", "many"), "--catch-up-limit"),
        (("--after", "5", "--overlap", "allow"), "overlap="),
        (("--after", "5", "--jitter", "1h", "--expires-after", "1m"), "expires_after="),
        (("--every", "5", "--urgency", "soon"), "time_sensitive"),
        (("--rrule", "FREQ=SECONDLY"), "rrule"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    zsched: Zsched, redis_client: redis.Redis, arguments: tuple[str, ...], named: str
) -> None:
    result = zsched("add", "x", FUNC, *arguments)

    assert USAGE == result.exit_code
    assert named in result.stderr
    assert 1 == result.stderr.count("\n")
    assert is_empty(redis_client)


@pytest.mark.parametrize("id", ["a b", "a.b", "a:b", "a" * 129, ""])
def test_a_bad_id_is_refused(zsched: Zsched, redis_client: redis.Redis, id: str) -> None:
    result = zsched("add", id, FUNC, "--every", "5")

    assert (USAGE, True) == (result.exit_code, "id=" in result.stderr)
    assert is_empty(redis_client)


def test_an_add_of_an_existing_schedule_changes_nothing_fails_or_keeps_it(zsched: Zsched) -> None:
    rule = ("add", "beat", FUNC, "--cron", "0 9 * * 1-5", "--tz", "America/New_York")

    outcomes = [zsched.json(*rule)["outcome"] for _ in range(2)]
    refused = zsched("add", "beat", FUNC, "--every", "2h", "--if-exists", "error")
    kept = zsched.json("add", "beat", FUNC, "--every", "2h", "--if-exists", "keep")

    assert ["created", "unchanged"] == outcomes
    assert (FAILED, "kept") == (refused.exit_code, kept["outcome"])


@pytest.mark.parametrize(
    "named", ["os.system", "app.tasks.os.system", f"{FUNC} --on-success os.system", f"{FUNC} --on-failure os.system"]
)
def test_only_allowed_functions_may_be_named(zsched: Zsched, named: str) -> None:
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.tasks.*,zsched.demo.*.*"

    allowed = zsched("add", "fine", "app.tasks.send", "--every", "1h")
    refused = zsched("add", "x", *named.split(), "--every", "1h")

    assert (DONE, USAGE) == (allowed.exit_code, refused.exit_code)
    assert "[rq] allow_callables" in refused.stderr
    assert "os.system" in refused.stderr
