"""Put mutated code into a process that has imported the module: the code of its functions is replaced."""

import sys
from collections.abc import Iterable, Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

_OF_FUNCTION = 1  # the flag CO_OPTIMIZED, which code of modules and classes lacks
_AT_ONCE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # in a module or class: executed by its import
_DEPTH = 8  # of objects in objects: a decorated method of a command in a dictionary

_Place = tuple[str, int]  # qualified name and first line of a function


class Unswappable(Exception):
    """An import executes the change, or the functions are not found."""


def swap(name: str, before: str, after: str) -> None:
    """
    Let module *name* behave as if its text were *after* instead of *before*. A module that is not imported yet is left
    alone.
    """
    module = sys.modules.get(name)
    if module is None:
        return
    changed = changed_functions(before, after)
    found = set[_Place]()
    for function in functions(module):
        place = function.__code__.co_qualname, function.__code__.co_firstlineno
        if place in changed:
            try:
                function.__code__ = changed[place].replace(co_filename=function.__code__.co_filename)
            except ValueError as error:  # other variables of the function around it
                raise Unswappable(str(error)) from error
            found.add(place)
    if lost := [place for place in changed if place not in found and "<locals>" not in place[0]]:
        raise Unswappable(f"no such functions: {lost}")


def changed_functions(before: str, after: str) -> dict[_Place, CodeType]:
    """Return the new code of each changed function by its old place."""
    found: dict[_Place, CodeType] = {}

    def pair(old: CodeType, new: CodeType, is_in_function: bool) -> None:
        is_function = bool(old.co_flags & _OF_FUNCTION) and (is_in_function or old.co_name not in _AT_ONCE)
        olds, news = _inner(old), _inner(new)
        if is_function and _deep(old) != _deep(new):
            found[old.co_qualname, old.co_firstlineno] = new
        elif not is_function and (_bare(old) != _bare(new) or len(olds) != len(news)):
            raise Unswappable(f"an import executes {old.co_name}")
        for one, other in zip(olds, news, strict=False):
            pair(one, other, is_function)

    pair(compile(before, "", "exec", dont_inherit=True), compile(after, "", "exec", dont_inherit=True), False)
    return found


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions of *module*, also those in classes, closures, properties and commands."""
    seen = set[int]()
    rest: list[tuple[Any, int]] = [(value, 0) for value in vars(module).values()]
    while rest:
        one, depth = rest.pop()
        if id(one) in seen or depth > _DEPTH or isinstance(one, ModuleType | str | bytes | int):
            continue
        seen.add(id(one))
        if isinstance(one, FunctionType):
            if one.__module__ == module.__name__:
                yield one
            rest += ((cell, depth + 1) for cell in one.__closure__ or ())
        rest += ((value, depth + 1) for value in _below(one, module.__name__))


def _below(one: Any, name: str) -> Iterable[Any]:
    if isinstance(one, CellType):
        try:
            return (one.cell_contents,)
        except ValueError:
            return ()
    if isinstance(one, type):
        return tuple(vars(one).values()) if one.__module__ == name else ()
    if isinstance(one, dict):
        return tuple(one.values())
    if isinstance(one, list | tuple | set | frozenset):
        return tuple(one)
    parts = ("fget", "fset", "fdel", "func", "__func__", "__wrapped__", "callback")
    found = [vars(type(one)).get(part) and getattr(one, part, None) for part in parts]
    return [*found, *getattr(one, "__dict__", {}).values()]


def _inner(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def _bare(code: CodeType) -> tuple[object, ...]:
    constants = [(type(const), const) for const in code.co_consts if not isinstance(const, CodeType)]
    return code.co_code, repr(constants), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


def _deep(code: CodeType) -> tuple[object, ...]:
    return _bare(code), tuple(_deep(one) for one in _inner(code))
