"""
Facets: the function, queue, owner, tags and name of a schedule or run, by which a search of the history filters.

They are those of the record that was valid at the time: a later change of a schedule's queue does not move its runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

from zsched.core.entry import text
from zsched.core.options.allowed import LimitedBy
from zsched.core.record import Place, Record
from zsched.core.runs.job import CALLBACKS
from zsched.errors import show

_WHOLE: Final = 2**62  # bound of whole numbers in a question: SQLite's integers have 64 bits


def question_text(value: Any) -> str:
    """Return *value*, a text in a question to an archive. Raises TypeError, UnicodeEncodeError (a lone surrogate)."""
    if not isinstance(value, str):
        raise TypeError(f"{show(value)} is not text")
    value.encode()
    return value


def question_number(value: Any) -> int:
    """Return *value*, a whole number in a question to an archive. Raises TypeError, ValueError: it is too large."""
    if type(value) is not int:
        raise TypeError(f"{show(value)} is not a whole number")
    if abs(value) >= _WHOLE:
        raise ValueError(f"{show(value)} is too large")
    return value


class Facets(NamedTuple):
    """'' or () where there is none, or the record is not known. *is_rule*: they are of a recurring schedule."""

    func: str = ""
    queue: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    name: str = ""
    is_rule: bool = False

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return the facets of a record."""
        job, own = record.job_fields(), record.own_fields()
        is_rule = b"func" in own
        fields, names = (own, _RECURRING) if is_rule else (job, _ONE_SHOT)
        func, owner, tags, name = (fields.get(field, b"") for field in names)
        func, queue = func or job.get(b"description", b""), job.get(b"origin", b"")
        return cls(text(func), text(queue), text(owner), _tags(tags), text(name), is_rule)

    @classmethod
    def parse(cls, stored: bytes) -> Self:
        """Return the facets of their ``stored`` text."""
        func, queue, owner, name, rule, *tags = text(stored).split("\n")
        return cls(func, queue, owner, tuple(tags), name, bool(rule))

    @classmethod
    def of_texts(cls, func: Any, queue: Any, owner: Any, tags: Any, name: Any, is_rule: Any) -> Self:
        """Return the facets of the values of their tuple in a question or an answer. Raises as ``question_text``."""
        func, queue, owner, name = map(question_text, (func, queue, owner, name))
        return cls(func, queue, owner, tuple(map(question_text, tags)), name, bool(is_rule))

    @property
    def stored(self) -> bytes:
        """The facets as one text."""
        return "\n".join((self.func, self.queue, self.owner, self.name, "rule" * self.is_rule, *self.tags)).encode()

    def words(self) -> Iterator[str]:
        """Yield a word for each value, such as ``queue:email``."""
        yield from (f"{field}:{value}" for field, value in (("func", self.func), ("queue", self.queue)) if value)
        yield from self.labels()

    def labels(self) -> list[str]:
        """Return the words of the owner, the name and the tags: few schedules have the same."""
        exact = [f"{field}:{value}" for field, value in (("owner", self.owner), ("name", self.name)) if value]
        return exact + [f"tag:{tag}" for tag in self.tags]

    def has(self, wanted: Facets) -> bool:
        """Return True if every value of *wanted* that is given is among these."""
        return (
            (not wanted.func or wanted.func == self.func)
            and (not wanted.queue or wanted.queue == self.queue)
            and (not wanted.owner or wanted.owner == self.owner)
            and (not wanted.name or wanted.name == self.name)
            and set(wanted.tags) <= set(self.tags)
        )


NO_FACETS: Final = Facets()


class FacetsOfRows(NamedTuple):
    """The facets of many rows. ``order``: the place of each row's in ``distinct``; empty if there is only one."""

    distinct: Sequence[Facets]
    order: Sequence[int] = ()

    @classmethod
    def of(cls, facets: Sequence[Facets]) -> Self:
        """Return the facets of rows, in order."""
        if len(facets) == 1:
            return cls(facets)
        places = {one: place for place, one in enumerate(dict.fromkeys(facets))}
        return cls(list(places), () if len(places) <= 1 else list(map(places.__getitem__, facets)))

    def at(self, row: int) -> Facets:
        """Return the facets of a row."""
        return self.distinct[self.order[row] if self.order else 0] if self.distinct else NO_FACETS


def limited_by(record: Record) -> LimitedBy:
    """Return the parts of a record that limits are about."""
    facets, job = Facets.of(record), record.job_fields()
    callbacks = {option: text(path) for option, field in CALLBACKS.items() if (path := job.get(field.encode()))}
    return LimitedBy({"func": facets.func, **callbacks}, facets.queue, facets.tags)


_RECURRING: Final = (b"func", b"owner", b"tags", b"name")
_ONE_SHOT: Final = (b"zs_func", b"zs_owner", b"zs_tags", b"zs_name")


@lru_cache(maxsize=1000)  # many entries share their fields
def facets_of_job(fields: tuple[bytes, ...]) -> Facets:
    """Return the facets of one-shots, or of runs, whose jobs share these *fields*."""
    return Facets.of(Record("", "", Place.DUE, "", None, fields))


def _tags(stored: bytes) -> tuple[str, ...]:
    with suppress(ValueError, RecursionError):
        found = json.loads(stored) if stored else ()
        return tuple(map(str, found)) if isinstance(found, list) else ()
    return ()
