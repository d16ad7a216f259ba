"""``zsched cancel``, ``pause``, ``resume`` and ``run``, also with filters; ``zsched set``."""

import json
from typing import Any

import pytest
import redis

from tests.builders.command_line import FUNC, LATER, Zsched
from tests.prefix import RQ
from zsched import Client, Contended
from zsched.cli import repairs
from zsched.cli.program import DONE, FAILED, INTERRUPTED, NOT_FOUND, USAGE
from zsched.storage.reader import Reader

pytestmark = pytest.mark.once


def test_cancel_prints_a_result_per_id_and_exits_with_not_found(some: Zsched) -> None:
    result = some("cancel", "party", "nobody", "beat", "--json")

    assert NOT_FOUND == result.exit_code
    assert [("party", "cancelled"), ("nobody", "not_found"), ("beat", "cancelled")] == [
        (one["id"], one["result"]) for one in json.loads(result.stdout)
    ]
    assert {"digest", "stopped"} == set(some.ids())


def test_resume_and_run_print_the_next_time_and_the_run_id(some: Zsched, redis_client: redis.Redis) -> None:
    resumed = some("resume", "stopped")

    assert DONE == resumed.exit_code
    assert resumed.output.startswith("stopped: resumed (next ")
    assert "active" == some.json("show", "stopped")["state"]

    result = some("run", "beat")

    assert [result.output.strip().encode()] == redis_client.lrange(f"{RQ}:queue:default", 0, -1)


def test_resume_skips_an_overdue_one_shot_or_says_it_fires(zsched: Zsched, monkeypatch: pytest.MonkeyPatch) -> None:
    for id in ("skipped", "late"):
        zsched("add", id, FUNC, "--at", "2026-01-01T00:00Z", "--allow-past")
        zsched("pause", id)

    skipped = zsched("resume", "skipped", "--skip-missed")
    monkeypatch.setattr(Reader, "find", lambda reader, id: None)  # a daemon has fired it
    result = zsched("resume", "late", "--json")

    ended = "skipped: skipped (its time had passed, so it has ended)\n"
    assert (DONE, ended) == (skipped.exit_code, skipped.output)
    told = {"id": "late", "result": "resumed", "remark": "its time had passed, so it fires now; see zsched why late"}
    assert (DONE, [told]) == (result.exit_code, json.loads(result.stdout))


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("set nobody --tag a", NOT_FOUND, ""),
        ("run nobody", NOT_FOUND, ""),
        ("set beat", USAGE, ""),
        ("set party --every 5", USAGE, ""),  # a one-shot becomes no rule
        ("cancel stopped nobody", NOT_FOUND, "stopped: cancelled\nnobody: not_found\n"),
        ("pause nobody beat", NOT_FOUND, "nobody: not_found\nbeat: paused"),
        ("resume nobody stopped", NOT_FOUND, "nobody: not_found\nstopped: resumed"),
        ("cancel fired", FAILED, "fired: already_fired\n"),
    ],
)
def test_a_command_that_cannot_do_all_has_an_exit_code(some: Zsched, command: str, code: int, output: str) -> None:
    some("add", "fired", FUNC, "--after", "1h")
    some("run", "fired")

    result = some(*command.split())

    assert (code, True) == (result.exit_code, result.stdout.startswith(output)), result.output


def test_set_changes_the_given_options_and_keeps_the_rest(zsched: Zsched) -> None:
    zsched("add", "reminder", FUNC, *LATER, "--args", "[1]", "--tag", "a", "--description", "once")

    told = zsched.json("set", "reminder", "--at", "2030-12-24T19:00", "--unset", "tag")
    zsched("set", "reminder", "--args", "[2]")
    shown = zsched.json("show", "reminder")

    assert ("updated", "2030-12-24T10:00:00.000Z") == (told["outcome"], told["next_at"])
    assert ([2], [], "once", "Asia/Seoul") == (shown["args"], shown["tags"], shown["description"], shown["tz"])


def test_set_fails_for_forbidden_functions_and_names_a_contention(
    zsched: Zsched, monkeypatch: pytest.MonkeyPatch
) -> None:
    zsched("add", "shell", "os.system", "--every", "1h", "--args", '["true"]')
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.*"

    result = zsched("set", "shell", "--args", '["reboot"]')

    assert USAGE == result.exit_code
    assert ["true"] == zsched.json("show", "shell")["args"]

    def contended(*_: Any, **__: Any) -> None:
        raise Contended("schedule 'beat' was changed by another writer at every attempt")

    monkeypatch.setattr(Client, "update", contended)

    result = zsched("set", "beat", "--tag", "a", "--json")

    assert FAILED == result.exit_code
    assert '"Contended"' in result.stderr + result.stdout


def _policies(zsched: Zsched) -> dict[str, Any]:
    names = ("overlap", "overlap_limit", "catch_up", "catch_up_window_s", "catch_up_limit", "jitter_s")
    told = zsched.json("show", "beat")
    return {name: told[name] for name in (*names, "expires_after_s")}


def test_policies_jitter_expiry_and_limits_are_set_and_unset(zsched: Zsched) -> None:
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

    zsched("add", "digest", FUNC, "--every", "1h", "--pause-after-failures", "5", "--on-lost", "fail")
    zsched("set", "digest", "--pause-after-failures", "2", "--on-lost", "retry")
    before = zsched.json("show", "digest")
    zsched("set", "digest", "--unset", "pause-after-failures")

    assert (2, "retry") == (before["pause_after_failures"], before["on_lost"])
    assert zsched.json("show", "digest")["pause_after_failures"] is None


def test_an_urgency_sets_its_options_except_explicitly_given_options(zsched: Zsched) -> None:
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


