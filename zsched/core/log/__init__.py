"""
The log: its entries, and the content of each kind of entry.

``core.entry`` has an entry as Redis stores it. ``kinds`` has the questions to an entry, and the registry of the classes
that answer them, one class per kind. The classes are in one module per family: ``puts``, ``fires``, ``lives``,
``recovery``. ``rows`` has their changes to the state. A new kind needs its script, and its class in a family.
"""

from zsched.core.entry import (
    FORMAT as FORMAT,
    Entry as Entry,
    Position as Position,
    Texts as Texts,
    UnknownEntry as UnknownEntry,
    UnreadableEntry as UnreadableEntry,
    is_known as is_known,
    readable as readable,
    reading as reading,
    text as text,
)
from zsched.core.log import fires, lives, puts, recovery  # noqa: F401  (each registers its kinds)
from zsched.core.log.kinds import (
    changes as changes,
    is_leaders as is_leaders,
    kinds_telling as kinds_telling,
    kinds_telling_only as kinds_telling_only,
    leaders_kinds as leaders_kinds,
    logged_put as logged_put,
    narrowed as narrowed,
    parse as parse,
    touches as touches,
)
from zsched.core.record import Key as Key
