"""
Debian's cron, slowly: a walk over minutes that shares no code with zsched.

By crontab(5): the minutes that a line matches. By cron(8): a job with a ``*`` at the start of its minute or hour, and
@hourly, runs when the wall clock shows its time. Any other job has fixed times: those that the wall clock jumped over
run right after, together, and those that it repeats do not run again.
"""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
NAMES = {
    name: number
    for names, first in (("jan feb mar apr may jun jul aug sep oct nov dec", 1), ("sun mon tue wed thu fri sat", 0))
    for number, name in enumerate(names.split(), first)
}
BOUNDS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]


class Line:
    """The time fields of a crontab line, or its macro."""

    def __init__(self, times: str) -> None:
        fields = MACROS.get(times, times).split()
        self.minutes, self.hours, self.days, self.months, self.weekdays = map(values, fields, BOUNDS)
        self.goes_by_the_wall = fields[0].startswith("*") or fields[1].startswith("*")
        self.needs_both_days = fields[2].startswith("*") or fields[4].startswith("*")

    def matches(self, at: datetime) -> bool:
        weekday = at.isoweekday() % 7
        on_weekday = weekday in self.weekdays or (weekday == 0 and 7 in self.weekdays)
        on_day = at.day in self.days
        is_on = (on_day and on_weekday) if self.needs_both_days else (on_day or on_weekday)
        return is_on and at.month in self.months and at.hour in self.hours and at.minute in self.minutes

    def runs(self, zone: str, start: datetime, minutes: int) -> list[datetime]:
        """Return the times at which the line runs within *minutes* from *start*, which is aware."""
        place, found = ZoneInfo(zone), []
        done = start.astimezone(place).replace(tzinfo=None) - timedelta(minutes=1)  # on the wall, up to here
        for number in range(minutes):
            now = start + timedelta(minutes=number)
            wall = now.astimezone(place).replace(tzinfo=None)
            if self.goes_by_the_wall:
                if self.matches(wall):
                    found.append(now)
            else:
                skipped = int((wall - done) / timedelta(minutes=1))
                if any(self.matches(wall - timedelta(minutes=back)) for back in range(skipped)):
                    found.append(now)
            done = max(done, wall)
        return found


def values(field: str, bounds: tuple[int, int]) -> set[int]:
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, _, last = ("-".join(map(str, bounds)) if span == "*" else span).partition("-")
        found.update(range(number(first), number(last or first) + 1, int(step or 1)))
    return found


def number(text: str) -> int:
    return NAMES[text.lower()] if text.lower() in NAMES else int(text)
