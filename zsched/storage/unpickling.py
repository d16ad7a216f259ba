"""
Pickles read without running their code.

A pickle is a program: any writer of Redis can have it run by a program that unpickles it. RQ's workers do that by
design; programs that only read, compare or show need not. So only the few classes below are imported. ``read_plain``
refuses a pickle with any other class. ``read_shown`` replaces an object of another class by the class's name. If a
pickle has only plain classes, both return the same values as ``pickle.loads``.

Neither needs much more memory or time than the size of the pickle: instructions are checked before they are executed,
and inflation has a limit. A value may appear many times within another, at each level again: then a key of sixty nested
tuples would be hashed for ever. So the values that are hashed are counted first, as often as they appear
(``_Counted``). Others may be large when they are walked through, or in text form: ``excess`` reports that.
"""

import io
import pickle
import pickletools
import zlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, Self

_PUTS: Final = frozenset(["PUT", "BINPUT", "LONG_BINPUT"])
_SLOTS: Final = _PUTS | {"FRAME"}  # they reserve the memory that they name
_GETS: Final = frozenset(["GET", "BINGET", "LONG_BINGET"])
_FILLS: Final = frozenset("APPEND APPENDS SETITEM SETITEMS ADDITEMS BUILD".split())  # what is there already
_KEYED: Final = frozenset("SETITEM SETITEMS DICT".split())  # they hash each key
_HASHED: Final = frozenset("ADDITEMS FROZENSET REDUCE NEWOBJ NEWOBJ_EX INST OBJ".split())  # they may hash each part
MOST_BYTES: Final = 10_000_000  # of a value; the default limit of a payload is a 40th of that
_DEFLATED: Final = 8  # the method in the first byte of each stream of zlib (RFC 1950)
_CHECKED: Final = 31  # divides the first two bytes of each stream
PICKLES: Final = b"\x80", b"("  # the first byte of every pickle of RQ, and of a short one (pickling.py); not of JSON
_DEEPEST: Final = 100  # levels; Python's own functions recurse, and JSON's
_ROOM: Final = 10_000_000  # characters, approximately, of a value in text form
_EACH: Final = 100  # characters for every contained value, so at most 100,000 values
_REPEATED: Final = _ROOM // _EACH  # values of a key more than bytes of its pickle
# Their constructors only store their arguments, and need no more memory than these.
_PLAIN: Final = frozenset(
    [
        *(("builtins", name) for name in ("set", "frozenset")),
        *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
        ("collections", "OrderedDict"),
        ("decimal", "Decimal"),
        ("uuid", "UUID"),
    ]
)


class NotPlain(ValueError):
    """A pickle that is not loaded; the message has the reason."""


def inflated(data: bytes) -> bytes:
    """Return *data*, inflated if it was deflated. Raises NotPlain if it would be too long."""
    if not data or data[0] & 15 != _DEFLATED or int.from_bytes(data[:2]) % _CHECKED:  # as of a pickle or JSON
        return data
    machine = zlib.decompressobj()
    try:
        raw = machine.decompress(data, MOST_BYTES + 1)
    except zlib.error:
        return data
    if len(raw) > MOST_BYTES:
        raise NotPlain(f"it has more than {MOST_BYTES:,} bytes, inflated")
    return raw if machine.eof else data


def is_pickle(data: bytes) -> bool:
    """Return True if a payload is a pickle, by its first byte; else it is JSON."""
    try:
        return inflated(data).startswith(PICKLES)
    except NotPlain:
        return True


def read_plain(data: bytes) -> Any:
    """Load the pickle *data*. Raises NotPlain if it has an object of another class, is broken or too large."""
    value = _load(_Plain, data)
    if problem := excess(value):
        raise NotPlain(f"it has {problem}")
    return value


def demand_plain(data: bytes) -> None:
    """Raise NotPlain unless *data*, of a payload or of ``meta`` as stored, is JSON, or a pickle of plain values."""
    raw = inflated(data)
    if raw[:1] not in (b"[", b"{"):  # no pickle begins so, of any protocol
        read_plain(raw)


def read_shown(data: bytes) -> Any:
    """Load the pickle *data*, with an ``Opaque`` for each object of another class. Raises NotPlain if it is broken."""
    return _load(_Shown, data)


