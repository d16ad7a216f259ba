"""``zsched add``, ``set``, ``ls``, ``show``, ``cancel``, ``pause``, ``resume``, ``run`` against a real Redis."""

from __future__ import annotations

import json
import os
import pwd
import socket
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from zsched.cli import program
from zsched.cli.exits import DONE, FAILED, NOT_FOUND, USAGE

FUNC = "zsched.demo.tasks.heartbeat"
LATER = ("--at", "2030-12-24T18:00", "--tz", "Asia/Seoul")


class Zsched:
    """Runs the command line; ``json`` gives what it answers."""

    def __init__(self, url: str) -> None:
        self.env: dict[str, str | None] = {"ZSCHED_REDIS_URL": url, "ZSCHED_RQ_SERIALIZER": "json"}

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(program, arguments, env=self.env)

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert result.stdout, result.stderr
        return json.loads(result.stdout)

    def ids(self, *arguments: str) -> list[str]:
        return [one["id"] for one in self.json("ls", *arguments)]


@pytest.fixture
def zsched(redis_url: str) -> Zsched:
    return Zsched(redis_url)


def is_empty(redis_client: redis.Redis) -> bool:
    """Whether no schedule was written; the serializer's name may be."""
    return redis_client.keys("zsched:*due*") == redis_client.keys("rq:*") == redis_client.keys("*schedule:*") == []


# -- add ----------------------------------------------------------------------------------------------


def test_a_local_time_is_read_in_its_zone(zsched: Zsched) -> None:
    told = zsched.json("add", "reminder-42", FUNC, *LATER, "--args", "[42]")

    assert {
        "id": "reminder-42",
        "outcome": "created",
        "next_at": "2030-12-24T09:00:00.000Z",
        "run_id": "reminder-42-1924333200000",
    } == told


def test_people_are_told_the_time_in_that_zone(zsched: Zsched) -> None:
    result = zsched("add", "reminder-42", FUNC, *LATER)

    assert result.output.startswith("reminder-42: created, next 2030-12-24 18:00:00+09:00 (in ")
    assert result.output.endswith("), run reminder-42-1924333200000\n")


def test_the_same_add_again_changes_nothing(zsched: Zsched) -> None:
    rule = ("add", "digest", FUNC, "--cron", "0 9 * * 1-5", "--tz", "America/New_York")

    outcomes = [zsched.json(*rule)["outcome"] for _ in range(2)]

    assert ["created", "unchanged"] == outcomes


def test_every_option_arrives(zsched: Zsched) -> None:
    zsched.json(
        *("add", "digest", FUNC, "--cron", "0 9 * * 1-5", "--tz", "America/New_York"),
        *("--starts", "2030-01-01T00:00", "--ends", "2031-01-01T00:00Z", "--count", "9", "--gap", "skip"),
        *("--fold", "second", "--args", '["weekly"]', "--kwargs", '{"to": "all"}', "--queue", "email"),
        *("--priority", "high", "--at-front", "--on-uncertain", "skip", "--timeout", "1h", "--retry", "3"),
        *("--on-lost", "fail", "--pause-after-failures", "3"),
        *("--result-ttl", "5m", "--failure-ttl", "-1", "--meta", '{"team": 7}', "--on-success", "app.done"),
        *("--on-failure", "app.failed", "--description", "The digest", "--tag", "b", "--tag", "a"),
        *("--created-by", "me", "--managed-by", "terraform", "--jitter", "5m", "--expires-after", "1h30m"),
        *("--overlap", "queue", "--overlap-limit", "7", "--catch-up", "all", "--catch-up-window", "2d"),
        *("--catch-up-limit", "9"),
    )

    shown = zsched.json("show", "digest")

    trigger = {
        "kind": "cron",
        "expr": "0 9 * * 1-5",
        "tz": "America/New_York",
        "starts": "2030-01-01T05:00:00.000Z",
        "ends": "2031-01-01T00:00:00.000Z",
        "count": 9,
        "gap": "skip",
        "fold": "second",
        "jitter_s": 300.0,
    }
    expected = {
        "state": "active",
        "kind": "cron",
        "nominal_at": "2030-01-01T14:00:00.000Z",
        "tz": "America/New_York",
        "trigger": trigger,
        "func": FUNC,
        "args": ["weekly"],
        "kwargs": {"to": "all"},
        "queue": "email",
        "priority": "high",
        "at_front": True,
        "on_uncertain": "skip",
        "on_lost": "fail",
        "pause_after_failures": 3,
        "overlap": "queue",
        "overlap_limit": 7,
        "catch_up": "all",
        "catch_up_window_s": 172_800.0,
        "catch_up_limit": 9,
        "jitter_s": 300.0,
        "expires_after_s": 5400.0,
        "timeout_s": 3600,
        "result_ttl_s": 300,
        "failure_ttl_s": -1,
        "retries": 3,
        "description": "The digest",
        "tags": ["a", "b"],
        "created_by": "me",
        "managed_by": "terraform",
    }
    assert expected == {name: shown[name] for name in expected}


