"""
Typed tasks: the decorator, and the calls of a task.

A ``Task`` replaces its function: a worker, like any other code, imports it by the function's path and calls it. It adds
types of parameters, options of ``client.schedule``, and an id made of the payload. These are checked when the task is
defined. A payload is checked when it is scheduled, and sent unchanged.

With an id of ``"reminder-{event_id}"`` an event always has the same schedule, however often it is put.

Not guaranteed: a payload is not checked if it is scheduled by a dotted path, where the task cannot be imported.
Different payloads may have the same id: ``"{a}-{b}"`` makes ``1-2-3`` of (1, 2-3) and of (1-2, 3). Use a separator that
is in no value.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping
from functools import update_wrapper
from string import Formatter
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from zsched.client import Client
from zsched.client.calls import Typed
from zsched.core.model import Scheduled
from zsched.core.options.arguments import check_id
from zsched.core.options.define import SCHEDULE_OPTIONS, TRIGGERS, define
from zsched.core.options.table import FOR_ENQUEUE, OPTIONS, ScheduleOptions, ScheduleRow
from zsched.core.wording import nearest
from zsched.errors import NOT_GIVEN, InvalidSchedule, InvalidTask, NotImportable
from zsched.storage.rqjob import Encoder
from zsched.tasks import importing
from zsched.tasks.chaining import Call, Next, Turn, is_once, nexts_of
from zsched.tasks.signature import NO_DEFAULT, Signature

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]*")  # a valid part of an id
_ALLOWED: Final = "A-Z, a-z, 0-9, _ and -"


class Template:
    """
    The id of the schedules of task *path*, with a ``{name}`` for each parameter in it.

    Raises:
        InvalidTask: not a text, an unknown parameter, a format or a conversion, or a character that ids cannot have.
    """

    def __init__(self, path: str, text: object, parameters: Container[str]) -> None:
        if not isinstance(text, str):
            raise InvalidTask(path, "id", text, "not a text", 'give id="reminder-{event_id}", for example')
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise InvalidTask(path, "id", text, f"not a template ({error})", "give plain {name}s") from error
        for literal, name, form, conversion in parts:
            if not _PLAIN.fullmatch(literal):
                raise InvalidTask(path, "id", text, f"it has {literal!r} in it", f"give {_ALLOWED}, and {{name}}s")
            if name is None:
                continue
            if form or conversion or not name.isidentifier():
                raise InvalidTask(path, "id", text, "more than plain names in braces", "give plain {name}s")
            if name not in parameters:
                raise InvalidTask(path, "id", text, f"it names {name}, which is not a parameter", "name a parameter")
        self._path, self.text = path, text
        self.names = tuple(dict.fromkeys(name for _, name, _, _ in parts if name is not None))
        if not self.names:
            try:
                check_id(text)
            except InvalidSchedule as error:
                raise InvalidTask(path, "id", text, error.problem, error.remedy) from error

    def fill(self, payload: Mapping[str, Any]) -> str:
        """
        Return the id for *payload*, which has all of ``names``.

        Raises:
            InvalidSchedule: the id would be invalid; ``field`` is the parameter with the bad value.
        """
        texts = {name: self._text(name, payload[name]) for name in self.names}
        id = self.text.format_map(texts)
        try:
            return check_id(id)
        except InvalidSchedule as error:  # too long, or empty
            name = max(texts, key=lambda one: len(texts[one]))
            problem = f"with it the id of task {self._path} has {len(id)} characters"
            raise InvalidSchedule(name, payload[name], problem, "ids have 1 to 128; give id= itself") from error

    def _text(self, name: str, value: object) -> str:
        text = str(value)
        if value is None or not _PLAIN.fullmatch(text):
            problem = f"it cannot be part of an id, which task {self._path} makes of {self.text!r}"
            raise InvalidSchedule(name, value, problem, f"give {_ALLOWED}, or id= itself")
        return text


if TYPE_CHECKING:
    from zsched.tasks.task_call import ClientCall
    from zsched.tasks.task_call import options as named_options
else:
    named_options = None

_PAYLOAD: Final = ("args", "kwargs")
_OF_A_TIME: Final = SCHEDULE_OPTIONS - FOR_ENQUEUE  # options that an immediate run does not have
_OF_RULES: Final = {name for name, option in OPTIONS.items() if option.once}  # options that a one-shot cannot have
_RARELY: Final = {"every": 36_500 * 86_400}  # a rule for checks of a task without a rule
_ANY: Final = "task.function"  # a function path for checks: the real one does not exist before it is defined

P = ParamSpec("P")
R = TypeVar("R")


def _beside_client(named: Callable[P, None]) -> Callable[[Callable[..., Any]], ClientCall[P]]:
    """Give a method the type of a call with the options of *named*, and whose result is the client's own."""
    return lambda method: cast("ClientCall[P]", method)


