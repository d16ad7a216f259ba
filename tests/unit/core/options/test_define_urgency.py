"""Urgency: presets of options; and the table of options, whose entries fit each other."""

import re
import typing
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import pytest

from tests.builders.schedules import schedule
from zsched.core.model import Definition, Schedule
from zsched.core.options.checked import CheckedOptions, read_letters, read_options
from zsched.core.options.choices import OnLost, OnUncertain, Priority
from zsched.core.options.define import PRESETS, define, define_now, merged_presets
from zsched.core.options.forms import Group, Option, RateLimit, Stored
from zsched.core.options.revision import revise
from zsched.core.options.table import (
    ELSEWHERE,
    FOR_ENQUEUE,
    FOR_UPDATE,
    ONLY_ENQUEUE,
    OPTIONS,
    ScheduleOptions,
)
from zsched.core.triggers.trigger import RULES, KindOptions
from zsched.errors import InvalidSchedule

AT = datetime(2026, 11, 21, 8, tzinfo=UTC)
HIGH, LOW, NORMAL = Priority.HIGH, Priority.LOW, Priority.NORMAL

Told = tuple[Priority, bool, int | None, int]  # priority, at front, expires_ms, jitter_ms


def _define(**options: Any) -> Definition:
    return define("app.task", {"at": AT, **options}, "made-up")


def _told(definition: Definition) -> Told:
    return definition.priority, definition.at_front, definition.expires_ms, definition.jitter_ms


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"urgency": "asap"}, (HIGH, True, None, 0)),
        ({"urgency": "time_sensitive"}, (HIGH, False, 1_800_000, 0)),
        ({"urgency": "digest"}, (LOW, False, 86_400_000, 600_000)),
        ({"urgency": None}, (NORMAL, False, None, 0)),
        ({"urgency": "asap", "at_front": False}, (HIGH, False, None, 0)),
        ({"urgency": "asap", "priority": "low"}, (LOW, True, None, 0)),
        ({"urgency": "time_sensitive", "expires_after": 60}, (HIGH, False, 60_000, 0)),
        ({"urgency": "digest", "jitter": 0}, (LOW, False, 86_400_000, 0)),
        ({"urgency": "digest", "jitter": 5, "expires_after": 60}, (LOW, False, 60_000, 5000)),
        ({"urgency": "digest", "jitter": None, "expires_after": None}, (LOW, False, 86_400_000, 600_000)),
    ],
)
def test_a_preset_sets_its_options_but_for_those_of_the_call(options: dict[str, Any], expected: Told) -> None:
    assert expected == _told(_define(**options))


@pytest.mark.parametrize("name", ["urgent", "", "ASAP", 1, ["asap"], True])
def test_an_unknown_urgency_is_refused_with_the_list_of_urgencies(name: Any) -> None:
    says = r"^urgency=.*not an urgency; give one of asap, time_sensitive, digest$"
    with pytest.raises(InvalidSchedule, match=says):
        _define(urgency=name)
    with pytest.raises(InvalidSchedule, match=says):
        revise(ONCE, {"queue": "default"}, b"stored", {"urgency": name}, PRESETS)


def test_a_rule_accepts_an_urgency_too_and_an_immediate_run_omits_options_that_it_cannot_have() -> None:
    rule = define("app.task", {"every": 3600, "urgency": "digest"}, "made-up")
    now = define_now("app.task", {"urgency": "digest"}, "made-up")

    assert 600_000 == rule.when.jitter_ms  # type: ignore[union-attr]  # a rule
    assert (LOW, False, 86_400_000, 0) == _told(rule) == _told(now)


def test_a_rule_that_is_faster_than_the_jitter_of_its_urgency_is_refused() -> None:
    says = r"^urgency=.digest.: it has jitter=600: larger than the time.*; give jitter= too, or another urgency"
    with pytest.raises(InvalidSchedule, match=says):
        define("app.task", {"every": 60, "urgency": "digest"}, "made-up")


