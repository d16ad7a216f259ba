"""
Options of an entry of a file, and checks that read an entry to its end.

An entry has the options of ``client.schedule``, except some that make no sense in a file. Durations are
seconds or texts (``"5m"``), as everywhere. Arguments that TOML cannot express, such as null, are JSON in ``args_json``,
``kwargs_json`` and ``meta_json``.

An entry with mistakes is checked to its end: one reading reports all mistakes, and no false ones.

    check   the whole entry; the first option that is refused is a mistake
    mend    remove that option, or replace it with a valid value if other options depend on it
    again   until there is no mistake, or a replacement is refused too

A bad function is left out, with the rule that it may have had. Missing arguments are not reported if an earlier mistake
may be the cause.

Entries are checked by the client's own checks of options, and by the signatures of tasks.

Not guaranteed: an option with two mistakes is reported once only. If a function's module cannot be imported from here,
the function and its arguments are not checked. ``unchecked`` lists these functions; their schedules have only the
options of the file.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from zsched.client import Client
from zsched.client.file_sync import FileSync
from zsched.client.ics import calendar_of
from zsched.config.reading import MOST_BYTES, read_file
from zsched.core.model import Definition
from zsched.core.options.arguments import strict_json
from zsched.core.options.define import NO_TRIGGER, TRIGGERS
from zsched.core.options.forms import Stored, ValueType
from zsched.core.options.table import ELSEWHERE, OPTIONS, options_taking
from zsched.core.triggers.calendar_definition import Calendar
from zsched.core.triggers.every import LONGEST_MS
from zsched.core.triggers.trigger import RULES
from zsched.core.wording import nearest
from zsched.errors import InvalidSchedule, InvalidTask, RedisUnavailable, ZschedError
from zsched.tasks.lookup import Lookup

_TIMES: Final = options_taking(ValueType.TIME)
ARGUMENTS: Final = tuple(name for name, option in OPTIONS.items() if option.stored is Stored.DATA)
# Options that may be given as JSON text, under their name and _json.
JSON_KEYS: Final = options_taking(ValueType.ARRAY, ValueType.OBJECT)
ONE_RULE: Final = f"give exactly one of {', '.join(RULES)}"
KEYS: Final = (*sorted(OPTIONS), *(f"{name}_json" for name in JSON_KEYS))
NOT_SHARED: Final = ("func", *TRIGGERS)  # keys that [defaults] cannot have
REFUSED: Final = {  # by key: the problem and the remedy
    "id": ("the table's name is the id", "write [schedules.<id>]"),
    "owner": ("the file owns its schedules", "write owner = at the top of the file"),
    "if_exists": ("a file says what is to be", "leave it out"),
    "durable": ("it belongs to one call, not to a schedule", "leave it out"),
    "if_version": ("a file says what is wanted, whatever is there", "leave it out"),
    "allow_past": ("it belongs to one time, and these recur", "leave it out"),
} | dict.fromkeys(
    ("at", "after"),
    ("its time passes, and the next apply would meet it in the past", "use zsched add, or a rule with count = 1"),
)


def option_of(key: str) -> str:
    """Return the option of *key*: ``args`` for ``args_json``."""
    name = key.removesuffix("_json")
    return name if name in JSON_KEYS else key


def value_of(key: str, value: Any) -> Any:
    """Return TOML's *value* of *key* in the client's form: JSON texts are parsed. Raises ValueError."""
    if (option := option_of(key)) != key:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not a text; write JSON in quotes, or {option} = in TOML")
        try:
            return strict_json(value)
        except ValueError as error:
            raise ValueError(f"not JSON ({error}); write it like '[1, null]'") from None
    if isinstance(value, str) and key in _TIMES:
        raise ValueError(f"{value!r} is a text; write the time without quotes, such as 2026-12-24T18:00:00Z")
    return value


# -- all mistakes of an entry -----------------------------------------------------------------------


_FAR: Final = LONGEST_MS // 1000  # seconds; as ``every`` it replaces a bad rule: no other duration is too long for it
# Replacements for bad options, so that no other option is refused because of them. Other bad options are removed. An
# option that was checked before a refused one is valid, so it may be replaced too.
_STAND_INS: Final[Mapping[str, Mapping[str, Any]]] = {rule: {"every": _FAR} for rule in RULES} | {
    "overlap": {"overlap": "queue"},
    "catch_up": {"overlap": "queue", "catch_up": "all"},
    "jitter": {"jitter": 0},
    "expires_after": {"expires_after": _FAR},
    "tz": {"tz": "UTC"},
    "exclude": {"exclude": ["2000-01-01"]},
}

Mistake = tuple[str, str]  # the bad option, or "" when the entry lacks something; and the problem
DefineEntry = Callable[[str | None, Mapping[str, Any]], Definition]


def mend(options: dict[str, Any], *fields: str) -> None:
    """Remove the bad *fields* from *options*, and add their replacements."""
    for field in fields:
        options.pop(field, None)
        options |= _STAND_INS.get(field, {})


def check_through(
    define: DefineEntry, func: str | None, options: Mapping[str, Any], bad: Iterable[str]
) -> tuple[Definition | None, list[Mistake]]:
    """
    Return the definition of *func* and *options*, and no mistake; or None, and all their mistakes. *bad*: options with
    mistakes that were found and mended before. *define* raises ZschedError for an invalid definition.
    """
    options, met, mistakes = dict(options), set(bad), list[Mistake]()
    while True:
        has_rule = any(name in options for name in RULES)
        try:
            definition = define(func, options)
        except InvalidSchedule as error:
            field = "func" if isinstance(error, InvalidTask) else error.field
            lacks_rule = field == NO_TRIGGER and not has_rule  # and its typed task has none
            mistakes.append(("", f"no rule; {ONE_RULE}") if lacks_rule else (field, str(error)))
        except RedisUnavailable:
            raise
        except ZschedError as error:  # a rule that cannot be evaluated
            field = next((name for name in RULES if name in options), "every")
            mistakes.append((field, str(error)))
        else:
            return None if mistakes else definition, mistakes
        if field in met:  # the replacement is refused too: report nothing more
            return None, mistakes
        met.add(field)
        if field == "func":
            func = None
        elif field in options or field in _STAND_INS:
            mend(options, field)
        elif field != NO_TRIGGER:
            return None, mistakes
        # Without a rule, the function may have been a task that has one, or the bad key is a misspelt rule, or another
        # scheduler's name of one.
        may_be_rule = field in (NO_TRIGGER, "func") or ELSEWHERE.get(field, _nearest(field)) in RULES
        if not has_rule and may_be_rule:
            mend(options, "every")


def _nearest(key: str) -> str:
    """Return the valid key that is most similar to the bad *key*; "" without one."""
    return "" if key in KEYS else nearest(key, KEYS)


def may_be_arguments(key: str) -> bool:
    """Return True if the bad *key* may be a misspelt key of arguments: no other option is more similar."""
    near = _nearest(key)
    return key not in KEYS and (not near or option_of(near) in ARGUMENTS)


# -- the client's checks ----------------------------------------------------------------------------


_ANY: Final = "module.function"  # replaces a bad function

Allow = Callable[[str | None, Mapping[str, Any]], None]


class ClientChecks:
    """
    Checks by *client*'s own rules. *allow* raises InvalidSchedule for functions that are not allowed, before they are
    imported. Imports are done inside *importing*. *folder*: of the file.
    """

    def __init__(
        self,
        client: Client,
        allow: Allow = lambda func, options: None,
        importing: Callable[[], AbstractContextManager[None]] = nullcontext,
        folder: Path = Path(),
    ) -> None:
        self._calendars: dict[str, Calendar] = {}
        self.allow, self._sync, self._importing = allow, FileSync(client, self._calendars), importing
        self._lookup, self._folder = Lookup(), folder
        self.unchecked = self._lookup.absent  # paths that could not be imported from here, each with its missing module

    def calendar(self, name: str, table: Mapping[str, Any], owner: str) -> Calendar:
        """Return the calendar of a table, which entries may name. Raises InvalidSchedule."""
        self._calendars[name] = Calendar(name, "{}", ())  # a bad one, so that entries which name it are no mistakes
        parts, content = dict(table), ""
        if path := parts.pop("ics", None):
            try:
                content = read_file(self._folder / path, MOST_BYTES).decode()
            except (OSError, ValueError, TypeError) as error:
                remedy = "give the path of a .ics file, from the folder of this file"
                raise InvalidSchedule("ics", path, str(error), remedy) from error
        self._calendars[name] = calendar_of(name, parts, owner, content)
        return self._calendars[name]

    def define(self, func: str | None, options: Mapping[str, Any]) -> Definition:
        """Return the definition of an entry, without a check of its arguments. Raises InvalidSchedule."""
        self.allow(func, options)
        if func is not None:
            with self._importing():
                options = self._lookup.options_beside(func, options)
        return self._sync.define(func or _ANY, options)

    def mistakes(self, func: str, options: Mapping[str, Any]) -> Iterable[InvalidSchedule]:
        """Yield the mistakes in the arguments of an entry whose function ``define`` accepted."""
        with self._importing():
            return list(self._lookup.mistakes(func, options))
