"""Calendars in Redis: the typed calls of calendars.lua, and what a namespace has (``core.triggers.spec``)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from zsched.core.entry import text
from zsched.core.triggers.spec import Calendars
from zsched.storage.connection import Channel
from zsched.storage.keys import Keys
from zsched.storage.scripts import Scripts, word_text

DELETED: Final = "-"


def read_calendars(channel: Channel, keys: Keys) -> Calendars:
    """Return the present calendars. One that another program broke is left out."""
    from zsched.core.options.forms import UNREADABLE  # few clients have calendars
    from zsched.core.triggers.calendar_definition import Calendar

    found = Calendars()
    for name, held in CalendarStore(channel, keys).held().items():
        stored = held.partition(" ")[2]
        with suppress(*UNREADABLE):
            if stored != DELETED:
                found[name] = Calendar.of_text(name, stored)
    return found


class CalendarStore:
    """The calendars of one namespace over one channel. *by*: who changes them, for the log."""

    def __init__(self, channel: Channel, keys: Keys, by: str = "") -> None:
        self._channel, self._keys, self._scripts = channel, keys, Scripts(channel, keys, by)

    def held(self) -> dict[str, str]:
        """Return by name the text in Redis: t of the last change in µs, a space, and the calendar, or - if deleted."""
        flat = self._channel.execute("HGETALL", self._keys.calendars())
        return dict(zip(map(text, flat[::2]), map(text, flat[1::2]), strict=True))

    def put(self, texts: Mapping[str, str]) -> dict[str, str]:
        """
        Put calendars by their canonical texts, or delete those that are ``DELETED``. Return by name: created, updated,
        deleted, unchanged or NOTFOUND.
        """
        return self._write({name: f"- {stored}" for name, stored in texts.items()}, is_restored=0)

    def restore(self, held: Mapping[str, str]) -> dict[str, str]:
        """Write back what an archive *held*, where Redis has nothing later. Return as ``put``."""
        return self._write(held, is_restored=1)

    def _write(self, texts: Mapping[str, str], is_restored: int) -> dict[str, str]:
        rows = [each for name, held in texts.items() for each in (name, *held.split(" ", 1))]
        _, *words = self._scripts.call("calendars", rows=rows, is_restored=is_restored)
        return dict(zip(texts, map(word_text, words), strict=True))