def test_given_presets_replace_and_extend_the_defaults() -> None:
    presets = merged_presets({"digest": {"jitter": 60}, "news": {"priority": "low"}})

    changed = define("app.task", {"at": AT, "urgency": "digest"}, "made-up", presets)
    added = define_now("app.task", {"urgency": "news"}, "made-up", presets)

    assert (LOW, False, 86_400_000, 60_000) == _told(changed)
    assert (LOW, False, None, 0) == _told(added)
    assert 600 == PRESETS["digest"]["jitter"], "the defaults stay what they are"
    assert [*PRESETS, "news"] == [*presets]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sms": {"queue": "sms"}}, r"^queue='sms': not an option of an urgency; give priority, at_front"),
        ("digest", "not presets; give a dict such as"),
        ([], "not presets; give a dict such as"),
        ({"digest": "low"}, "not presets; give a dict such as"),
        ({"digest": {"jitter": 60}, "sms": None}, "not presets; give a dict such as"),
    ],
)
def test_presets_of_a_wrong_form_or_with_other_options_are_refused(given: Any, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says):
        merged_presets(given)


ONCE = schedule(priority=LOW, next_ms=0, nominal_ms=1_795_248_000_000, expires_ms=60_000)


@pytest.mark.parametrize(
    ("old", "changes", "expected"),
    [
        (ONCE, {"urgency": "asap"}, (HIGH, True, 60_000, 0)),
        (ONCE, {"urgency": "time_sensitive"}, (HIGH, False, 1_800_000, 0)),
        (ONCE, {"urgency": "time_sensitive", "expires_after": 5}, (HIGH, False, 5000, 0)),
        (replace(ONCE, jitter_ms=7000), {"urgency": "asap"}, (HIGH, True, 60_000, 7000)),
        (ONCE, {"urgency": None}, (LOW, False, 60_000, 0)),
    ],
)
def test_an_update_to_an_urgency_changes_its_options(old: Schedule, changes: dict[str, Any], expected: Told) -> None:
    assert expected == _told(revise(old, {"queue": "default"}, b"stored", changes, PRESETS))


OTHER = CheckedOptions(
    tz="Asia/Seoul", at_front=True, on_uncertain=OnUncertain.SKIP, on_lost=OnLost.FAIL, pause_after_failures=3,
    jitter_ms=5000, expires_ms=60_000, done_by="06:00", rate_limit=RateLimit("mail", 3), tags=("a", "ä"),
    owner="file:x", name="The digest: v1.2",
)  # fmt: skip
NAMED = [pytest.param(option, id=name) for name, option in OPTIONS.items()]


def types() -> dict[str, Any]:
    """Return the types of the options, as a caller sees them."""
    return typing.get_type_hints(ScheduleOptions)


def literals(type_: Any) -> list[Any]:
    return [word for part in get_args(type_) if typing.get_origin(part) is Literal for word in get_args(part)]


@pytest.mark.parametrize("option", NAMED)
def test_the_type_of_an_option_lists_the_words_of_its_enum_and_its_help_is_a_sentence(option: Option) -> None:
    type_, enum = types()[option.name], option.form.enum

    assert option.form.words == literals(type_)
    assert enum is None or enum in get_args(type_)
    assert re.fullmatch(r"[A-Z].{8,80}[.;]?.*\.", option.help)


def test_the_typed_trigger_options_are_exactly_the_kinds_of_triggers() -> None:
    assert list(RULES) == list(typing.get_type_hints(KindOptions))


def test_two_options_never_share_a_letter_a_field_or_another_name() -> None:
    fields = Counter((option.stored, option.field) for option in OPTIONS.values() if option.field)
    letters = Counter(option.letter for option in OPTIONS.values() if option.letter)
    elsewhere = sum(len(option.elsewhere.split()) for option in [*OPTIONS.values(), *ONLY_ENQUEUE.values()])

    assert {1} == set(fields.values()) | set(letters.values())
    assert (elsewhere, set()) == (len(ELSEWHERE), ELSEWHERE.keys() & OPTIONS.keys())


def test_twelve_options_are_of_every_day_and_each_other_one_names_its_group() -> None:
    everyday = [name for name, option in (OPTIONS | ONLY_ENQUEUE).items() if option.group is Group.EVERYDAY]

    assert "id at after every cron tz args kwargs queue expires_after timeout retry".split() == everyday


