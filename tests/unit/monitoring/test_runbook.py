"""The runbook: a paragraph for each alert, and only existing commands, events and settings."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise, takewhile

import click
import pytest

from tests.unit.monitoring.ground import CHECKOUT, RUNBOOK, alerts
from zsched.cli import program
from zsched.cli.program import LazyCommand

TEXT = RUNBOOK.read_text()
SECTIONS = dict(re.findall(r"^### (\w+)\n\n(.*?)\n(?=\n#|\Z)", TEXT, re.MULTILINE | re.DOTALL))
QUOTED = [re.sub(r"\s+", " ", quoted) for quoted in re.findall(r"`([^`]+)`", TEXT)]
COMMANDS = sorted({quoted for quoted in QUOTED if quoted.startswith("zsched ")})
WORDS = sorted({quoted for quoted in QUOTED if re.fullmatch(r"[a-z]+(?:_[a-z]+)+", quoted)})


def sources() -> str:
    """Return all code and all settings as text."""
    files = [*CHECKOUT.joinpath("zsched").rglob("*.py"), *CHECKOUT.joinpath("zsched").rglob("*.lua")]
    return "\n".join(file.read_text() for file in files)


@pytest.mark.parametrize("name", sorted(alerts()))
def test_an_alert_has_a_paragraph_with_meaning_look_and_remedy(name: str) -> None:
    section = SECTIONS[name]

    assert "\n\n" not in section  # one paragraph: it is read at night
    assert section.startswith(f"*{alerts()[name]['labels']['severity'].capitalize()}.* **Means:** ")
    assert re.search(r"\*\*Look:\*\*.*\*\*Do:\*\*|\*\*Look\s+and\s+do:\*\*", section, re.DOTALL)


def test_the_runbook_has_exactly_a_paragraph_per_existing_alert() -> None:
    assert set(SECTIONS) == set(alerts())
    assert set(re.findall(r"\bZsched[A-Z]\w+", TEXT)) <= set(alerts())


def test_every_row_of_the_requirement_has_alerts() -> None:
    table = re.findall(r"^\| ([^|]*) \| (Zsched[^|]*) \|$", TEXT, re.MULTILINE)

    rows = ("evaluation lag", "missed count", "double fires", "failed share", "leader flaps", "duration", "queue depth")
    assert all(any(row in name for name, _ in table) for row in rows)


@pytest.mark.parametrize("text", COMMANDS)
def test_every_command_of_the_runbook_can_be_typed(text: str) -> None:
    name, *rest = shlex.split(re.sub(r"[\[\]…]", "", text))[1:]
    command = program.commands[name]
    command = command.load() if isinstance(command, LazyCommand) else command

    options = {option for parameter in command.params for option in parameter.opts}
    given = {word for word in takewhile(lambda word: word != "|", rest) if re.match(r"-\w|--\w", word)}
    assert given <= options
    values = {"--status": "status", "--state": "state"}
    for option, value in pairwise(rest):
        if option in values:
            [choice] = [parameter.type for parameter in command.params if option in parameter.opts]
            assert isinstance(choice, click.Choice)
            assert value in choice.choices


def test_every_event_outcome_and_setting_in_the_runbook_exists() -> None:
    code = sources()

    assert WORDS
    assert [] == [word for word in WORDS if not re.search(rf"\b{word}\b", code)]