def _alone(named: Callable[P, None]) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """Give a method the type of a call with the options of *named*."""
    return lambda method: cast("Callable[Concatenate[Any, P], R]", method)


class Task(Typed, Generic[P, R]):
    """
    A function with a typed payload and the options of its schedules; made by ``zsched.task``.

    Calling it calls the function. ``path`` is its function path, ``options`` are the decorator's.
    """

    def __init__(self, func: Callable[P, R], options: Mapping[str, Any]) -> None:
        update_wrapper(self, func)
        self._func = func
        self.path = _path_of(func)
        self.options = dict(options)
        self.signature = Signature(self.path, func)
        id = self.options.get("id")
        self._template = None if id is None else Template(self.path, id, self.signature.parameters)
        _check_options(self.path, self.options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function. In a worker, a returned ``Next`` is scheduled, and the result has the schedule's id."""
        if (turn := Turn.of(self.path, self)) is None:
            return self._func(*args, **kwargs)
        with turn.running():
            result = self._func(*args, **kwargs)
        return cast(R, self._awaited(turn, result) if inspect.iscoroutine(result) else self._followed(turn, result))

    def __repr__(self) -> str:
        return f"<Task {self.path}>"

    def __reduce__(self) -> str:
        """Pickle it by name, as its function would be."""
        return self.path.rpartition(".")[2]

    # -- scheduling ---------------------------------------------------------------------------------

    @_beside_client(named_options)
    def schedule(self, client: Client, /, *unnamed: Any, **given: Any) -> Scheduled:
        """
        Schedule a call: parameters of the function are its payload, other names options of ``client.schedule``, which
        replace the decorator's.

        Raises:
            InvalidSchedule: a parameter is unknown, missing or of another type; ``field`` names it.
            ZschedError: as ``client.schedule``.
        """
        payload, options = self._split(given, unnamed)
        return client.schedule(self, kwargs=payload, **options)

    @_beside_client(named_options)
    def enqueue(self, client: Client, /, *unnamed: Any, **given: Any) -> Scheduled:
        """
        Put a run into its queue at once, without the decorator's options for times. A schedule with the same id is
        replaced by the run, so a recurring task gets no id here unless you give one.
        """
        payload, options = self._split(given, unnamed)
        return client.enqueue(self, kwargs=payload, **options)

    @_alone(named_options)
    def row(self, /, *unnamed: Any, **given: Any) -> ScheduleRow:
        """
        Return a row for ``client.schedule_many``, which checks its values.

        Raises:
            InvalidSchedule: a misspelt parameter, before the first row is written.
        """
        payload, options = self._split(given, unnamed)
        return cast(ScheduleRow, {"func": self, "kwargs": payload, **options})

    def id_of(self, /, **payload: Any) -> str:
        """
        Return the id of schedules with *payload*; only the parameters in the id are needed.

        Raises:
            InvalidTask: the task has no id. InvalidSchedule: a parameter is missing or bad.
        """
        if self._template is None:
            raise InvalidTask(self.path, "", NOT_GIVEN, "it has no id", 'give the decorator id="…-{parameter}"')
        self.signature.check(payload, is_part=True)
        return self._template.fill(self._with_defaults(payload))

    # -- for a client -------------------------------------------------------------------------------

    def complete_options(self, options: Mapping[str, Any], *, at_once: bool = False) -> dict[str, Any]:
        """
        Return *options* of one call, completed by the decorator's options and the payload's id.

        Raises:
            InvalidSchedule: the payload does not fit.
        """
        given = options.get("id")
        id = self.checked_id(given, options.get("args"), options.get("kwargs"))
        if given is None and at_once and self._recurs():
            id = None
        return self.options_beside(options, at_once=at_once) | ({} if id is None else {"id": id})

    def options_beside(self, options: Mapping[str, Any], *, at_once: bool = False) -> dict[str, Any]:
        """Complete the options as ``complete_options``, but with an unchecked payload and without its id."""
        left_out = {"id"}
        if at_once:
            left_out |= _OF_A_TIME
        elif any(options.get(name) is not None for name in TRIGGERS):
            left_out |= {*TRIGGERS} | (_OF_RULES if is_once(options) else set())
        return {**{name: value for name, value in self.options.items() if name not in left_out}, **options}

    def checked_id(self, given: Any, args: Any, kwargs: Any) -> Any:
        """Return the id *given*, or the payload's id, or None. Raises as ``complete_options``."""
        payload = self.signature.bind(() if args is None else args, {} if kwargs is None else kwargs)
        self.signature.check(payload)
        if given is not None or self._template is None:
            return given
        return self._template.fill(self._with_defaults(payload))

    def mistakes(self, args: Any, kwargs: Any) -> Iterator[InvalidSchedule]:
        """Yield all mistakes in a payload, except in its id; ``checked_id`` raises the first one."""
        try:
            payload = self.signature.bind(() if args is None else args, {} if kwargs is None else kwargs)
        except InvalidSchedule as error:
            yield error
        else:
            yield from self.signature.mistakes(payload)

    # -- how ----------------------------------------------------------------------------------------

    def _split(self, given: Mapping[str, Any], unnamed: tuple[Any, ...] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split *given* into payload and options. Raises InvalidSchedule for a name that is neither, or no name."""
        if unnamed:
            names = ", ".join(f"{name}=…" for name in self.signature.parameters)
            problem = f"task {self.path} takes its arguments by name"
            raise InvalidSchedule("args", unnamed, problem, f"give {names}" if names else "it has none: leave them out")
        payload: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for name, value in given.items():
            if name in _PAYLOAD:
                problem = f"task {self.path} takes its parameters by name"
                raise InvalidSchedule(name, value, problem, "give them beside the options")
            if name in self.signature.parameters:
                payload[name] = value
            elif name in SCHEDULE_OPTIONS | FOR_ENQUEUE or not nearest(name, self.signature.parameters):
                options[name] = value  # an unknown option is refused later, with a hint
            else:
                self.signature.check({name: value}, is_part=True)
        return payload, options

    def _with_defaults(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values for the id. Raises InvalidSchedule: a value is missing."""
        assert self._template is not None
        values: dict[str, Any] = {}
        for name in self._template.names:
            values[name] = payload.get(name, self.signature.parameters[name].default)
            if values[name] is NO_DEFAULT:
                problem = f"the id of task {self.path} is made of it"
                raise InvalidSchedule(name, NOT_GIVEN, problem, f"give {name}=…")
        return values

    def _recurs(self) -> bool:
        return any(self.options.get(name) is not None for name in TRIGGERS if name not in ("at", "after"))

    async def _awaited(self, turn: Turn, result: Coroutine[Any, Any, Any]) -> Any:
        with turn.running():
            found = await result
        return self._followed(turn, found)

    def _followed(self, turn: Turn, result: Any) -> Any:
        """Return the value for RQ instead of *result*, if the task returned Nexts."""
        nexts = nexts_of(result)
        return result if nexts is None else turn.schedule(self._call(turn, one) for one in nexts)

    def _call(self, turn: Turn, following: Next) -> Call:
        """Return *following* with its payload checked. Raises InvalidSchedule."""
        func, given = following.func, dict(following.given)
        if func is None:
            args, kwargs = turn.payload()
            payload, options = self._split(given)
            same = self.signature.bind(args, kwargs) | payload
            return self.path, self.complete_options({**options, "kwargs": same})
        found = importing.found_at(func) if isinstance(func, str) else func
        if not isinstance(found, Task):
            return func, given
        payload, options = found._split(given)
        path = func if isinstance(func, str) else found.path
        return path, found.complete_options({**options, "kwargs": payload})


@overload
def task(func: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(**options: Unpack[ScheduleOptions]) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(func: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """
    Make a task of a function at a module's top level. The function's signature is the type of its payload.

    *options* are options of ``client.schedule`` for all schedules of the task; ``id`` may name parameters, as in
    ``"reminder-{event_id}"``.

    Raises:
        InvalidTask: an option or a parameter is invalid. NotImportable: a worker could not find the function.
    """
    return Task(func, options) if func is not None else lambda defined: Task(defined, options)


def _path_of(func: Callable[..., Any]) -> str:
    """Return the function path of *func*, which is not defined yet, so it cannot be looked up. Raises NotImportable."""
    module, name = getattr(func, "__module__", None), getattr(func, "__qualname__", None)
    if not inspect.isroutine(func) or not isinstance(module, str) or not isinstance(name, str):
        raise NotImportable("task", func, "not a function", "give a function at a module's top level")
    if not name.isidentifier():  # <lambda>, a function in a function, a method
        problem = "a worker cannot import it by name"
        raise NotImportable("task", f"{module}.{name}", problem, "define it at a module's top level")
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        raise NotImportable("task", f"{module}.{name}", "a generator has no return value", "let it return")
    return f"{module}.{name}"


def _check_options(path: str, options: Mapping[str, Any]) -> None:
    """
    Check a decorator's options as ``client.schedule`` will.

    An urgency is checked when something is scheduled, because the client defines the urgencies.
    """
    for name in _PAYLOAD:
        if name in options:
            raise InvalidTask(path, name, options[name], "each call has its own", "leave it out of the decorator")
    checked = {name: value for name, value in options.items() if name not in ("id", "urgency")}
    has_time = any(checked.get(name) is not None for name in TRIGGERS)
    try:
        Encoder().shared(define(_ANY, checked if has_time else {**checked, **_RARELY}, "task"))
    except InvalidSchedule as error:
        value = error.value if error.field in checked else NOT_GIVEN  # for example "every and cron"
        raise InvalidTask(path, error.field, value, error.problem, error.remedy) from error
