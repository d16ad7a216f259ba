"""The call in a job's hash: functions by their paths, and the values of each serializer."""

import builtins
import functools
import json
import math
import pickle
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from rq import Callback

from tests.unit.rqjob.jobs import JSON, definition_of, hash_of, restored, task
from zsched import Client
from zsched.core.model import At, Definition
from zsched.errors import InvalidSchedule, NotImportable
from zsched.storage.rqjob import Encoder, function_path


class Colour(IntEnum):
    RED = 1


Point = namedtuple("Point", "x y")


class _Unpicklable:
    def __reduce__(self) -> Any:
        raise RuntimeError("no")


BAD_JSON = [
    ((1, 2),), (Point(1, 2),), {"a": (1,)}, {1: "x"}, {None: 1}, math.nan, math.inf, b"bytes", Colour.RED,
    datetime(2026, 1, 1, tzinfo=UTC), {1, 2}, OrderedDict(a=1), defaultdict(int), [[{"deep": {"er": (1,)}}]], object(),
    type("S", (str,), {})("x"), type("L", (list,), {})(), {type("S", (str,), {})("x"): 1}, 1j, timedelta(1),
]  # fmt: skip


@pytest.mark.parametrize("value", BAD_JSON, ids=[str(n) for n in range(len(BAD_JSON))])
def test_json_refuses_values_that_it_would_reshape(value: Any) -> None:
    encoder = Encoder("json")

    with pytest.raises(InvalidSchedule, match=r"^args="):
        encoder.call("app.task", (value,), None)
    with pytest.raises(InvalidSchedule, match=r"^(kwargs|args)="):
        encoder.call("app.task", (), {"k": value})
    with pytest.raises(InvalidSchedule, match=r"^meta="):
        encoder.shared(definition_of(meta={"k": value}))


def test_json_refuses_values_that_are_circular_or_nested_too_deep() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    for value, told in ((circle, ""), (deep, ".*RecursionError")):
        with pytest.raises(InvalidSchedule, match=f"^args={told}"):
            Encoder("json").call("app.task", (value,), None)


def test_a_tuple_of_arguments_is_written_as_a_json_list() -> None:
    assert ["app.task", None, [1, [2]], {}] == json.loads(Encoder("json").call("app.task", (1, [2]), None))


@given(JSON)
def test_json_returns_the_given_arguments_unchanged(value: Any) -> None:
    _, args, kwargs = Encoder("json").open(Encoder("json").call("app.task", (value,), {"k": value}))

    assert ((value,), {"k": value}) == (args, kwargs)


@pytest.mark.parametrize(
    "value", [lambda: None, _Unpicklable(), (n for n in ())], ids=["lambda", "hostile", "generator"]
)
def test_pickle_refuses_values_that_cannot_be_pickled(value: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^args=.*the pickle serializer refuses it"):
        Encoder().call("app.task", (value,), None)


@pytest.mark.parametrize("serializer", ["pickle", "json"])
def test_an_argument_that_cannot_be_serialised_is_named_alone(serializer: str) -> None:
    bad, encoder = (n for n in ()), Encoder(serializer)

    for args, kwargs, told in [
        ((1, bad), {"k": 2}, "args=<generator "),
        ((1,), {"k": 2, "f": bad}, "kwargs={'f': <gen"),
    ]:
        with pytest.raises(InvalidSchedule) as caught:
            encoder.call("app.task", args, kwargs)

        assert str(caught.value).startswith(told)
        assert "app.task" not in str(caught.value)


def test_pickle_accepts_values_that_json_would_reshape() -> None:
    value = (Point(1, 2), {1: b"x"}, Colour.RED)

    assert (value,) == Encoder().open(Encoder().call("app.task", (value,), None), runs=True)[1]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("args", value) for value in ("text", 5, {"a": 1}, {1, 2}, (n for n in ()))),
        *(("kwargs", value) for value in ("text", [("a", 1)], {1: 2}, {None: 1})),
    ],
)
def test_arguments_must_be_a_list_or_tuple_and_a_dict_of_names(option: str, value: Any) -> None:
    args, kwargs = (value, None) if option == "args" else ((), value)

    with pytest.raises(InvalidSchedule, match=f"^{option}="):
        Encoder().call("app.task", args, kwargs)