def test_who_added_it_is_recorded(zsched: Zsched) -> None:
    zsched("add", "beat", FUNC, "--every", "1h")

    who = f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}"
    assert who == zsched.json("show", "beat")["created_by"]


@pytest.mark.parametrize(
    ("text", "ms"),
    [("90", 90_000), ("0.5", 500), ("5m", 300_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("1m500ms", 60_500)],
)
def test_durations_have_units(zsched: Zsched, text: str, ms: int) -> None:
    zsched("add", "beat", FUNC, "--every", text)

    assert str(ms) == zsched.json("show", "beat")["trigger"]["expr"]


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


def test_if_exists_error_is_a_failure_and_keep_keeps(zsched: Zsched) -> None:
    zsched("add", "beat", FUNC, "--every", "1h")

    refused = zsched("add", "beat", FUNC, "--every", "2h", "--if-exists", "error")
    kept = zsched.json("add", "beat", FUNC, "--every", "2h", "--if-exists", "keep")

    assert (FAILED, "kept") == (refused.exit_code, kept["outcome"])


@pytest.mark.parametrize("option", ["func", "on-success", "on-failure"])
def test_only_allowed_functions_may_be_named(zsched: Zsched, redis_client: redis.Redis, option: str) -> None:
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.tasks.*,zsched.demo.*.*"
    func, *named = ["os.system"] if option == "func" else [FUNC, f"--{option}", "os.system"]

    allowed = zsched("add", "fine", "app.tasks.send", "--every", "1h")
    zsched("cancel", "fine")
    refused = zsched("add", "x", func, "--every", "1h", *named)

    assert (DONE, USAGE) == (allowed.exit_code, refused.exit_code)
    assert "[rq] allow_callables" in refused.stderr
    assert "os.system" in refused.stderr


def test_an_allowed_pattern_does_not_reach_through_a_module_into_another(zsched: Zsched) -> None:
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.tasks.*"

    refused = zsched("add", "x", "app.tasks.os.system", "--every", "1h")

    assert USAGE == refused.exit_code


# -- set ----------------------------------------------------------------------------------------------


def test_set_changes_what_was_given_and_keeps_the_rest(zsched: Zsched) -> None:
    zsched("add", "reminder", FUNC, *LATER, "--args", "[1]", "--tag", "a", "--description", "once")

    told = zsched.json("set", "reminder", "--at", "2030-12-24T19:00", "--unset", "tag")
    zsched("set", "reminder", "--args", "[2]")
    shown = zsched.json("show", "reminder")

    assert ("updated", "2030-12-24T10:00:00.000Z") == (told["outcome"], told["next_at"])
    assert ([2], [], "once", "Asia/Seoul") == (shown["args"], shown["tags"], shown["description"], shown["tz"])


def test_set_without_a_change_is_a_usage_error(zsched: Zsched) -> None:
    zsched("add", "beat", FUNC, "--every", "1h")

    assert USAGE == zsched("set", "beat").exit_code


def test_set_keeps_a_one_shot_a_one_shot(zsched: Zsched) -> None:
    zsched("add", "reminder", FUNC, *LATER)

    assert USAGE == zsched("set", "reminder", "--every", "5").exit_code


def test_set_of_an_unknown_schedule_is_not_found(zsched: Zsched) -> None:
    assert NOT_FOUND == zsched("set", "nobody", "--tag", "a").exit_code


def test_set_cannot_change_the_arguments_of_a_function_that_is_not_allowed(zsched: Zsched) -> None:
    zsched("add", "shell", "os.system", "--every", "1h", "--args", '["true"]')
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.*"

    result = zsched("set", "shell", "--args", '["reboot"]')

    assert USAGE == result.exit_code
    assert ["true"] == zsched.json("show", "shell")["args"]


# -- ls and show --------------------------------------------------------------------------------------


@pytest.fixture
def some(zsched: Zsched) -> Zsched:
    """Four schedules: three active and one paused."""
    zsched("add", "party", FUNC, *LATER, "--queue", "email", "--tag", "fun")
    zsched("add", "beat", FUNC, "--every", "90s")
    zsched("add", "digest", "app.digest", "--cron", "0 9 * * 1-5", "--priority", "low", "--queue", "email")
    zsched("add", "stopped", FUNC, "--after", "5m")
    zsched("pause", "stopped", "--note", "a pause")
    return zsched


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ((), {"party", "beat", "digest", "stopped"}),
        (("--state", "paused"), {"stopped"}),
        (("--kind", "every"), {"beat"}),
        (("--func", "app.digest"), {"digest"}),
        (("--queue", "email"), {"party", "digest"}),
        (("--tag", "fun"), {"party"}),
        (("--match", "d*"), {"digest"}),
        (("--due-after", "2030-01-01T00:00Z"), {"party"}),
        (("--due-before", "2030-01-01T00:00", "--tz", "Asia/Seoul", "--state", "active"), {"beat", "digest"}),
        (("--queue", "none"), set()),
    ],
)
def test_ls_filters(some: Zsched, filters: tuple[str, ...], ids: set[str]) -> None:
    assert ids == set(some.ids(*filters))