@pytest.fixture
def campaign(zsched: Zsched) -> Zsched:
    for number in range(12):
        zsched("add", f"mail-{number:02}", FUNC, "--after", "5m", "--tag", "sale", "--queue", "email")
    zsched("add", "beat", FUNC, "--every", "90s")
    return zsched


def test_a_dry_run_prints_the_count_and_the_first_ids(campaign: Zsched) -> None:
    result = campaign("cancel", "--tag", "sale", "--dry-run")

    ids = [f"mail-{number:02}" for number in range(10)]
    assert (DONE, [*ids, "… and 2 more", "12 schedules would be cancelled"]) == (
        result.exit_code,
        result.stdout.splitlines(),
    )
    assert 13 == len(campaign.ids())


def test_schedules_are_paused_resumed_and_cancelled_by_filters(campaign: Zsched) -> None:
    campaign("pause", "mail-03")

    paused = campaign("pause", "--queue", "email", "--note", "provider down")
    resumed = campaign("resume", "--match", "mail-*")
    cancelled = campaign("cancel", "--tag", "sale", "--state", "active")

    assert ["11 schedules paused", "12 schedules resumed", "12 schedules cancelled"] == [
        result.stdout.strip() for result in (paused, resumed, cancelled)
    ]
    assert ["beat"] == campaign.ids()


def test_many_schedules_are_refused_without_yes(campaign: Zsched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairs, "UNASKED", 10)

    refused = campaign("cancel", "--tag", "sale")
    sure = campaign("cancel", "--tag", "sale", "--yes", "--json")

    assert USAGE == refused.exit_code
    assert "12 schedules are found, more than 10, and nothing was changed" in refused.stderr
    assert "zsched cancel … --yes" in refused.stderr
    assert (DONE, 12) == (sure.exit_code, json.loads(sure.stdout)["done"])


@pytest.mark.parametrize("command", ["cancel", "pause", "resume"])
def test_neither_and_both_of_ids_and_filters_are_usage_errors(campaign: Zsched, command: str) -> None:
    neither, both = campaign(command), campaign(command, "beat", "--tag", "sale")
    dry = campaign(command, "beat", "--dry-run")

    assert [USAGE, USAGE, USAGE] == [neither.exit_code, both.exit_code, dry.exit_code]
    assert f"which schedules?; give ids, or filters such as: zsched {command} --" in neither.stderr
    assert "--tag is for filters, and ids are given" in both.stderr
    assert "--dry-run is for filters, and ids are given" in dry.stderr
    assert "no filter is given" in campaign("cancel", "--yes").stderr
    assert 13 == len(campaign.ids("--state", "active"))


def test_a_refused_schedule_is_printed_with_its_reason(campaign: Zsched, redis_url: str) -> None:
    client = Client.from_url(redis_url, serializer="json")
    client.cancel_many(tag="sale")
    client._link.execute("ZREM", client._keys.due_normal(), "beat")  # its rule has ended

    result = campaign("pause", "--match", "beat", "--state", "ended")

    assert FAILED == result.exit_code
    assert result.stdout.startswith("beat: refused (")
    assert result.stdout.endswith("0 schedules paused; 1 refused\n")


def test_ctrl_c_says_how_far_the_command_came(campaign: Zsched, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(client: Client, on_progress: object, **given: object) -> object:
        on_progress(5, 12)  # type: ignore[operator]
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "cancel_many", interrupted)

    result = campaign("cancel", "--tag", "sale", "--yes")

    assert INTERRUPTED == result.exit_code
    assert "stopped after 5 of 12 schedules, or up to 100 more; the same command continues" in result.stderr


def test_skip_tells_the_next_time_and_what_is_left_out(zsched: Zsched) -> None:
    zsched("add", "digest", FUNC, "--cron", "0 9 * * *", "--tz", "Asia/Seoul")
    first, second = (one["local"] for one in zsched.json("next", "digest", "--number", "2"))

    skipped = zsched("skip", "digest", first, "--note", "holiday")
    refused = zsched("skip", "digest", first.replace("T09:00", "T09:01"))
    back = zsched("skip", "digest", "--take-back")

    assert f"digest: skipped (next {second.replace('T', ' ')}" in skipped.output
    assert f"left out: {first.replace('T', ' ')})" in skipped.output
    assert (USAGE, True) == (refused.exit_code, "no occurrence of its rule is then" in refused.output)
    assert f"digest: taken_back (next {first.replace('T', ' ')}" in back.output


def test_next_marks_skipped_times_and_its_json_leaves_them_out(zsched: Zsched) -> None:
    zsched("add", "digest", FUNC, "--cron", "0 9 * * *")
    zsched("skip", "digest")

    lines = zsched("next", "digest", "--number", "1").output.splitlines()

    assert [True, False] == ["skipped by hand" in line for line in lines[-2:]]
    assert 1 == len(zsched.json("next", "digest", "--number", "1"))
    assert 1 == len(zsched.json("show", "digest")["skipped"])


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("skip nobody", NOT_FOUND, "nobody: not_found\n"),
        ("skip party", USAGE, "zsched cancel party"),
        ("skip beat --next 2 --take-back", USAGE, "--next goes without"),
        ("skip beat --if-version 1-1-1", FAILED, "beat: changed"),
        ("pause beat --until 2026-01-01T00:00Z", USAGE, "the time has come"),
        ("pause --queue default --until 2099-01-01T00:00", USAGE, "a naive datetime is ambiguous"),
        ("pause beat --until 2099-01-01T00:00Z", DONE, "beat: paused (until 2099-01-01 00:00:00+00:00"),
    ],
)
def test_skip_and_pause_say_what_is_in_their_way(some: Zsched, command: str, code: int, output: str) -> None:
    result = some(*command.split())

    assert (code, True) == (result.exit_code, output in result.output + result.stderr), result.output
