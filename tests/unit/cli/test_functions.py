"""Functions named in a command: allowed ones, and the note about missing ones."""

from __future__ import annotations

import os
from typing import Any

import pytest
from rq.job import Callback

from zsched.cli.functions import is_roots_alone, tell_unchecked
from zsched.client.allowed import check_allowed
from zsched.errors import InvalidSchedule


@pytest.mark.parametrize(
    ("func", "options", "refused"),
    [
        ("app.tasks.send", {}, None),
        (None, {"on_success": "app.tasks.done"}, None),
        ("os.system", {}, "func='os.system'"),
        ("app.tasks.os.system", {}, "func='app.tasks.os.system'"),
        ("app.tasks.send", {"on_success": "os.abort"}, "on_success='os.abort'"),
        ("app.tasks.send", {"on_failure": {"func": "os.abort"}}, "on_failure='os.abort'"),
        ("app.tasks.send", {"on_failure": Callback("os.abort", timeout=9)}, "on_failure='os.abort'"),
        ("app.tasks.send", {"on_failure": 7}, None),  # for the client to refuse
    ],
)
def test_every_function_that_is_named_must_be_allowed(
    func: str | None, options: dict[str, Any], refused: str | None
) -> None:
    told = None

    try:
        check_allowed(("app.tasks.*",), func, options)
    except InvalidSchedule as error:
        told = str(error).partition(":")[0]

    assert refused == told


def test_ten_of_many_missing_functions_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    tell_unchecked({f"gone.f{n}": "gone" for n in range(1012)}, "so it goes")

    out, err = capsys.readouterr()
    assert ("", 10, True) == (out, err.count("(no module 'gone')"), err.endswith(", and 1,002 more; so it goes\n"))


def test_a_note_is_not_printed_if_all_functions_exist(capsys: pytest.CaptureFixture[str]) -> None:
    tell_unchecked({}, "so it goes")

    assert ("", "") == capsys.readouterr()


@pytest.mark.parametrize(
    ("owner", "mode", "is_alone"),
    [
        (0, 0o040755, True),
        (0, 0o040700, True),
        (0, 0o040775, False),
        (0, 0o040757, False),
        (0, 0o041777, False),  # /tmp: others may put their files there
        (1000, 0o040700, False),
    ],
)
def test_a_folder_is_safe_for_root_if_only_root_may_write_there(owner: int, mode: int, is_alone: bool) -> None:
    assert is_alone is is_roots_alone(os.stat_result((mode, 1, 1, 2, owner, 0, 4096, 0, 0, 0)))
