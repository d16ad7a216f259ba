"""The signature of a task: parameters that a payload can fill, and payloads that fit them."""

import pickle
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from unittest.mock import ANY
from uuid import UUID

import pytest

from tests.unit.tasks.defining import PATH, define
from zsched import InvalidSchedule, InvalidTask, NotImportable, task
from zsched.errors import NOT_GIVEN

REMINDER = "def send(event_id: str, channel: Literal['push', 'email'], minutes: int = 60): ..."
FITTING = {"event_id": "e1", "channel": "push"}


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("event: str, *extra: str", "any number of arguments"),
        ("event: str, **extra: str", "arguments of any name"),
        ("event: str, /", "sent by name"),
        ("at: datetime", "rename it, at_ for example"),
        ("queue", "rename it, queue_ for example"),
        ("args: list[int]", "rename it, args_ for example"),
        ("event: Event", "NameError: name 'Event' is not defined"),
        ("event: list[Event]", "NameError: name 'Event' is not defined"),
        ("event: 5", "its annotation is 5, not a type"),
        ("event: len", "is <built-in function len>, not a type"),
        ("event: str.nothing", "AttributeError"),
        ("event_id: str = 3", f"task {PATH}: event_id=3: its default is not of its type str; give it another default"),
        ("event_id: str = None", f"task {PATH}: event_id=None: its default is not of its type str; "),
        ("a: Literal['a', 'b'] = 'c'", f"task {PATH}: a='c': its default is not of its type Literal['a', 'b']; "),
        ("ids: list[int] = ['a']", f"task {PATH}: ids=['a']: its default is not of its type list[int]; "),
    ],
)
def test_a_parameter_that_no_payload_fills_or_a_default_of_another_type_is_an_error(parameters: str, told: str) -> None:
    with pytest.raises(InvalidTask) as raised:
        define(f"def send({parameters}): ...")

    assert told in str(raised.value)
    assert PATH == raised.value.field
    assert str(raised.value).startswith(f"task {PATH}: ")
    assert 1 == str(raised.value).count(PATH)


def test_an_evaluated_annotation_is_checked_by_the_same_rules() -> None:
    def send(event: 5) -> None:  # type: ignore[valid-type]  # that is the point
        pass

    send.__annotations__["event"] = 5
    send.__qualname__ = "send"

    with pytest.raises(InvalidTask, match="is 5, not a type"):
        task(send)


def test_a_function_that_a_worker_cannot_find_and_a_method_are_refused_as_tasks() -> None:
    def inner() -> None: ...

    for func in (lambda: None, PATH, inner):
        with pytest.raises(NotImportable, match=r"give a function at|define it at"):
            task(func)  # type: ignore[call-overload]  # that is the point
    with pytest.raises(NotImportable, match=r"Mailer\.send.*define it at a module's top level"):
        define("class Mailer:\n    def send(self): ...\nsend = Mailer.send")


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ({"channel": "fax"}, "channel", rf"^channel='fax': task {PATH}: give one of 'push', 'email'$"),
        ({"minutes": "60"}, "minutes", rf"^minutes='60': task {PATH} wants int, not str$"),
        ({"minutes": None}, "minutes", "wants int, not None$"),
        ({"event_id": 7}, "event_id", rf"^event_id=7: task {PATH} wants str, not int$"),
        ({"chanel": "push"}, "chanel", rf"^chanel='push': task {PATH} has no such parameter; did you mean channel\?$"),
        ({"colour": "red"}, "colour", r"its parameters are event_id: str, channel: .*, minutes: int = 60"),
        ({"channel": ...}, "channel", rf"^channel: task {PATH} needs it; give channel=…$"),
    ],
)
def test_a_misfitting_payload_is_refused_by_the_parameters_name(
    change: Mapping[str, Any], field: str, told: str
) -> None:
    payload = {name: value for name, value in (FITTING | dict(change)).items() if value is not ...}

    with pytest.raises(InvalidSchedule, match=told) as raised:
        define(REMINDER).complete_options({"kwargs": payload})
    assert field == raised.value.field
    assert PATH in str(raised.value)


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("list[int]", [1] * 99, [1] * 99 + ["x"]),
        ("dict[str, list[int]]", {"a": [1]}, {"a": [1], "b": [1, 2.5]}),
        ("int | None", None, "1"),
        ("datetime", datetime(2030, 1, 1), "2030-01-01"),
        ("UUID", UUID(int=1), str(UUID(int=1))),
        ("tuple[int, str]", (1, "a"), (1, 2)),
        ("NewType('UserId', int)", 1, "1"),
        ("TypedDict('Mail', {'to': str})", {"to": "a"}, {"to": 1}),
        ("TypedDict('Mail', {'to': str})", {"to": "a"}, {}),
        ("float", 1, "1.0"),
        ("Any", object(), ...),
    ],
)
def test_nested_values_are_checked_at_every_level(annotation: str, good: object, bad: object) -> None:
    send = define(f"T = {annotation}\ndef send(value: T): ...")

    assert {"kwargs": {"value": good}} == send.complete_options({"kwargs": {"value": good}})
    if bad is not ...:
        with pytest.raises(InvalidSchedule, match="value="):
            send.complete_options({"kwargs": {"value": bad}})


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        ("list[int]", [1, "2"], r"wants list\[int\]: item 1 of list is not an instance of int"),
        ("list[int] | None", [1, "2"], r"wants list\[int\] \| None: .*item 1 is not an instance of int"),
        ("list[int]", 1, r"wants list\[int\], not int$"),
        ("int | None", "1", r"wants int \| None, not str$"),
        ("TypedDict('Mail', {'to': str})", {"to": 1}, "wants app.tasks.Mail: value of key 'to' of dict is not"),
        ("TypedDict('Mail', {'to': str})", 1, "wants app.tasks.Mail, not int$"),
        ("Literal['a'] | Literal[1] | None", "b", "task app.tasks.send: give one of 'a', 1, None$"),
        ("Literal['a'] | int", "b", r"wants .*Literal\['a'\].*int.*, not str$"),
        ("UUID", "u", "wants uuid.UUID, not str$"),
    ],
)
def test_a_misfit_names_the_expected_and_the_given_value(annotation: str, value: object, told: str) -> None:
    send = define(f"T = {annotation}\ndef send(value: T): ...")

    with pytest.raises(InvalidSchedule, match=told) as raised:
        send.complete_options({"kwargs": {"value": value}})
    assert str(raised.value) == str(pickle.loads(pickle.dumps(raised.value)))


