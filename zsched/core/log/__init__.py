"""
The log: its entries, and what each kind of them says.

``core.entry`` has an entry as it stands in Redis. ``kinds`` has what may be asked of one, and the registry of the
classes that answer, a class for each kind. They stand in a module for each family: ``puts``, ``fires``, ``lives``,
``recovery``. ``rows`` has what they change. To add a kind: its script, and its class in a family.
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
    narrowed,
    outcomes,
    parse,
    touches,
)
from zsched.core.log.rows import Key, Touch

__all__ = [
    "FORMAT",
    "Entry",
    "Key",
    "Position",
    "Texts",
    "Touch",
    "UnknownEntry",
    "UnreadableEntry",
    "any_milliseconds",
    "changes",
    "is_known",
    "is_leaders",
    "kinds_telling",
    "kinds_telling_only",
    "leaders_kinds",
    "milliseconds",
    "narrowed",
    "outcomes",
    "parse",
    "readable",
    "reading",
    "text",
    "touches",
]