def test_ls_is_an_aligned_table(some: Zsched) -> None:
    head, *rows = some("ls").output.splitlines()

    assert ["ID", "STATE", "NEXT", "TRIGGER", "FUNC", "QUEUE", "PRIORITY"] == head.split()
    assert {FUNC, "app.digest"} == {row[head.index("FUNC") :].split()[0] for row in rows}
    assert "every 1m30s" in next(row for row in rows if row.startswith("beat"))
    assert "2030-12-24 18:00:00+09:00" in next(row for row in rows if row.startswith("party"))
    assert rows[-1].startswith("stopped  paused")


def test_ls_says_when_there_is_more_and_where_it_goes_on(some: Zsched) -> None:
    whole = some.ids()
    first = some("ls", "--limit", "2")

    cursor = first.stderr.split("--after ")[1].strip()

    assert whole[:2] == [row.split()[0] for row in first.stdout.splitlines()[1:]]
    assert whole[2:] == some.ids("--after", cursor)
    assert cursor == some.json("ls", "--limit", "2")[-1]["cursor"]


def test_ls_says_nothing_more_when_that_was_all(some: Zsched) -> None:
    assert "" == some("ls", "--limit", "4").stderr


@pytest.mark.parametrize("arguments", [("--due-after", "2030-01-01T00:00"), ("--after", "nonsense"), ("--limit", "0")])
def test_ls_refuses_bad_filters(zsched: Zsched, arguments: tuple[str, ...]) -> None:
    assert USAGE == zsched("ls", *arguments).exit_code


def test_show_for_people_tells_the_note_and_hides_terminal_codes(some: Zsched, redis_client: redis.Redis) -> None:
    run = next(key for key in redis_client.keys("rq:job:stopped-*"))
    redis_client.hset(run, "description", "red \x1b[31m text")

    shown = some("show", "stopped").output

    assert "a pause" in shown
    assert "\x1b" not in shown


# -- cancel, pause, resume, run -----------------------------------------------------------------------


def test_cancel_tells_per_id_and_not_found_is_the_exit_code(some: Zsched) -> None:
    result = some("cancel", "party", "nobody", "beat", "--json")

    assert NOT_FOUND == result.exit_code
    assert [("party", "cancelled"), ("nobody", "not_found"), ("beat", "cancelled")] == [
        (one["id"], one["result"]) for one in json.loads(result.stdout)
    ]
    assert {"digest", "stopped"} == set(some.ids())


def test_cancel_after_the_run_was_pushed_is_a_failure(some: Zsched) -> None:
    some("run", "party")

    result = some("cancel", "party")

    assert (FAILED, "party: already_fired\n") == (result.exit_code, result.output)


def test_a_paused_schedule_resumes(some: Zsched) -> None:
    resumed = some("resume", "stopped")

    assert DONE == resumed.exit_code
    assert resumed.output.startswith("stopped: active (next ")
    assert "active" == some.json("show", "stopped")["state"]