def excess(value: Any, deepest: int = _DEEPEST) -> str:
    """Return the limit that *value* exceeds, levels or values, so that it cannot be compared or shown; or ""."""
    room, path = _ROOM, [(0, iter([value]))]  # ids and remaining items of the containers on the path
    inside: set[int] = set()
    while path:
        own, left = path[-1]
        for part in left:
            room -= _EACH + _size(part)
            if room < 0:
                return f"more than {_ROOM // _EACH:,} values, or {_ROOM:,} characters"
            if isinstance(part, Mapping | list | tuple | set | frozenset) and id(part) not in inside:
                if len(path) > deepest:
                    return f"more than {deepest} levels"
                inside.add(id(part))
                path.append((id(part), _parts(part)))
                break
        else:
            path.pop()
            inside.discard(own)
    return ""


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() // 3
    return len(repr(value)) if isinstance(value, Decimal | Opaque | type) else 0


def _parts(value: Any) -> Iterator[Any]:
    return iter(value) if not isinstance(value, Mapping) else (part for pair in value.items() for part in pair)


class Opaque:
    """A placeholder for an object of a class, or a function, that is not imported. Accepts every pickle operation."""

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        """Accept any arguments, and store none."""
        return super().__new__(cls)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__}>"

    def __call__(self, *_args: object, **_kwargs: object) -> Self:
        return self

    def __setstate__(self, state: object) -> None: ...

    def __setitem__(self, key: object, value: object) -> None: ...

    def append(self, value: object) -> None:
        """Accept an item, as a list that is pickled in parts."""

    def add(self, value: object) -> None:
        """Accept an item, as a set that is pickled in parts."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        raise NotPlain(f"it holds {module}.{name}, and only plain values are opened here")


class _Shown(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        return type(name, (Opaque,), {"__module__": module})


class _Counted:
    """Counts of the values that the instructions of a pickle make, each with all within it, as often as it appears."""

    def __init__(self) -> None:
        self._stack: list[list[int] | None] = []  # a count is a list, as the memo has it, too; None is a mark
        self._memo: dict[Any, list[int] | None] = {}

    def add(self, code: pickletools.OpcodeInfo, argument: Any) -> int:
        """Follow an instruction, and return the largest count of a value that it hashes; 0 if it hashes none."""
        stack, name = self._stack, code.name
        if name == "MARK":
            stack.append(None)
        elif name in _GETS:
            stack.append(self._memo[argument])
        elif name == "DUP":
            stack.append(stack[-1])
        elif name == "MEMOIZE" or name in _PUTS:
            self._memo[len(self._memo) if name == "MEMOIZE" else argument] = stack[-1]
        else:
            return self._made(code)
        return 0

    def _made(self, code: pickletools.OpcodeInfo) -> int:
        before, stack = len(code.stack_before), self._stack
        parts: list[int] = []  # the last comes first
        if pickletools.stackslice in code.stack_before:
            while (part := stack.pop()) is not None:
                parts.append(part[0])
            before -= 2
        taken = [part for _ in range(before) if (part := stack.pop()) is not None]
        made = taken.pop() if code.name in _FILLS else [0]
        parts += [part[0] for part in taken]
        made[0] = min(made[0] + 1 + sum(parts), 2 * MOST_BYTES)
        if code.stack_after:
            stack.append(made)
        hashed = parts if code.name in _HASHED else parts[1::2] if code.name in _KEYED else ()
        return max(hashed, default=0)


def _load(unpickler: type[pickle.Unpickler], data: bytes) -> Any:
    if len(data) > MOST_BYTES:
        raise NotPlain(f"it has {len(data):,} bytes, and more than {MOST_BYTES:,} are not opened")
    try:
        counted, most = _Counted(), len(data) + _REPEATED
        for code, argument, _ in pickletools.genops(data):  # raises if a length is beyond the end
            if code.name in _SLOTS and isinstance(argument, int) and argument > len(data):
                raise NotPlain(f"its instruction {code.name} names {argument:,}, and it has {len(data):,} bytes")
            if counted.add(code, argument) > most:
                raise NotPlain(f"a key or a set in it has more than {most:,} values, as often as they appear")
        return unpickler(io.BytesIO(data)).load()
    except NotPlain:
        raise
    except Exception as error:  # a broken pickle may raise any error
        raise NotPlain(f"it is not a pickle, or it is damaged ({type(error).__name__})") from error
