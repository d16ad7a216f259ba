"""
Payloads of tasks: the function's signature is the payload's type.

A payload is checked and never changed: nothing is coerced, and defaults are left to the function. Values are checked
completely (typeguard): every element of a list, not only the first.

Not guaranteed: more than the type demands. ``int`` takes True and ``float`` takes 1, as in Python; an unannotated
parameter takes anything; for a Protocol only the names of its members are checked.
"""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Final, Literal, Union

from typeguard import CollectionCheckStrategy, ForwardRefPolicy, TypeCheckError, check_type

from zsched.core.options.define import SCHEDULE_OPTIONS
from zsched.core.wording import nearest
from zsched.errors import NOT_GIVEN, InvalidSchedule, InvalidTask, show

NO_DEFAULT: Final = inspect.Parameter.empty

_MAKE_TYPES: Final = frozenset({"types", "typing", "typing_extensions"})  # of list[int], Literal["a"] and Any

_REFUSED: Final = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments, so none of them could be checked",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name, so none of them could be checked",
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, and a payload is sent by name",
}


class Signature:
    """
    The parameters of the task *path*, of *func*, in their order. Their annotations are types.

    Raises:
        InvalidTask: a parameter that a payload cannot fill, or with the name of an option of ``client.schedule``; an
            annotation that is not a type, or that cannot be resolved when the task is defined; a default of another
            type.
    """

    def __init__(self, path: str, func: Callable[..., Any]) -> None:
        given = inspect.signature(func).parameters
        self._path, self.parameters = path, {name: _parameter(path, func, one) for name, one in given.items()}

    def bind(self, args: Any, kwargs: Any) -> dict[str, Any]:
        """
        Return the payload by name for a call with *args* and *kwargs*.

        Raises:
            InvalidSchedule: not a list and a dict, too many arguments, or one given twice.
        """
        if not isinstance(args, tuple | list):
            raise InvalidSchedule("args", args, "not a list of arguments", "give a tuple or list")
        if not isinstance(kwargs, Mapping):
            raise InvalidSchedule("kwargs", kwargs, "not named arguments", "give a dict with texts as keys")
        positional = [
            name for name, parameter in self.parameters.items() if parameter.kind is not parameter.KEYWORD_ONLY
        ]
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

    def check(self, payload: Mapping[str, Any], *, is_part: bool = False) -> None:
        """
        Check that *payload* fits. *is_part*: other arguments may be missing.

        Raises:
            InvalidSchedule: a parameter is unknown, missing, or of another type; ``field`` is its name.
        """
        for mistake in self.mistakes(payload, is_part=is_part):
            raise mistake

    def mistakes(self, payload: Mapping[str, Any], *, is_part: bool = False) -> Iterator[InvalidSchedule]:
        """
        Yield all mistakes in *payload*; ``check`` raises the first. A missing argument has the value NOT_GIVEN. A value
        whose type cannot be checked counts as a mistake, too, with the reason.
        """
        for name, value in payload.items():
            if (parameter := self.parameters.get(name)) is None:
                near = nearest(name, self.parameters)
                remedy = f"did you mean {near}?" if near else f"its parameters are {self._listed()}"
                yield InvalidSchedule(str(name), value, f"task {self._path} has no such parameter", remedy)
                continue
            try:
                misfit = _misfit(parameter.annotation, value)
            except Exception as error:  # a name inside of the type, or a class's own code
                problem = f"task {self._path}: its type cannot be checked ({type(error).__name__}: {error})"
                yield InvalidSchedule(name, value, problem, "give it a type that Python can resolve")
                continue
            if misfit is not None:
                joint = "" if misfit.startswith("wants ") else ":"
                yield InvalidSchedule(name, value, f"task {self._path}{joint} {misfit}", "")
        for name, parameter in self.parameters.items():
            if not is_part and name not in payload and parameter.default is NO_DEFAULT:
                yield InvalidSchedule(name, NOT_GIVEN, f"task {self._path} needs it", f"give {name}=…")

    def _listed(self) -> str:
        return ", ".join(map(str, self.parameters.values())) or "none"


