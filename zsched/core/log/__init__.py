"""
The log: its entries, and the content of each kind of entry.

``core.entry`` has an entry as Redis stores it. ``kinds`` has the questions to an entry, and the registry of the classes
that answer them, one class per kind. The classes are in one module per family: ``puts``, ``fires``, ``lives``,
``recovery``. ``rows`` has their changes to the state. A new kind needs its script, and its class in a family.
"""

from zsched.core.entry import (
    FORMAT,
    Entry,
    Position,
    Texts,
    UnknownEntry,
    UnreadableEntry,
    any_milliseconds,
    is_known,
    milliseconds,
    readable,
    reading,
    text,
)
from zsched.core.log import fires, lives, puts, recovery  # noqa: F401  (each registers its kinds)
from zsched.core.log.kinds import (
    changes,
    is_leaders,
    kinds_telling,
    kinds_telling_only,
    leaders_kinds,
    logged_put,
    narrowed,
    outcomes,
    parse,
    touches,
)
from zsched.core.record import Key

__all__ = [
    "FORMAT",
    "Entry",
    "Key",
    "Position",
    "Texts",
    "UnknownEntry",
    "UnreadableEntry",
    "any_milliseconds",
    "changes",
    "is_known",
    "is_leaders",
    "kinds_telling",
    "kinds_telling_only",
    "leaders_kinds",
    "logged_put",
    "milliseconds",
    "narrowed",
    "outcomes",
    "parse",
    "readable",
    "reading",
    "text",
    "touches",
]
