"""
Recurring schedules from a definition, such as a file: read Redis, compare, and put the difference.

Both sides are expressed as options of ``client.schedule``. The wanted side is derived from the very fields that its put
would write, so both sides know the same options. A change is decided by digest, as in the put script. If a call or
``meta`` equals the stored one, the stored bytes are kept, because equal values can be pickled in more than one way. No
pickle is run for that: a call with objects of custom classes is equal if its bytes are equal.

A put here is conditional: it succeeds only if the schedule is unchanged since it was read, or still absent. Not
guaranteed: several puts do not happen together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, Final
from uuid import uuid4

from zsched.client.client import Client
from zsched.core.clock import from_ms
from zsched.core.listing import id_test
from zsched.core.model import Definition, Schedule, Scheduled
from zsched.core.options.choices import IfExists
from zsched.core.options.define import define
from zsched.core.options.revision import PAYLOAD, is_same
from zsched.core.triggers.calendar_definition import Calendar
from zsched.core.triggers.spec import Calendars, TriggerSpec
from zsched.core.triggers.trigger import GIVE_A_RULE, check, with_calendars
from zsched.errors import InvalidSchedule, ScheduleExists, VersionConflict, ZschedError
from zsched.storage.comparing import ScheduleWithOptions, with_options

_OTHER: Final = (VersionConflict, ScheduleExists)  # the schedule is not as it was compared


class FileSync:
    """
    Keeps recurring schedules as a file defines them, through *client*. *own*: the file's calendars, until the first
    rule names a calendar.
    """

    def __init__(self, client: Client, own: Mapping[str, Calendar] = {}) -> None:
        self._client = client
        self.keys, self._reader, self._puts = client._keys, client._reader, client._puts
        self._encoder, self._putting = client._encoder, client._putting
        self.calendars = cache(lambda: Calendars({**self._reader.calendars(), **own}))  # that a rule may name

    def define(self, func: str, options: Mapping[str, Any]) -> Definition:
        """
        Return the definition of a recurring schedule, after all checks; only a named calendar needs Redis.

        Raises:
            InvalidSchedule, TriggerError: as ``client.schedule``; but ``ends`` may have passed. RedisUnavailable.
        """
        definition = define(func, options, "", self._putting.urgencies)
        if not isinstance(definition.when, TriggerSpec):
            raise InvalidSchedule("at", definition.when, "a one-shot has no rule", GIVE_A_RULE)
        rule = with_calendars(replace(definition.when, ends_ms=None), self.calendars)
        check(rule, self._client._clock.now_ms())
        self._puts.from_definition(definition)
        return definition

    def now_ms(self) -> int:
        """Return the server's time. Raises InvalidSchedule when the namespace uses another serializer."""
        self._puts.check_serializer()
        return self._reader.now_ms()

    def held(self, ids: Iterable[str]) -> Iterator[ScheduleWithOptions]:
        """Read the schedules of *ids* that are in Redis, one-shots too. Opening payloads runs no code."""
        self._puts.check_serializer()  # before any payload is opened
        return (self._of(found) for found in self._reader.schedules(ids))

    def recurring(self, globs: Sequence[str] = ()) -> Iterator[Schedule]:
        """Return the recurring schedules with an id that matches one of *globs*, or all, by id; opens no payload."""
        return self._reader.schedules(filter(id_test(globs), self._reader.recurring()))

    def wanted(
        self, definition: Definition, held: ScheduleWithOptions | None
    ) -> tuple[Definition, ScheduleWithOptions]:
        """Return *definition* with the parts of *held* that it keeps, and the resulting schedule in Redis."""
        wanted = self._of(self._reader.expected(self._puts.from_definition(definition)))
        if held is None:
            return definition, wanted
        kept: dict[str, Any] = {}
        if not held.unreadable and all(is_same(held.options.get(name), wanted.options.get(name)) for name in PAYLOAD):
            kept["data"] = held.data
        if is_same(held.options.get("meta"), wanted.options.get("meta")):
            kept["meta"] = held.options.get("meta")
        definition = replace(definition, **kept)
        expected = self._reader.expected(self._puts.from_definition(definition))
        return definition, replace(wanted, schedule=replace(wanted.schedule, record=expected.record))

    def put(self, definition: Definition, held: ScheduleWithOptions | None) -> Scheduled | None:
        """
        Put *definition* if Redis still has *held* (None: if its id is still free). Otherwise return None.

        Raises:
            InvalidSchedule: no occurrence is left.
            RedisUnavailable, RedisRefused: Redis was not reached, or refused.
        """
        put = self._puts.from_definition(_condition(definition, held))
        with suppress(*_OTHER):
            return self._putting.scheduled(put, self._putting.answered(put, uuid4().hex))
        return None

    def put_many(
        self, wanted: Iterable[tuple[Definition, ScheduleWithOptions | None]]
    ) -> Iterator[tuple[int, Scheduled | ZschedError | None]]:
        """
        Put each definition as ``put`` would, many in a call. It does not wait for archives. Yield the number of each
        definition, and the result or the error. Raises RedisUnavailable, RedisRefused.
        """

        items = ((number, self._puts.from_definition(_condition(*each))) for number, each in enumerate(wanted))
        for outcomes in self._putting.bulk().put(items):
            for outcome in outcomes:
                if outcome.error is not None:
                    yield outcome.number, None if isinstance(outcome.error, _OTHER) else outcome.error
                else:
                    next_at = None if outcome.due_ms == b"-" else from_ms(int(outcome.due_ms))
                    yield outcome.number, Scheduled(outcome.put.id, outcome.word.decode(), next_at, None)

    def _of(self, found: Schedule) -> ScheduleWithOptions:
        return with_options(found, self._encoder)


def _condition(definition: Definition, held: ScheduleWithOptions | None) -> Definition:
    """Return *definition* with a condition: it is put only if Redis still holds *held* (None: nothing)."""
    if held is None:
        return replace(definition, if_exists=IfExists.ERROR)
    return replace(definition, if_version=held.schedule.version)  # without one it is broken: put in any case
