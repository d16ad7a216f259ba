"""The part of the client about calendars: read, put and delete what schedules name in ``exclude``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zsched.client.past import Past
from zsched.core.wording import plural, some
from zsched.errors import InvalidSchedule

if TYPE_CHECKING:
    from zsched.storage.store import Store


class CalendarCalls(Past):
    """The calls of ``Client`` about the calendars of its namespace."""

    _store: Store

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

        calendar = calendar_of(name, {"dates": dates, "windows": windows, "events": events}, owner, ics)
        return self._store.calendars.put({name: calendar.text})[name]

    def delete_calendar(self, name: str) -> bool:
        """
        Delete a calendar. Return False if no calendar has this name.

        Raises:
            InvalidSchedule: schedules name it; the error has some of their ids.
        """
        from zsched.storage.calendars import DELETED

        recurring = self._reader.schedules(self._reader.recurring())
        if named := [one.id for one in recurring if one.trigger is not None and name in one.trigger.exclude]:
            problem = f"named by {plural(len(named), 'schedule')}: {some(named)}"
            raise InvalidSchedule("name", name, problem, "change their exclude first")
        return self._store.calendars.put({name: DELETED})[name] == "deleted"
