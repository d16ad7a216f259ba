"""
What a task's function takes, and whether a payload fits: the function's signature is the payload's type.

A payload is checked and never changed: nothing is coerced, and defaults are left to the function. Values are checked
all the way down (typeguard), so that the hundredth element of a list is as sure as the first.

Not guaranteed: what a type does not say. ``int`` takes True and ``float`` takes 1, as in Python; an unannotated
parameter takes anything; a Protocol is looked at, not tried.
"""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

from typeguard import CollectionCheckStrategy, ForwardRefPolicy, TypeCheckError, check_type

from zsched.core.options import SCHEDULE_OPTIONS
from zsched.errors import InvalidSchedule, InvalidTask, show

NO_DEFAULT: Final = inspect.Parameter.empty

_MAKE_TYPES: Final = frozenset({"types", "typing", "typing_extensions"})  # what list[int], Literal["a"] and Any are of

_REFUSED: Final = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments, so none of them could be checked",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name, so none of them could be checked",
    inspect.Parameter.POSITIONAL_ONLY: "has no name outside of the function, and a payload is sent by name",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: ``type`` is its annotation, resolved; ``default`` is NO_DEFAULT where it has none."""

    name: str
    type: Any
    default: Any
    is_keyword_only: bool

    @property
    def type_text(self) -> str:
        """The type as its author would write it."""
        return inspect.formatannotation(self.type)

    def __str__(self) -> str:
        return f"{self.name}: {self.type_text}" + ("" if self.default is NO_DEFAULT else f" = {self.default!r}")


class Signature:
    """The parameters of the task *path*, in their order."""

    def __init__(self, path: str, parameters: Iterable[Parameter]) -> None:
        self._path = path
        self.parameters: Mapping[str, Parameter] = {parameter.name: parameter for parameter in parameters}

    @classmethod
    def of(cls, path: str, func: Callable[..., Any]) -> Signature:
        """
        The signature of *func*.

        Raises:
            InvalidTask: a parameter that a payload cannot fill or that is named like an option of ``client.schedule``;
                an annotation that cannot be resolved when the task is defined, or is no type.
        """
        return cls(path, [_parameter(path, func, given) for given in inspect.signature(func).parameters.values()])

    def bind(self, args: Any, kwargs: Any) -> dict[str, Any]:
        """
        The payload by name of a call with *args* and *kwargs*.

        Raises:
            InvalidSchedule: not a list and a dict, more of them than there are parameters, or one given twice.
        """
        if not isinstance(args, tuple | list):
            raise InvalidSchedule("args", args, "not a list of arguments", "give a tuple or list")
        if not isinstance(kwargs, Mapping):
            raise InvalidSchedule("kwargs", kwargs, "not named arguments", "give a dict with texts as keys")
        positional = [name for name, parameter in self.parameters.items() if not parameter.is_keyword_only]
        if len(args) > len(positional):
            problem = f"task {self._path} takes {len(positional)} by position, and these are {len(args)}"
            raise InvalidSchedule("args", args, problem, f"its parameters are {self._listed()}")
        payload = dict(zip(positional, args, strict=False))
        for name, value in kwargs.items():
            if name in payload:
                problem = f"task {self._path} gets it by position too"
                raise InvalidSchedule(name, value, problem, "give it once")
            payload[name] = value
        return payload

    def check(self, payload: Mapping[str, Any]) -> None:
        """
        See that *payload* fits.

        Raises:
            InvalidSchedule: a parameter is unknown, missing, or of another type; ``field`` is its name.
        """
        self.check_some(payload)
        for name, parameter in self.parameters.items():
            if name not in payload and parameter.default is NO_DEFAULT:
                problem = f"it is missing, and task {self._path} does not go without"
                raise InvalidSchedule(name, None, problem, f"give {parameter.type_text}")

    def check_some(self, payload: Mapping[str, Any]) -> None:
        """See that what *payload* has fits, whatever it lacks. Raises as ``check``."""
        for name, value in payload.items():
            parameter = self.parameters.get(name)
            if parameter is None:
                near = self.nearest(name)
                remedy = f"its parameter is {near}" if near else f"its parameters are {self._listed()}"
                raise InvalidSchedule(str(name), value, f"task {self._path} has no such parameter", remedy)
            if parameter.type is not Any:
                self._check_type(parameter, value)

    def nearest(self, name: object) -> str | None:
        """The parameter that *name* may be a slip of."""
        return next(iter(difflib.get_close_matches(str(name), self.parameters, 1, 0.6)), None)

    def _check_type(self, parameter: Parameter, value: object) -> None:
        try:
            check_type(
                value,
                parameter.type,
                forward_ref_policy=ForwardRefPolicy.ERROR,
                collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS,
            )
        except TypeCheckError as error:
            found = " ".join(str(error).split())
            problem = f"task {self._path} wants {parameter.type_text}, and {found}"
            raise InvalidSchedule(parameter.name, value, problem, f"give {parameter.type_text}") from error
        except Exception as error:  # a name inside of the type, or a class's own code
            problem = f"task {self._path}: its type cannot be checked ({type(error).__name__}: {error})"
            raise InvalidSchedule(parameter.name, value, problem, "give it a type that Python can resolve") from error

    def _listed(self) -> str:
        return ", ".join(map(str, self.parameters.values())) or "none"


def _parameter(path: str, func: Callable[..., Any], given: inspect.Parameter) -> Parameter:
    if given.kind in _REFUSED:
        raise InvalidTask(path, str(given), _REFUSED[given.kind], "give it parameters with names and types")
    if given.name in SCHEDULE_OPTIONS:
        problem = "a parameter of this name, which is an option of client.schedule"
        raise InvalidTask(path, given.name, problem, f"rename it, {given.name}_ for example")
    annotation = Any if given.annotation is inspect.Parameter.empty else _resolved(path, func, given)
    return Parameter(given.name, annotation, given.default, given.kind is inspect.Parameter.KEYWORD_ONLY)


def _resolved(path: str, func: Callable[..., Any], given: inspect.Parameter) -> Any:
    """The type that *given* is annotated with."""
    alone = SimpleNamespace(__annotations__={given.name: given.annotation})
    names = getattr(inspect.unwrap(func), "__globals__", {})
    try:
        found = typing.get_type_hints(alone, globalns=names, include_extras=True)[given.name]
    except Exception as error:  # an annotation is code
        problem = f"its annotation cannot be resolved ({type(error).__name__}: {error})"
        remedy = "import or define the type above the task, not only for type checkers"
        raise InvalidTask(path, str(given), problem, remedy) from error
    if not isinstance(found, type) and type(found).__module__ not in _MAKE_TYPES:
        raise InvalidTask(path, str(given), f"its annotation is no type but {show(found)}", "give a type")
    return found
