"""
The log: its entries, and the content of each kind of entry.

``core.entry`` has an entry as Redis stores it. ``kinds`` has the questions to an entry, and the registry of the classes
that answer them, one class per kind. The classes are in one module per family: ``puts``, ``fires``, ``lives``. ``rows``
has their changes to the state. A new kind needs its script, and its class in a family.
"""

from zsched.core.log import fires, lives, puts  # noqa: F401  (each registers its kinds)