def _parameter(path: str, func: Callable[..., Any], given: inspect.Parameter) -> inspect.Parameter:
    if given.kind in _REFUSED:
        raise InvalidTask(
            path, _declared(given), NOT_GIVEN, _REFUSED[given.kind], "give it parameters with names and types"
        )
    if given.name in SCHEDULE_OPTIONS - {"name"}:  # that name is the task's own, as so many functions have it
        problem = "a parameter of this name, which is an option of client.schedule"
        raise InvalidTask(path, _declared(given), NOT_GIVEN, problem, f"rename it, {given.name}_ for example")
    annotation = Any if given.annotation is inspect.Parameter.empty else _resolved(path, func, given)
    if given.default is not NO_DEFAULT:
        misfit = None
        with suppress(Exception):  # a type that cannot be checked is reported with the first payload
            misfit = _misfit(annotation, given.default)
        if misfit is not None:
            problem = f"its default is not of its type {inspect.formatannotation(annotation)}"
            raise InvalidTask(path, given.name, given.default, problem, "give it another default, or another type")
    return given.replace(annotation=annotation)


def _resolved(path: str, func: Callable[..., Any], given: inspect.Parameter) -> Any:
    """Return the resolved annotation of *given*."""
    alone = SimpleNamespace(__annotations__={given.name: given.annotation})
    names = getattr(inspect.unwrap(func), "__globals__", {})
    try:
        found = typing.get_type_hints(alone, globalns=names, include_extras=True)[given.name]
    except Exception as error:  # an annotation is code
        problem = f"its annotation cannot be resolved ({type(error).__name__}: {error})"
        remedy = "import or define the type above the task, not only for type checkers"
        raise InvalidTask(path, _declared(given), NOT_GIVEN, problem, remedy) from error
    if not isinstance(found, type) and type(found).__module__ not in _MAKE_TYPES:
        raise InvalidTask(
            path, _declared(given), NOT_GIVEN, f"its annotation is {show(found)}, not a type", "give a type"
        )
    return found


def _declared(given: inspect.Parameter) -> str:
    """Return the parameter as its author wrote it, without quotes around an annotation that is still a text."""
    return str(given).replace(repr(given.annotation), str(given.annotation), 1)


def _misfit(hint: Any, value: object) -> str | None:
    """Return why *value* is not of type *hint* (``wants str, not int``), or None. Raises the types' own errors."""
    if hint is Any:
        return None
    try:
        check_type(
            value,
            hint,
            forward_ref_policy=ForwardRefPolicy.ERROR,
            collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS,
        )
    except TypeCheckError as error:
        if choices := _choices(hint):
            return f"give one of {', '.join(map(repr, choices))}"
        text = inspect.formatannotation(hint)
        if _is_of_outer(hint, value):  # an element is of a wrong type
            return f"wants {text}: {' '.join(str(error).split())}"
        return f"wants {text}, not {'None' if value is None else type(value).__name__}"
    return None


def _members(hint: Any) -> list[Any]:
    """Return the types of the union *hint*, or *hint* itself if it is not a union."""
    if typing.get_origin(hint) in (Union, UnionType):
        return [member for one in typing.get_args(hint) for member in _members(one)]
    return _members(typing.get_args(hint)[0]) if typing.get_origin(hint) is Annotated else [hint]


def _choices(hint: Any) -> list[Any]:
    """Return the values of *hint* if it has only Literals and None; else nothing."""
    members = _members(hint)
    if not all(member is NoneType or typing.get_origin(member) is Literal for member in members):
        return []
    return [choice for member in members for choice in (typing.get_args(member) or (None,))]


def _is_of_outer(hint: Any, value: object) -> bool:
    """Return True if *value* is of the outer type of *hint*: a list for list[int]."""
    classes = [dict if typing.is_typeddict(one) else typing.get_origin(one) or one for one in _members(hint)]
    with suppress(Exception):  # a Protocol, or a class's own code
        return any(isinstance(one, type) and isinstance(value, one) for one in classes)
    return True
