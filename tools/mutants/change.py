"""A mutant: one file, one span of it, and the replacement."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_BIG = 100  # a pace, a page or a unit


@dataclass(frozen=True, slots=True)
class Change:
    """Bytes ``start`` to ``end`` of a file become ``new``."""

    start: int
    end: int
    new: bytes

    def applied(self, text: bytes) -> bytes:
        """The mutated *text*."""
        return text[: self.start] + self.new + text[self.end :]


def other_numbers(number: float, is_named: bool) -> Iterator[bytes]:
    """Yield one more and one less; for a big number or a named constant, where that shows nothing, twice as much."""
    others = (number * 2,) if number and (is_named or number >= _BIG) else (number + 1, number - 1)
    return (repr(other).encode() for other in others)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of a file of the project, identified by the lines that it touches, not by their number."""

    file: str
    number: int  # of the first line
    before: str  # the line above
    line: str
    mutated: str
    original: bytes  # of the whole file
    change: Change

    @property
    def text(self) -> bytes:
        """The mutated text of the whole file."""
        return self.change.applied(self.original)

    def __str__(self) -> str:
        return f"{self.file}:{self.number}\n    - {self.line}\n    + {self.mutated or '(nothing)'}"


def mutants(file: str, text: bytes, changes: Iterable[Change]) -> list[Mutant]:
    """Return a mutant for each change of *text*, in the order of the file; equal results are listed once."""
    made: dict[int, Mutant] = {}
    for change in sorted(changes, key=lambda change: (change.start, change.end, change.new)):
        begin = text.rfind(b"\n", 0, change.start) + 1
        end = text.find(b"\n", max(change.end - 1, change.start))
        end = len(text) if end < 0 else end
        mutated = change.applied(text)
        line, after = text[begin:end], mutated[begin : end + len(mutated) - len(text)]
        number = text.count(b"\n", 0, begin) + 1
        above = text[text.rfind(b"\n", 0, max(begin - 1, 0)) + 1 : begin]
        mutant = Mutant(file, number, _one_line(above), _one_line(line), _one_line(after), text, change)
        made.setdefault(hash(mutated), mutant)
    return list(made.values())


def _one_line(text: bytes) -> str:
    return " ".join(text.decode().split())