def test_a_one_shot_whose_time_passed_in_the_pause_may_be_skipped(zsched: Zsched) -> None:
    zsched("add", "late", FUNC, "--at", "2026-01-01T00:00Z", "--allow-past")
    zsched("pause", "late")

    result = zsched("resume", "late", "--missed", "skip")

    assert (DONE, "late: gone (its time had passed)\n") == (result.exit_code, result.output)


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_one_unknown_id_does_not_stop_the_others(some: Zsched, command: str) -> None:
    result = some(command, "nobody", "beat")

    assert NOT_FOUND == result.exit_code
    assert ["nobody: not_found", "beat: "] == [line[: len("nobody: not_found")] if "nobody" in line else line[:6]
                                               for line in result.output.splitlines()]  # fmt: skip


def test_run_pushes_at_once_and_prints_the_run_id(some: Zsched, redis_client: redis.Redis) -> None:
    result = some("run", "beat")

    assert [result.output.strip().encode()] == redis_client.lrange("rq:queue:default", 0, -1)


def test_run_of_an_unknown_schedule_is_not_found(zsched: Zsched) -> None:
    assert NOT_FOUND == zsched("run", "nobody").exit_code


def _policies(zsched: Zsched) -> dict[str, Any]:
    names = ("overlap", "overlap_limit", "catch_up", "catch_up_window_s", "catch_up_limit", "jitter_s")
    told = zsched.json("show", "beat")
    return {name: told[name] for name in (*names, "expires_after_s")}


def test_policies_jitter_and_expiry_are_set_and_unset(zsched: Zsched) -> None:
    zsched("add", "beat", FUNC, "--every", "1h")
    usual = _policies(zsched)

    zsched("set", "beat", "--overlap", "queue", "--overlap-limit", "3", "--jitter", "10m", "--expires-after", "30m")
    zsched("set", "beat", "--catch-up", "all", "--catch-up-window", "90s", "--catch-up-limit", "4")
    changed = _policies(zsched)
    options = ("overlap", "overlap-limit", "catch-up", "catch-up-window", "catch-up-limit", "jitter", "expires-after")
    zsched("set", "beat", *(word for option in options for word in ("--unset", option)))

    assert ["queue", 3, "all", 90.0, 4, 600.0, 1800.0] == [*changed.values()]
    assert usual == _policies(zsched)
    assert ["skip", None, "latest", 86_400.0, 100, 0.0, None] == [*usual.values()]


def test_an_urgency_is_the_options_it_names_but_for_those_that_are_given(zsched: Zsched) -> None:
    zsched("add", "beat", FUNC, "--every", "1h", "--urgency", "digest", "--expires-after", "2h")
    first = zsched.json("show", "beat")
    zsched("set", "beat", "--urgency", "asap")
    then = zsched.json("show", "beat")

    assert ("low", False, 600.0, 7200.0) == (
        first["priority"], first["at_front"], first["jitter_s"], first["expires_after_s"],
    )  # fmt: skip
    assert ("high", True, 600.0, 7200.0) == (
        then["priority"], then["at_front"], then["jitter_s"], then["expires_after_s"],
    )  # fmt: skip


def test_show_tells_people_of_policies_that_are_not_the_default(zsched: Zsched) -> None:
    zsched("add", "plain", FUNC, "--every", "1h")
    zsched("add", "beat", FUNC, "--every", "1h", "--catch-up", "all", "--overlap", "queue", "--jitter", "10m")
    zsched("set", "beat", "--expires-after", "90m", "--catch-up-window", "0", "--overlap-limit", "3")

    plain, told = (zsched("show", id).stdout.splitlines() for id in ("plain", "beat"))

    def policies(lines: list[str]) -> list[list[str]]:
        words = ("overlap", "catch_up", "jitter", "expires_after")
        return [line.split() for line in lines if line.lstrip().startswith(words)]

    assert [] == policies(plain)
    assert [
        ["overlap", "queue"],
        ["overlap_limit", "3"],
        ["catch_up", "all"],
        ["catch_up_window", "0s"],
        ["jitter", "10m"],
        ["expires_after", "1h30m"],
    ] == policies(told)


def test_a_limit_of_failures_is_set_and_unset(zsched: Zsched) -> None:
    zsched("add", "digest", FUNC, "--every", "1h", "--pause-after-failures", "5", "--on-lost", "fail")
    zsched("set", "digest", "--pause-after-failures", "2", "--on-lost", "retry")
    before = zsched.json("show", "digest")
    zsched("set", "digest", "--unset", "pause-after-failures")

    assert (2, "retry") == (before["pause_after_failures"], before["on_lost"])
    assert zsched.json("show", "digest")["pause_after_failures"] is None
