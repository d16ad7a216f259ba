"""
Causes of quarantines: whether the cause that a reason names is over.

The scripts name a key of a wrong type with that type: ``wrong type at rq:rl:smtp (string)``. Once it has another type,
or is gone, the schedule is tried again. Other causes are in the schedule itself: ``core.recovery.audit`` compares its
content.
"""

from __future__ import annotations

import re
from typing import Final

from zsched.core.entry import text
from zsched.storage.connection import Wire

_WRONG_TYPE: Final = re.compile(r"wrong type at (\S+) \((\w+)\)$")


class Causes:
    """The causes at one moment, over *wire*; each is looked at once."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._types: dict[str, str] = {}

    def is_over(self, reason: str | None) -> bool:
        """Return True if the cause that *reason* names is over; False if it lasts, or names none that can end."""
        found = _WRONG_TYPE.search(reason or "")
        if found is None:
            return False
        key, before = found.groups()
        if key not in self._types:
            self._types[key] = text(self._wire.execute("TYPE", key))
        return self._types[key] != before