def test_an_update_takes_every_option_except_those_of_a_put() -> None:
    assert OPTIONS.keys() - FOR_UPDATE == {"id", "if_exists", "enabled"}
    assert {"unique_for"} == FOR_ENQUEUE - OPTIONS.keys() == ONLY_ENQUEUE.keys()


@pytest.mark.parametrize("stored", [Stored.JOB, Stored.OWN, Stored.LABEL])
def test_options_that_differ_from_their_defaults_are_written_and_read_back(stored: Stored) -> None:
    texts = OTHER.texts(stored)

    kept = [option for option in OPTIONS.values() if option.stored is stored]
    assert {field for option in kept for field in option.field.split()} == texts.keys()
    assert {name: getattr(OTHER, name) for name in read_options({stored: texts})} == read_options({stored: texts})
    assert len(kept) == len(read_options({stored: texts}))
    assert CheckedOptions().texts(stored) == {}


def test_flags_are_written_and_read_back() -> None:
    assert ("fsel", "") == (OTHER.letters(), CheckedOptions().letters())
    assert {"at_front": True, "on_uncertain": OnUncertain.SKIP} == read_letters("fsel")
    assert {} == read_letters("")


@pytest.mark.parametrize(
    ("stored", "texts", "names"),
    [
        (Stored.JOB, {"zs_on_lost": "perhaps", "zs_expires": "soon", "zs_jitter": "9" * 5000},
         {"on_lost", "expires_after", "jitter"}),
        (Stored.JOB, {"zs_jitter": "-1", "zs_expires": "0"}, {"jitter", "expires_after"}),
        (Stored.JOB, {"zs_jitter": "1_000"}, {"jitter"}),  # a number for Python, and not for Lua
        (Stored.JOB, {"zs_jitter": "٣"}, {"jitter"}),
        (Stored.JOB, {"rate_limit_key": "mail"}, set()),
        (Stored.JOB, {"rate_limit_concurrency": "3"}, set()),
        (Stored.JOB, {"rate_limit_key": "mail", "rate_limit_concurrency": "many"}, {"rate_limit"}),
        (Stored.JOB, {"rate_limit_key": "mail", "rate_limit_concurrency": "0"}, {"rate_limit"}),
        (Stored.JOB, {"rate_limit_key": "", "rate_limit_concurrency": "3"}, {"rate_limit"}),
        (Stored.RQ, {"timeout": "-2", "result_ttl": "9" * 18}, {"timeout", "result_ttl"}),
        (Stored.RQ, {"retries_left": "-1"}, {"retry"}),
        (Stored.OWN, {"pause_after": ""}, {"pause_after_failures"}),
        (Stored.OWN, {"pause_after": "0"}, {"pause_after_failures"}),
        (Stored.LABEL, {"tags": "["}, {"tags"}),
        (Stored.LABEL, {"tags": "5"}, {"tags"}),
        (Stored.LABEL, {"tags": '["\\ud800"]', "tz": "x" * 201}, {"tags", "tz"}),
    ],
)  # fmt: skip
def test_a_corrupted_option_field_is_read_as_missing_and_named(
    stored: Stored, texts: dict[str, str], names: set[str]
) -> None:
    options = read_options({stored: texts})

    assert names == set(options.pop("unreadable", ()))
    assert {} == options


def test_stored_options_are_returned_in_the_form_that_callers_give() -> None:
    usual, other = CheckedOptions().arguments(), replace(OTHER, priority=Priority.LOW).arguments()

    optional = {option.name for option in OPTIONS.values() if option.is_optional}
    assert {None} == {value for name, value in usual.items() if name in optional}
    assert None not in {value for name, value in usual.items() if name not in optional}
    checked = {name: OPTIONS[name].form.check(name, value) for name, value in other.items() if value is not None}
    assert {OPTIONS[name].attribute: value for name, value in checked.items()}.items() >= {
        "priority": Priority.LOW, "jitter_ms": 5000, "expires_ms": 60_000, "on_lost": OnLost.FAIL, "tags": ("a", "ä"),
        "rate_limit": RateLimit("mail", 3),
    }.items()  # fmt: skip
