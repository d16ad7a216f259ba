"""``zsched set``: given options change, unset options go, the rest stays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cli_schedules.ground import FUNC, LATER, Zsched
from zsched import Client, Contended
from zsched.cli.program import FAILED, USAGE

pytestmark = pytest.mark.once


def test_set_changes_the_given_options_and_keeps_the_rest(zsched: Zsched) -> None:
    zsched("add", "reminder", FUNC, *LATER, "--args", "[1]", "--tag", "a", "--description", "once")

    told = zsched.json("set", "reminder", "--at", "2030-12-24T19:00", "--unset", "tag")
    zsched("set", "reminder", "--args", "[2]")
    shown = zsched.json("show", "reminder")

    assert ("updated", "2030-12-24T10:00:00.000Z") == (told["outcome"], told["next_at"])
    assert ([2], [], "once", "Asia/Seoul") == (shown["args"], shown["tags"], shown["description"], shown["tz"])


def test_set_of_a_schedule_that_changes_at_every_attempt_fails_and_names_the_error(
    zsched: Zsched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contended(*_: Any, **__: Any) -> None:
        raise Contended("schedule 'beat' was changed by another writer at every attempt")

    monkeypatch.setattr(Client, "update", contended)

    result = zsched("set", "beat", "--tag", "a", "--json")

    assert FAILED == result.exit_code
    assert '"Contended"' in result.stderr + result.stdout


def test_set_cannot_change_the_arguments_of_a_function_that_is_not_allowed(zsched: Zsched) -> None:
    zsched("add", "shell", "os.system", "--every", "1h", "--args", '["true"]')
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.*"

    result = zsched("set", "shell", "--args", '["reboot"]')

    assert USAGE == result.exit_code
    assert ["true"] == zsched.json("show", "shell")["args"]


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


def test_a_limit_of_failures_is_set_and_unset(zsched: Zsched) -> None:
    zsched("add", "digest", FUNC, "--every", "1h", "--pause-after-failures", "5", "--on-lost", "fail")
    zsched("set", "digest", "--pause-after-failures", "2", "--on-lost", "retry")
    before = zsched.json("show", "digest")
    zsched("set", "digest", "--unset", "pause-after-failures")

    assert (2, "retry") == (before["pause_after_failures"], before["on_lost"])
    assert zsched.json("show", "digest")["pause_after_failures"] is None