def test_a_payload_over_the_limit_is_refused() -> None:
    encoder = Encoder("json", payload_limit=40)

    assert encoder.call("app.task", ("x",), None)
    with pytest.raises(InvalidSchedule, match=r"^args=.*the limit is 40; pass a reference"):
        encoder.call("app.task", [str(n) for n in range(40)], None)


def test_a_payload_of_another_serializer_is_an_error() -> None:
    data = Encoder().call("app.task", (1,), None)

    with pytest.raises(InvalidSchedule, match=r"^data=.*use the serializer that it was written with, not json"):
        Encoder("json").open(data)
    with pytest.raises(InvalidSchedule, match=r"^data="):
        Encoder().open(pickle.dumps("not a call"))


def test_a_stored_payload_is_passed_on_untouched() -> None:
    assert b"as stored" == Encoder().data(Definition("a", At(0), "app.task", args=object(), data=b"as stored"))


@pytest.mark.parametrize("serializer", ["yaml", "", None])
def test_a_client_knows_two_serializers_only(serializer: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^serializer="):
        Client.from_url("redis://localhost", serializer=serializer)


class Tasks:
    def method(self) -> None: ...

    @classmethod
    def of_class(cls) -> None: ...

    @staticmethod
    def static() -> None: ...

    def __call__(self) -> None: ...


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


@decorated
def wrapped() -> None: ...


@pytest.mark.parametrize(
    ("func", "path"),
    [
        ("app.tasks.send", "app.tasks.send"),
        (task, f"{task.__module__}.task"),
        (wrapped, f"{__name__}.wrapped"),
        (Tasks.static, f"{__name__}.Tasks.static"),
        (Tasks.of_class, f"{__name__}.Tasks.of_class"),
        (Tasks, f"{__name__}.Tasks"),
        (print, "builtins.print"),
        (math.sqrt, "math.sqrt"),
        (json.dumps, "json.dumps"),
    ],
)
def test_a_function_is_stored_as_the_path_that_a_worker_imports(func: Any, path: str) -> None:
    assert path == function_path(func)


def test_rqs_worker_imports_every_path_that_we_make() -> None:
    for func in (task, wrapped, Tasks.static, Tasks.of_class, print, math.sqrt):
        job = restored(hash_of(Encoder(), definition_of(func=func)))
        assert callable(job.func)


def _main() -> None: ...


_main.__module__ = "__main__"


def _nested() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


BAD_FUNCTIONS: dict[str, Any] = {
    "lambda": lambda: None, "nested": _nested(), "main": _main, "main by name": "__main__.task",
    "bound method": Tasks().method, "callable object": Tasks(), "partial": functools.partial(task, 1),
    "method of a value": "text".upper, "not callable": 42, "none": None, "module": builtins, "no module": "task",
    "empty": "", "a call": "os.system('ls')", "a space": "os.path join", "a dot at the end": "os.path.",
    "two dots": "os..path", "a newline": "os.path.join\n", "too long": "a." + "b" * 600, "bytes": b"os.path.join",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FUNCTIONS)
def test_a_function_that_no_worker_can_import_is_refused(name: str) -> None:
    with pytest.raises(NotImportable, match=r"^func=.*;"):
        function_path(BAD_FUNCTIONS[name])


@pytest.mark.parametrize("option", ["on_success", "on_failure"])
def test_callbacks_are_functions_that_a_worker_can_import(option: str) -> None:
    for bad in (BAD_FUNCTIONS["lambda"], 5, "task", Callback("task")):
        with pytest.raises(InvalidSchedule, match=f"^{option}="):
            Encoder().shared(definition_of(**{option: bad}))
    stem = option.removeprefix("on_")
    shared = Encoder().shared(definition_of(**{option: Callback(task, timeout="2m")}))
    expected = {f"{stem}_callback_name": f"{task.__module__}.task", f"{stem}_callback_timeout": "120"}
    assert expected.items() <= shared.items()
