"""Functions in a job's hash: by the path under which a worker finds them, or refused."""

from __future__ import annotations

import builtins
import functools
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from rq import Callback

from tests.unit.rqjob.ground import definition_of, hash_of, restored, task
from zsched.errors import InvalidSchedule, NotImportable
from zsched.storage.rqjob import Encoder, function_path


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


BAD_FUNCTIONS = {
    "lambda": lambda: None,
    "nested": _nested(),
    "main": _main,
    "main by name": "__main__.task",
    "bound method": Tasks().method,
    "callable object": Tasks(),
    "partial": functools.partial(task, 1),
    "method of a value": "text".upper,
    "not callable": 42,
    "none": None,
    "module": builtins,
    "no module": "task",
    "empty": "",
    "a call": "os.system('ls')",
    "a space": "os.path join",
    "a dot at the end": "os.path.",
    "two dots": "os..path",
    "a newline": "os.path.join\n",
    "too long": "a." + "b" * 600,
    "bytes": b"os.path.join",
}


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
