"""Fields of the form that edits a schedule: from the table of options, and each value as a text and back."""

from typing import Any

import pytest

from tests.builders.schedules import schedule
from zsched.core.occurrences.policy import Policy
from zsched.core.options.choices import OnLost, Overlap
from zsched.core.options.forms import Group, RateLimit
from zsched.core.options.table import FOR_UPDATE
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.spec import TriggerSpec
from zsched.web.console.edit import EDITED, Field, editable_fields

NOT_SHOWN = {"after", "urgency", "meta", "on_success", "on_failure", "durable", "allow_past", "if_version"}
RULE = TriggerSpec(EVERY, *EVERY.parse(300)[:1])


def fields(**options: Any) -> dict[str, Field]:
    return {field.name: field for field in editable_fields(schedule(trigger=RULE, **options), has_arguments=True)}


def test_every_option_that_an_update_takes_and_a_schedule_shows_has_a_field() -> None:
    assert sorted(FOR_UPDATE - NOT_SHOWN) == sorted(EDITED)


def test_a_form_has_its_rule_first_and_the_other_options_in_their_groups() -> None:
    found = fields()

    assert [Group.EVERYDAY, Group.LATE] == [found["every"].group, found["overlap"].group]
    assert Group.EVERYDAY is Field.of("rrule", "FREQ=DAILY").group


@pytest.mark.parametrize(
    ("name", "options", "text", "value"),
    [
        ("rate_limit", {"rate_limit": RateLimit("mail:a", 3)}, "mail:a:3", "mail:a:3"),
        ("overlap", {"policy": Policy(overlap=Overlap.ALLOW)}, "allow", "allow"),
        ("catch_up_window", {"policy": Policy(catch_up_window_ms=90_000)}, "1m30s", "1m30s"),
        ("on_lost", {"on_lost": OnLost.FAIL}, "fail", "fail"),
        ("pause_after_failures", {"pause_after_failures": 3}, "3", 3),
        ("at_front", {"at_front": True}, "yes", True),
        ("tags", {"tags": ("a", "b")}, "a, b", ["a", "b"]),
        ("timeout", {"timeout_s": -1}, "-1", "-1"),
        ("timeout", {"timeout_s": 300}, "5m", "5m"),
        ("rate_limit", {}, "", None),
        ("queue", {"queue": ""}, "", "default"),
    ],
)
def test_a_field_has_the_text_of_its_value_and_gives_the_value_back(
    name: str, options: dict[str, Any], text: str, value: Any
) -> None:
    field = fields(**options)[name]

    assert (text, value) == (field.text, field.value())
