"""
The changes of a Lua text, of the same kinds as those of a Python text: by its words, and line by line.

A removed line takes the lines with it that close its brackets; the result is a mutant if it compiles. Not changed: the
header, texts, the numbers of KEYS and ARGV, and the "1, true" of string.find (a plain search).
"""

import re
from collections.abc import Iterator

from lupa.lua51 import LuaRuntime, LuaSyntaxError

from tools.mutants.change import Change, other_numbers

_WORD = re.compile(
    rb"--[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|[A-Za-z_]\w*|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
    rb"|\.\.\.|\.\.|==|~=|<=|>=|\S"
)
_TURNED: dict[bytes, tuple[bytes, ...]] = {
    b"<": (b"<=", b">="),
    b"<=": (b"<", b">"),
    b">": (b">=", b"<="),
    b">=": (b">", b"<"),
    b"==": (b"~=",),
    b"~=": (b"==",),
    b"and": (b"or",),
    b"or": (b"and",),
    b"+": (b"-",),
    b"-": (b"+",),
    b"*": (b"/",),
    b"/": (b"*",),
    b"%": (b"*",),
    b"true": (b"false",),
    b"false": (b"true",),
    b"min": (b"max",),
    b"max": (b"min",),
    b"ceil": (b"floor",),
    b"not": (b"",),
}
_LEADS_AN_OPERAND = re.compile(rb"[=(,{\[+*/%<>~^-]|\.\.|==|~=|<=|>=|and|or|not|return|then|else|do|in")
_STAYS = re.compile(rb"\s*(--|local\b|end\b|else|until\b|$)")
_IS_PLAIN_SEARCH = re.compile(rb"string\.find\([^()\n]*(\([^()\n]*\))?[^()\n]*, (1, )?$")
_OPENING, _CLOSING = b"({[", b")}]"
_LUA = LuaRuntime()


def changes(text: bytes) -> Iterator[Change]:
    """Yield the changes of *text*; after some of them it does not compile."""
    yield from _of_words(text)
    yield from _of_lines(text)


def compiles(text: bytes) -> bool:
    """Return True if a mutated text compiles, as far as that is seen without its includes."""
    try:
        _LUA.compile(text)
    except LuaSyntaxError:
        return False
    return True


def _of_words(text: bytes) -> Iterator[Change]:
    words = [found for found in _WORD.finditer(text) if not found[0].startswith(b"--")]
    for before, found in zip([None, *words], words, strict=False):
        word = found[0]
        is_a_sign = word == b"-" and before is not None and _LEADS_AN_OPERAND.fullmatch(before[0])
        if is_a_sign:
            yield Change(found.start(), found.end(), b"")
        elif _IS_PLAIN_SEARCH.search(text[: found.start()]):
            continue
        elif word in _TURNED:
            yield from (Change(found.start(), found.end(), other) for other in _TURNED[word])
        elif word[:1].isdigit() and not re.search(rb"(KEYS|ARGV)\[$", text[: found.start()]):
            number = float(word) if re.search(rb"[.eE]", word) else int(word)
            is_named = re.search(rb"(local |\n)[A-Z][A-Z_]*(, [A-Z][A-Z_]*)* =[^\n]*$", text[: found.start()])
            yield from (Change(found.start(), found.end(), other) for other in other_numbers(number, bool(is_named)))
        elif word in (b"if", b"elseif"):
            condition = re.match(rb"\s*([\w.]+(?:\([^()\n]*\)|\[[^\[\]\n]*\])?)\s+then\b", text[found.end() :])
            if condition:
                start = found.end() + condition.start(1)
                yield Change(start, start, b"not ")


def _of_lines(text: bytes) -> Iterator[Change]:
    lines = text.splitlines(keepends=True)
    start = 0
    for at, line in enumerate(lines):
        end, depth, more = start + len(line), _depth(line), at + 1
        while depth > 0 and more < len(lines):
            end, depth, more = end + len(lines[more]), depth + _depth(lines[more]), more + 1
        if not _STAYS.match(line):
            yield Change(start, end - 1, b"")
        start += len(line)


def _depth(line: bytes) -> int:
    """Return the number of brackets that *line* leaves open."""
    words = [word for word in _WORD.findall(line) if len(word) == 1]
    return sum(word in _OPENING for word in words) - sum(word in _CLOSING for word in words)
