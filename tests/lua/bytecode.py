"""
Lua 5.1 bytecode, as far as a function's limits and global names are in it (ldump.c, lopcodes.h; in "A No-Frills
Introduction to Lua 5.1 VM Instructions").
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from lupa.lua51 import LuaRuntime

_HEADER_SIZE = 12
_GETGLOBAL, _SETGLOBAL = 5, 7
_DUMP = LuaRuntime(encoding=None).eval("function(text) return string.dump(assert(loadstring(text))) end")


@dataclass(frozen=True, slots=True)
class Function:
    """A compiled function: its first line, most locals at once, registers, upvalues, and global names that it uses."""

    line: int
    most_locals: int
    registers: int
    upvalues: int
    global_names: frozenset[str]


def functions(text: str) -> Iterator[Function]:
    """Yield all functions of a chunk, the chunk itself last."""
    return _Reader(_DUMP(text.encode())).functions()


class _Reader:
    def __init__(self, dump: bytes) -> None:
        self._dump, self._at = dump, _HEADER_SIZE

    def functions(self) -> Iterator[Function]:
        self._text()  # the name of the source
        line, _, upvalues, _, _, registers = self._unpack("iiBBBB")
        code = self._list("I")
        constants = [self._constant() for _ in range(self._number())]
        for _ in range(self._number()):
            yield from self.functions()
        self._list("i")  # line numbers
        scopes = [(self._text(), *self._unpack("ii")) for _ in range(self._number())]
        for _ in range(self._number()):
            self._text()  # names of upvalues
        ends = [(end, -1) for _, _, end in scopes]
        count = most = 0
        for _, change in sorted(ends + [(start, 1) for _, start, _ in scopes]):  # at the same place, ends come first
            count += change
            most = max(most, count)
        names = {constants[word >> 14] for word in code if word & 0x3F in (_GETGLOBAL, _SETGLOBAL)}
        yield Function(line, most, registers, upvalues, frozenset(map(str, names)))

    def _unpack(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(f"<{form}", self._dump, self._at)
        self._at += struct.calcsize(f"<{form}")
        return values

    def _number(self) -> int:
        return self._unpack("i")[0]

    def _list(self, form: str) -> tuple[int, ...]:
        return self._unpack(f"{self._number()}{form}")

    def _text(self) -> str:
        size = self._unpack("Q")[0]
        text = self._dump[self._at : self._at + size]
        self._at += size
        return text[:-1].decode()

    def _constant(self) -> object:
        kind = self._unpack("B")[0]
        return {0: lambda: None, 1: lambda: self._unpack("B"), 3: lambda: self._unpack("d"), 4: self._text}[kind]()
