"""
The measurements of a daemon: here none, and ``zsched.metrics`` overrides what it measures.

A meter is called in the middle of firing: it notes a value and returns. It reads no clock, does no IO and raises
nothing.
"""

from collections.abc import Sequence
from typing import Any

from zsched.core.entry import Entry


class Meter:
    """
    Takes note of events. This class ignores them, and a subclass measures. Each method is called by one thread:
    ``archived`` and ``counts`` by the archiver's, the others by the main thread.
    """

    def began(self, epoch: int) -> None:
        """Note that this daemon leads: the log's entries of *epoch* are its own."""

    def renewed(self, took_ms: float) -> None:
        """Note that the lease was renewed; the round trip took *took_ms*."""

    def ran(self, script: str, took_ms: float, fired: int) -> None:
        """Note that a *script* of the firing loop took *took_ms*, its round trip included, and pushed *fired* runs."""

    def jumped(self, by_ms: float) -> None:
        """Note that the Redis server's clock jumped."""

    def archived(self, entries: Sequence[Entry]) -> None:
        """Note that the archive has appended these log entries, of any daemon; after a loss, some a second time."""

    def counts(self) -> Any:
        """Return the counts of ``archived``, for ``counted`` in another process. None: the counts are not used."""

    def counted(self, counts: Any) -> None:
        """Add the *counts* of another process."""
