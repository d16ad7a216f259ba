"""
Checking an entry to its end, though there are mistakes in it: one reading tells all of them, and makes none up.

    check   as a whole; the first option that is refused is a mistake
    mend    it is taken out, and where others would suffer from that, something good stands in for it
    again   until all is well, or a stand-in is refused as well

A bad function is left out, with the rule that it may have had. Which mistakes may be the cause of arguments that are
missing is known here too; whoever looks at arguments says nothing of these then.

Not guaranteed: that an option of which two things are wrong is told of twice.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from zsched.core.model import Definition
from zsched.core.triggers import RULES
from zsched.core.triggers.every import LONGEST_MS
from zsched.errors import InvalidSchedule, InvalidTask, ZschedError
from zsched.files.options import ARGUMENTS, KEYS, ONE_RULE, option_of

_FAR: Final = LONGEST_MS // 1000  # seconds; as ``every`` it stands in for a bad rule, and nothing is too long for it
# What stands in for a bad option, so that nothing is said of others because of it; a bad one that is not here is left
# out. Where one option is refused those that are judged before it are good, so they may be stood in for too.
_STAND_INS: Final[Mapping[str, Mapping[str, Any]]] = {rule: {"every": _FAR} for rule in RULES} | {
    "overlap": {"overlap": "queue"},
    "catch_up": {"overlap": "queue", "catch_up": "all"},
    "jitter": {"jitter": 0},
    "expires_after": {"expires_after": _FAR},
    "tz": {"tz": "UTC"},
}

DefineEntry = Callable[[str | None, Mapping[str, Any]], Definition]


class Mistake(NamedTuple):
    """A mistake in option ``field`` of an entry; ``field`` is "" when the entry lacks something."""

    field: str
    problem: str


def mend(options: dict[str, Any], *fields: str) -> None:
    """Take the bad *fields* out of *options*, and put in what stands for them."""
    for field in fields:
        options.pop(field, None)
        options |= _STAND_INS.get(field, {})


def check_through(
    define: DefineEntry, func: str | None, options: Mapping[str, Any], bad: Iterable[str]
) -> tuple[Definition | None, list[Mistake]]:
    """
    The definition of *func* and *options*, and no mistake; else None, and everything that is wrong with them. *bad*
    are options that were found wrong before, and mended. *define* raises ZschedError for what it refuses.
    """
    options, met, mistakes = dict(options), set(bad), list[Mistake]()
    while True:
        has_rule = any(name in options for name in RULES)
        try:
            definition = define(func, options)
        except InvalidSchedule as error:
            field = "func" if isinstance(error, InvalidTask) else error.field
            lacks_rule = field == "at" and not has_rule  # and its typed task has none
            mistakes.append(Mistake("", f"no rule; {ONE_RULE}") if lacks_rule else Mistake(field, str(error)))
        except ZschedError as error:  # a rule that cannot be evaluated
            field = next((name for name in RULES if name in options), "every")
            mistakes.append(Mistake(field, str(error)))
        else:
            return None if mistakes else definition, mistakes
        if field in met:  # what stands in for it is not good either: better nothing than nonsense
            return None, mistakes
        met.add(field)
        if field == "func":
            func = None
        elif field in options or field in _STAND_INS:
            mend(options, field)
        elif field != "at":
            return None, mistakes
        if not has_rule and field in ("at", "func"):  # the function may have been a task with a rule
            mend(options, "every")


def may_be_arguments(key: str) -> bool:
    """Return True if *key*, which is bad, may have been meant for the arguments: no other option is nearer."""
    if key in KEYS:
        return False
    near = difflib.get_close_matches(key, KEYS, 1, 0.6)
    return not near or option_of(near[0]) in ARGUMENTS
