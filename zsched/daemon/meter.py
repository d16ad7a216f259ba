"""
The measurements that a daemon tells; ``zsched.metrics`` takes them.

A meter is called in the middle of firing: it notes and returns, reads no clock, asks nobody, raises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zsched.core.log import Entry


class Meter(Protocol):
    """Notes what happens. Each method is called by one thread; ``archived`` by another one than all the others."""

    def began(self, epoch: int) -> None:
        """This daemon leads: what the log has in *epoch* is its own."""

    def renewed(self, took_ms: float) -> None:
        """The lease was renewed; the round trip took *took_ms*."""

    def ran(self, script: str, took_ms: float, fired: int) -> None:
        """A *script* of the firing loop took *took_ms*, its round trip included, and pushed *fired* runs."""

    def jumped(self, by_ms: float) -> None:
        """The Redis server's clock jumped."""

    def archived(self, entries: Sequence[Entry]) -> None:
        """The archive has taken in these entries of the log, of whatever daemon; after a loss some a second time."""


class NoMeter:
    """Nobody measures."""

    def began(self, epoch: int) -> None:
        """Nothing."""

    def renewed(self, took_ms: float) -> None:
        """Nothing."""

    def ran(self, script: str, took_ms: float, fired: int) -> None:
        """Nothing."""

    def jumped(self, by_ms: float) -> None:
        """Nothing."""

    def archived(self, entries: Sequence[Entry]) -> None:
        """Nothing."""
