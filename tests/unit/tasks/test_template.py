"""Ids made of payloads."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.unit.tasks.ground import PATH, define
from zsched import InvalidSchedule, InvalidTask

SEND = "def send(event: Any, step: int = 1): ..."


@pytest.mark.parametrize(
    ("id", "told"),
    [
        ("reminder-{evnt}", "names evnt, which is no parameter"),
        ("reminder-{event!r}", "more than plain names"),
        ("reminder-{step:03}", "more than plain names"),
        ("reminder-{event.id}", "more than plain names"),
        ("reminder-{event[0]}", "more than plain names"),
        ("reminder-{}", "more than plain names"),
        ("reminder-{0}", "more than plain names"),
        ("reminder-{event", "id=.*: no template"),
        ("reminder:{event}", "has 'reminder:' in it"),
        ("reminder {event}", "has 'reminder ' in it"),
        ("{{{event}}}", "in it"),
        ("", "not a schedule id"),
        ("a" * 129, "not a schedule id"),
        (7, "id=7: not a text; give id="),
    ],
)
def test_an_invalid_id_template_is_an_error_where_the_task_is_defined(id: object, told: str) -> None:
    with pytest.raises(InvalidTask, match=told) as raised:
        define(SEND, id=id)
    assert PATH == raised.value.field


@pytest.mark.parametrize(
    ("payload", "id"),
    [
        ({"event": "e1"}, "r-e1-1"),
        ({"event": "e1", "step": 2}, "r-e1-2"),
        ({"event": 7}, "r-7-1"),
        ({"event": UUID(int=1)}, "r-00000000-0000-0000-0000-000000000001-1"),
        ({"event": ""}, "r--1"),
    ],
)
def test_an_id_is_made_from_values_and_defaults(payload: dict[str, Any], id: str) -> None:
    send = define(SEND, id="r-{event}-{step}")

    assert id == send.id_of(**payload)
    assert {"kwargs": payload, "id": id} == send.complete_options({"kwargs": payload})


def test_positional_arguments_make_the_same_id() -> None:
    send = define(SEND, id="r-{event}-{step}")

    assert "r-e1-5" == send.complete_options({"args": ["e1", 5]})["id"]


@pytest.mark.parametrize("value", ["a b", "a:b", "ü", None, 1.5, ["x"]])
def test_a_value_that_cannot_be_part_of_an_id_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidSchedule, match=r"cannot be part of an id, which task app.tasks.send makes of") as raised:
        define(SEND, id="r-{step}-{event}").id_of(event=value)
    assert ("event", value) == (raised.value.field, raised.value.value)


@pytest.mark.parametrize(("id", "value", "length"), [("r-{event}", "x" * 127, 129), ("{event}", "", 0)])
def test_an_empty_or_too_long_id_is_refused_with_its_value(id: str, value: str, length: int) -> None:
    with pytest.raises(InvalidSchedule, match=f"has {length} characters") as raised:
        define(SEND, id=id).id_of(event=value)
    assert "event" == raised.value.field


def test_an_id_template_needs_only_its_own_arguments() -> None:
    send = define("def send(event: str, text: str): ...", id="r-{event}")

    assert "r-e1" == send.id_of(event="e1")
    with pytest.raises(InvalidSchedule, match=r"text=1.*wants str"):
        send.id_of(event="e1", text=1)
    with pytest.raises(InvalidSchedule, match=r"the id of task app.tasks.send is made of it; give event=…"):
        send.id_of(text="t")


def test_an_id_template_may_have_no_placeholder() -> None:
    assert "digest" == define(SEND, id="digest").id_of()


def test_asking_a_task_without_an_id_for_its_id_is_an_error() -> None:
    with pytest.raises(InvalidTask, match="it has no id; give the decorator id="):
        define(SEND).id_of(event="e1")
    assert "id" not in define(SEND).complete_options({"kwargs": {"event": 1}})
