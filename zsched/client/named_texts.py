"""
The part of the client about what its namespace has by a name: calendars, which schedules name in ``exclude``, and known
failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from zsched.client.past import Past
from zsched.core.options.arguments import check_text
from zsched.core.wording import plural, some
from zsched.errors import InvalidSchedule

if TYPE_CHECKING:
    from zsched.core.known import Known
    from zsched.storage.store import Store


class NamedTextCalls(Past):
    """The calls of ``Client`` about the calendars and known failures of its namespace."""

    _store: Store
    _by: str

    def calendars(self) -> dict[str, dict[str, Any]]:
        """Return the calendars of the namespace by name: ``dates``, ``windows``, ``events`` and ``owner`` of each."""
        return {name: calendar.to_dict() for name, calendar in sorted(self._reader.calendars().items())}

    def put_calendar(
        self,
        name: str,
        *,
        dates: Sequence[str] = (),
        windows: Sequence[str] = (),
        events: Sequence[str] = (),
        ics: str = "",
        owner: str | None = None,
    ) -> str:
        """
        Put a calendar, which schedules of the namespace name in ``exclude``: created, updated or unchanged. *dates*:
        "2026-12-24", "2026-12-24..2027-01-01" or "12-25", with a word for people behind it; *windows*: "Sat,Sun",
        "22:00-07:00" or both in one; *events*: "2026-01-05/1d FREQ=MONTHLY;BYDAY=1MO Inventory". *ics*: the content of
        an .ics file (the extra ics). *owner*: the file that keeps it. Its schedules are planned anew within seconds.

        Raises:
            InvalidSchedule: the name or a text is bad; nothing was written.
        """
        from zsched.client.ics import calendar_of
        from zsched.core.triggers.calendar_definition import SORT

        calendar = calendar_of(name, {"dates": dates, "windows": windows, "events": events}, owner, ics)
        return self._store.named_texts.put(SORT, {name: calendar.text})[name]

    def delete_calendar(self, name: str) -> bool:
        """
        Delete a calendar. Return False if no calendar has this name.

        Raises:
            InvalidSchedule: schedules name it; the error has some of their ids.
        """
        from zsched.core.triggers.calendar_definition import SORT
        from zsched.storage.named_texts import DELETED

        recurring = self._reader.schedules(self._reader.recurring())
        if named := [one.id for one in recurring if one.trigger is not None and name in one.trigger.exclude]:
            problem = f"named by {plural(len(named), 'schedule')}: {some(named)}"
            raise InvalidSchedule("name", name, problem, "change their exclude first")
        return self._store.named_texts.put(SORT, {name: DELETED})[name] == "deleted"

    def known_failures(self) -> list[Known]:
        """Return what ``ack`` made known, the first to end first: ``name``, ``func``, ``error``, ``until_ms``, …"""
        return self._reader.known()

    def ack(
        self, *, func: str | None = None, error: str | None = None, for_: timedelta | float | str = "7d",
        note: str = "",
    ) -> Known:  # fmt: skip
        """
        Make failed, lost and refused runs known: of functions like *func*, with errors like *error*, both globs. For
        *for_*, 90 days at most, ``zsched status`` and messages leave them out. The same globs again replace that.

        Raises:
            InvalidSchedule: both globs are missing, or an argument is bad.
        """
        from zsched.core.known import SORT, Known
        from zsched.storage.named_texts import DELETED

        known, store = Known.of(func, error, for_, note, self._by, self._reader.now_ms()), self._store.named_texts
        over = store.present(SORT).keys() - {one.name for one in self.known_failures()}
        store.put(SORT, dict.fromkeys(over, DELETED) | {known.name: known.text})
        return known

    def remove_ack(self, name: str) -> bool:
        """Take a known failure back. Return False if none has this name."""
        from zsched.core.known import SORT
        from zsched.storage.named_texts import DELETED

        return self._store.named_texts.put(SORT, {check_text("name", name): DELETED})[name] == "deleted"
