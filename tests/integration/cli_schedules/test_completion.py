"""Completion of commands, options and ids in a shell, and the groups of ``zsched --help``."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from tests.builders.command_line import Zsched
from zsched.cli import program
from zsched.cli.program import DONE
from zsched.core.options.forms import Group


def completions(words: list[str], incomplete: str) -> list[str]:
    shell = ShellComplete(program, {}, "zsched", "_ZSCHED_COMPLETE")
    return [one.value for one in shell.get_completions(words, incomplete)]


@pytest.fixture
def two(zsched: Zsched) -> Zsched:
    for id in ("mail-ada", "mail-bob", "digest"):
        assert DONE == zsched("add", id, "app.mail", "--after", "1h").exit_code
    return zsched


@pytest.mark.parametrize("name", ["why", "show", "history", "next", "cancel", "pause", "resume", "run", "set"])
def test_ids_are_completed_from_redis(two: Zsched, name: str) -> None:
    url = str(two.env["ZSCHED_REDIS_URL"])

    assert ["mail-ada", "mail-bob"] == completions(["-u", url, name], "mail")


def test_options_and_commands_are_completed_and_ids_only_if_redis_answers() -> None:
    assert ["history"] == completions([], "hist")
    assert "--status" in completions(["history"], "--st")

    assert [] == completions(["-u", "redis://127.0.0.1:1/0", "why"], "mail")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_for_a_shell_is_printed(shell: str) -> None:
    found = CliRunner().invoke(program, ["files", f"completion.{shell}"])

    assert DONE == found.exit_code
    assert f"_ZSCHED_COMPLETE={shell}_complete" in found.stdout


def test_bash_completes_an_id_with_the_printed_code(two: Zsched) -> None:
    env = {**os.environ, **{name: str(value) for name, value in two.env.items()}}
    env |= {"_ZSCHED_COMPLETE": "bash_complete", "COMP_WORDS": "zsched pause dig", "COMP_CWORD": "2"}

    found = subprocess.run([sys.executable, "-m", "zsched.cli"], env=env, capture_output=True, text=True, check=True)

    assert "plain,digest" == found.stdout.strip()


def test_the_help_of_add_has_the_everyday_options_first_and_the_others_in_groups() -> None:
    found = CliRunner().invoke(program, ["add", "--help"]).stdout

    places = [found.index(f"\n{heading}:\n") for heading in (*Group, "Options")]
    assert places == sorted(places)
    assert found.index("  --cron ") < places[1] < found.index("  --rrule ") < places[2] < found.index("  --tag ")


def test_the_help_lists_commands_in_groups_with_whole_summaries() -> None:
    found = CliRunner().invoke(program, ["--help"], terminal_width=80).stdout

    assert found.index("Everyday:") < found.index("  why ") < found.index("Schedules:") < found.index("  show ")
    assert "..." not in found.partition("Everyday:")[2]
    assert "  backfill " not in found
    assert "  backfill " in CliRunner().invoke(program, ["--help-all"]).stdout.partition("Rare:")[2]
    assert max(map(len, found.partition("Everyday:")[2].splitlines())) <= 80