@pytest.mark.parametrize("parameter", ["a: str | None = None", "a=3", "a: float = 1", "a: Any = object()"])
def test_a_default_of_the_right_type_is_accepted(parameter: str) -> None:
    assert {} == define(f"def send({parameter}): ...").complete_options({})


def test_every_error_of_a_payload_is_reported() -> None:
    wrong = {"channel": "fax", "minutes": "60", "colour": "red"}

    mistakes = list(define(REMINDER).mistakes(None, wrong))

    assert ["channel", "minutes", "colour", "event_id"] == [mistake.field for mistake in mistakes]
    assert NOT_GIVEN is pickle.loads(pickle.dumps(mistakes[-1])).value


def test_a_parameter_without_a_type_takes_anything() -> None:
    payload = {"kwargs": {"value": object()}}

    assert payload == define("def send(value): ...").complete_options(payload)


def test_a_value_is_refused_if_the_check_of_its_type_raises() -> None:
    send = define(
        """
        class Meta(type):
            def __instancecheck__(cls, value): raise RuntimeError("broken")
        class Odd(metaclass=Meta): ...
        def send(value: Odd): ...
        """
    )

    with pytest.raises(InvalidSchedule, match=r"cannot be checked \(RuntimeError: broken\)"):
        send.complete_options({"kwargs": {"value": 1}})


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        (("e1", "push", 5, 6), {}, "args=.*takes 3 by position, and these are 4"),
        (("e1",), {"event_id": "e2", "channel": "push"}, "event_id='e2'.*by position too"),
        (("e1", "fax"), {}, "channel='fax'"),
        ("e1", {}, "args='e1': not a list"),
        ((), [1], r"kwargs=\[1\]: not named"),
    ],
)
def test_positional_arguments_are_checked_against_their_parameters(args: Any, kwargs: Any, told: str) -> None:
    with pytest.raises(InvalidSchedule, match=told):
        define(REMINDER).complete_options({"args": args, "kwargs": kwargs})


def test_a_keyword_only_parameter_takes_no_positional_argument() -> None:
    send = define("def send(a: int, *, b: int): ...")

    assert {"args": [1], "kwargs": {"b": 2}} == send.complete_options({"args": [1], "kwargs": {"b": 2}})
    with pytest.raises(InvalidSchedule, match="takes 1 by position"):
        send.complete_options({"args": [1, 2]})


def test_a_checked_payload_is_passed_on_unchanged() -> None:
    payload = {"value": (1, 2), "more": [1.0]}
    send = define("def send(value: Any, more: list[float], extra: int = 3): ...")

    options = send.complete_options({"kwargs": payload})

    assert payload is options["kwargs"]
    assert {"value": (1, 2), "more": [1.0]} == payload
    assert {"kwargs": ANY} == options
