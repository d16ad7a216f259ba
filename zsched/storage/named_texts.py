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
from zsched.storage.scripts import Scripts

if TYPE_CHECKING:
    from zsched.core.known import Known

DELETED: Final = "-"
_ALL: Final = 1_000_000  # named texts


def read_calendars(channel: Channel, keys: Keys) -> Calendars:
    """Return the present calendars. One that another program broke is left out."""
    from zsched.core.options.forms import UNREADABLE  # few clients have calendars
    from zsched.core.triggers.calendar_definition import SORT, Calendar

    found = Calendars()
    for name, stored in NamedTextStore(channel, keys).present(SORT).items():
        with suppress(*UNREADABLE):
            found[name] = Calendar.of_text(name, stored)
    return found


def read_known(channel: Channel, keys: Keys, now_ms: int) -> list[Known]:
    """Return the known failures at *now_ms*, the first to end first. Those that others broke are left out."""
    from zsched.core.known import SORT, Known  # most clients need none

    found = [Known.parse(*each) for each in NamedTextStore(channel, keys).present(SORT).items()]
    return sorted((one for one in found if one and one.until_ms > now_ms), key=lambda one: (one.until_ms, one.name))


class NamedTextStore:
    """The named texts of one namespace over one channel. *by*: who changes them, for the log."""

    def __init__(self, channel: Channel, keys: Keys, by: str = "") -> None:
        self._channel, self._keys, self._scripts = channel, keys, Scripts(channel, keys, by)

    def held(self) -> dict[str, str]:
        """Return by name the text in Redis: t of the last change in µs, a space, and the text, or - if deleted."""
        flat = self._channel.execute("HGETALL", self._keys.named_texts())
        return dict(zip(map(text, flat[::2]), map(text, flat[1::2]), strict=True))

    def present(self, sort: str) -> dict[str, str]:
        """Return by name the present texts of a *sort*; a large text of another sort costs nothing."""
        _, flat = self._channel.execute("HSCAN", self._keys.named_texts(), 0, "MATCH", f"{sort}*", "COUNT", _ALL)
        names, texts = map(text, flat[::2]), (text(held).partition(" ")[2] for held in flat[1::2])
        return {name.removeprefix(sort): each for name, each in zip(names, texts, strict=True) if each != DELETED}

    def put(self, sort: str, texts: Mapping[str, str]) -> dict[str, str]:
        """
        Put texts of a *sort* by their names, or delete those that are ``DELETED``. Return by name: created, updated,
        deleted, unchanged or NOTFOUND.
        """
        words = self._write({sort + name: f"- {stored}" for name, stored in texts.items()}, is_restored=0)
        return dict(zip(texts, words, strict=True))

    def restore(self, held: Mapping[str, str]) -> None:
        """Write back what an archive *held*, where Redis has nothing later."""
        self._write(held, is_restored=1)

    def _write(self, texts: Mapping[str, str], is_restored: int) -> list[str]:
        rows = [each for name, held in texts.items() for each in (name, *held.split(" ", 1))]
        _, *words = self._scripts.call("named_texts", rows=rows, is_restored=is_restored)
        return list(map(text, words))
