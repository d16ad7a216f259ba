"""
Known failures: failed runs that somebody acknowledged, by function and error, until a time.

``zsched status`` and messages leave them out until then; history, ``why`` and counts have them.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final, Self

from zsched.core.model import iso, json_of
from zsched.core.options.arguments import check_filter, check_text, seconds_to_ms
from zsched.core.runs.run import BAD, Run
from zsched.errors import NOT_GIVEN, InvalidSchedule

SORT: Final = "known_failure:"  # before the name of each among the named texts
_LONGEST_S: Final = 90 * 86_400


@dataclass(frozen=True, slots=True)
class Known:
    """
    A known failure, until ``until_ms``: of functions like the glob ``func``, with errors like the glob ``error``; None:
    of all. ``name`` follows from both, so a second one replaces the first. ``at_ms``: when *by* put it.
    """

    name: str
    func: str | None
    error: str | None
    until_ms: int
    note: str
    by: str
    at_ms: int

    @classmethod
    def of(cls, func: object, error: object, for_: object, note: object, by: str, now_ms: int) -> Self:
        """Return a new one, of *now_ms*. Raises InvalidSchedule."""
        func, error, note = check_filter("func", func), check_filter("error", error), check_text("note", note)
        if func is None and error is None:
            raise InvalidSchedule("func", NOT_GIVEN, "nothing says which failures", "give func, error or both")
        until_ms = now_ms + seconds_to_ms("for", for_, 1000, _LONGEST_S)
        name = sha256(json.dumps([func, error]).encode()).hexdigest()[:8]
        return cls(name, func, error, until_ms, note, by, now_ms)

    @classmethod
    def parse(cls, name: str, stored: str) -> Self | None:
        """Return the one of this *name* with a *stored* text; None: another program broke it."""
        with suppress(ValueError, TypeError):
            func, error, until_ms, note, by, at_ms = json.loads(stored)
            globs = check_filter("func", func), check_filter("error", error)
            return cls(name, *globs, int(until_ms), str(note), str(by), int(at_ms))
        return None

    @property
    def text(self) -> str:
        """The stored text."""
        return json.dumps(astuple(self)[1:], ensure_ascii=False)

    def matches(self, func: str, error: str | None, at_ms: int) -> bool:
        """
        Return True for a failure at *at_ms* that is known. *error* None: it is not known yet, so the function decides.
        """
        if at_ms >= self.until_ms or (error is None and self.func is None):
            return False
        is_like = self.error is None or error is None or fnmatchcase(error, self.error)
        return is_like and (self.func is None or fnmatchcase(func, self.func))

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return json_of(self, "name", "func", "error", "until_at", "note", "by", "at", at=iso(self.at_ms))


def known_as(run: Run, known: Iterable[Known], at_ms: int) -> Known | None:
    """Return the one of *known* that the run is, which ended at *at_ms*; None: it did not fail, or is not known."""
    is_bad = run.status in BAD
    return next((one for one in known if is_bad and one.matches(run.func, run.error, at_ms)), None)
