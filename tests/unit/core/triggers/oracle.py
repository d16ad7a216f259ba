"""
Slow, independent computations that the tests compare with: they walk the clock and share no code with zsched.

Cron follows Debian's daemon (cron.c): a virtual clock that, when the wall clock jumps ahead, runs the fixed
jobs of the minutes jumped over, and when it falls back, waits for it with fixed jobs and not with wildcards.
"""

import os
import struct
import zoneinfo
from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1)
UTC = ZoneInfo("UTC")
HOUR = 3600

ZONES = "America/New_York Europe/London Australia/Lord_Howe Asia/Kathmandu Pacific/Apia Africa/Casablanca UTC".split()


def ms(text: str, zone: str = "UTC") -> int:
    """Return the instant of an ISO text, read as local time in *zone* (first pass of a fold)."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000


def local(instant_ms: int, zone: str) -> str:
    """Return an instant as local ISO text with its offset."""
    return datetime.fromtimestamp(instant_ms / 1000, ZoneInfo(zone)).isoformat()


def wall(at_s: int, tz: ZoneInfo) -> datetime:
    """Return the time on a wall clock."""
    return datetime.fromtimestamp(at_s, tz).replace(tzinfo=None)


def tzif_changes(name: str) -> list[tuple[int, int, int]]:
    """Return (instant, offset before, offset after) as the compiled zone file says, without its final rule."""
    for root in zoneinfo.TZPATH:
        if os.path.isfile(os.path.join(root, name)):
            data = Path(root, name).read_bytes()
            break
    else:
        data = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    start = 0
    for block in (1, 2):  # RFC 8536: a 32-bit block, skipped, then a 64-bit one
        isut, isstd, leap, times, types, chars = struct.unpack(">6l", data[start + 20 : start + 44])
        start += 44
        if block == 1:
            start += times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    instants = struct.unpack(f">{times}q", data[start : start + 8 * times])
    kinds = data[start + 8 * times : start + 9 * times]
    table = start + 9 * times
    offsets = [struct.unpack(">l", data[table + 6 * i : table + 6 * i + 4])[0] for i in range(types)]
    found, before = [], offsets[0]
    for at_s, kind in zip(instants, kinds, strict=True):
        if offsets[kind] != before:
            found.append((at_s, before, offsets[kind]))
        before = offsets[kind]
    return found


class Crontab:
    """A crontab line of numbers, ``*``, ranges, steps and lists, and nothing else."""

    def __init__(self, line: str) -> None:
        bounds = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
        fields = line.split()
        self.sets = [self._set(field, *bound) for field, bound in zip(fields, bounds, strict=True)]
        self.wildcard = fields[0][0] == "*" or fields[1][0] == "*"
        self.both_days = fields[2][0] == "*" or fields[4][0] == "*"

    @staticmethod
    def _set(field: str, low: int, high: int) -> set[int]:
        found: set[int] = set()
        for item in field.split(","):
            span, _, step = item.partition("/")
            first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
            found.update(range(int(first), int(last or (high if step else first)) + 1, int(step or 1)))
        return found

    def matches(self, at: datetime) -> bool:
        """Return True if the line matches this minute of the wall clock."""
        minutes, hours, days, months, weekdays = self.sets
        if at.minute not in minutes or at.hour not in hours or at.month not in months:
            return False
        by_day = at.day in days
        by_weekday = at.isoweekday() in weekdays or at.isoweekday() % 7 in weekdays
        return (by_day and by_weekday) if self.both_days else (by_day or by_weekday)

    def walk(self, walls: list[tuple[int, datetime]]) -> list[int]:
        """Return the instants (s) at which Debian's cron runs the job, given (instant, wall) of consecutive minutes."""
        found, virtual = [], walls[0][1] - timedelta(minutes=1)
        for at_s, now in walls:
            if self.wildcard:
                if self.matches(now):
                    found.append(at_s)
            elif now > virtual:
                passed = int((now - virtual).total_seconds()) // 60
                if any(self.matches(virtual + timedelta(minutes=n)) for n in range(1, passed + 1)):
                    found.append(at_s)
            virtual = max(virtual, now)
        return found


def windows(name: str, first_year: int, last_year: int, around_s: int) -> list[tuple[int, int]]:
    """Return spans of instants (s) around each change of the zone in these years; some days of each if it has none."""
    tz = ZoneInfo(name)
    found = []
    step, here = 6 * HOUR, ms(f"{first_year}-01-01") // 1000
    while here < ms(f"{last_year + 1}-01-01") // 1000:
        if (wall(here + step, tz) - wall(here, tz)).total_seconds() != step:
            found.append((here - around_s, here + step + around_s))
        here += step
    years = range(first_year, last_year, 5)
    return found or [(ms(f"{year}-02-28") // 1000, ms(f"{year}-03-02") // 1000) for year in years]
