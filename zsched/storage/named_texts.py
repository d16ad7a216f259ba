"""
Texts that a namespace has by a name, calendars and known failures: the typed calls of named_texts.lua, and readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from zsched.core.entry import text
from zsched.core.triggers.spec import Calendars
from zsched.storage.connection import Channel
from zsched.storage.keys import Keys
from zsched.storage.scripts import Scripts, word_text

if TYPE_CHECKING:
    from zsched.core.known import Known

DELETED: Final = "-"


def read_calendars(channel: Channel, keys: Keys) -> Calendars:
    """Return the present calendars. One that another program broke is left out."""
    from zsched.core.options.forms import UNREADABLE  # few clients have calendars
    from zsched.core.triggers.calendar_definition import SORT, Calendar

    found = Calendars()
    for name, held in NamedTextStore(channel, keys).of_sort(SORT).items():
        stored = held.partition(" ")[2]
        with suppress(*UNREADABLE):
            if stored != DELETED:
                found[name] = Calendar.of_text(name, stored)
    return found


def read_known(channel: Channel, keys: Keys, now_ms: int) -> list[Known]:
    """Return the known failures at *now_ms*, the first to end first. Those that others broke are left out."""
    from zsched.core.known import SORT, Known  # most clients need none

    held = NamedTextStore(channel, keys).of_sort(SORT)
    found = (one for name, each in held.items() if (one := Known.parse(name, each)) and one.until_ms > now_ms)
    return sorted(found, key=lambda one: (one.until_ms, one.name))


class NamedTextStore:
    """The named texts of one namespace over one channel. *by*: who changes them, for the log."""

    def __init__(self, channel: Channel, keys: Keys, by: str = "") -> None:
        self._channel, self._keys, self._scripts = channel, keys, Scripts(channel, keys, by)

    def held(self) -> dict[str, str]:
        """Return by name the text in Redis: t of the last change in µs, a space, and the text, or - if deleted."""
        flat = self._channel.execute("HGETALL", self._keys.named_texts())
        return dict(zip(map(text, flat[::2]), map(text, flat[1::2]), strict=True))

    def of_sort(self, sort: str) -> dict[str, str]:
        """Return ``held`` of one *sort*, without it in the names."""
        return {name.removeprefix(sort): held for name, held in self.held().items() if name.startswith(sort)}

    def put(self, texts: Mapping[str, str]) -> dict[str, str]:
        """
        Put texts by their names, each with its sort, or delete those that are ``DELETED``. Return by name: created,
        updated, deleted, unchanged or NOTFOUND.
        """
        return self._write({name: f"- {stored}" for name, stored in texts.items()}, is_restored=0)

    def put_known(self, one: Known, now_ms: int) -> str:
        """Put a known failure, and forget those that have expired. Return as ``put``."""
        from zsched.core.known import unexpired

        held = self.held()
        if expired := held.keys() - unexpired(held, now_ms).keys():
            self._channel.execute("HDEL", self._keys.named_texts(), *expired)
        return self.put({one.key: one.text})[one.key]

    def take_back(self, one: Known) -> None:
        """Take a known failure back."""
        self.put({one.key: f"{one.until_ms} {DELETED}"})

    def restore(self, held: Mapping[str, str]) -> dict[str, str]:
        """Write back what an archive *held*, where Redis has nothing later. Return as ``put``."""
        return self._write(held, is_restored=1)

    def _write(self, texts: Mapping[str, str], is_restored: int) -> dict[str, str]:
        rows = [each for name, held in texts.items() for each in (name, *held.split(" ", 1))]
        _, *words = self._scripts.call("named_texts", rows=rows, is_restored=is_restored)
        return dict(zip(texts, map(word_text, words), strict=True))
