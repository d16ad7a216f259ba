"""
A brake on wrong logins: each of an address doubles the wait for its next. Other addresses continue at once.

An attempt counts when it begins; a right one is forgiven. IPv6 addresses count by network: a client may have 2^64 of
them. Wrong tokens of programs have no brake: nobody guesses 256 random bits.
"""

from __future__ import annotations

import math
from ipaddress import IPv6Address, ip_network
from typing import Final

from zsched.core.clock import Clock
from zsched.web.problems import Problem
from zsched.web.proxy import address_in

_FREE: Final = 9.5  # attempts of an address without a wait, as parts of attempts are forgotten
_FORGOTTEN_S: Final = 300  # in which one attempt is forgotten; so no wait is longer
_REMEMBERED: Final = 10_000  # addresses, of some 300 bytes


class Brake:
    """The attempts that this process has seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, tuple[float, float]] = {}  # attempts, and the time of the last in seconds

    def begin(self, address: str) -> int:
        """Count an attempt, and return the seconds to wait after it if it is wrong. Raises Problem: it is too early."""
        now_s, place = self._clock.monotonic_ms() / 1000, _place(address)
        if (left_s := self._until_s(place) - now_s) > 0:
            wait = str(math.ceil(left_s))
            detail = f"too many wrong tokens from {address}"
            raise Problem(429, "too-many-attempts", detail, f"try again in {wait} s", {"Retry-After": wait})
        if len(self._counts) >= _REMEMBERED:
            self._counts.clear()
        number, at_s = self._counts.get(place, (0.0, now_s))
        self._counts[place] = max(number - (now_s - at_s) / _FORGOTTEN_S, 0) + 1, now_s
        return math.ceil(max(self._until_s(place) - now_s, 0))

    def forgive(self, address: str) -> None:
        """Take back an attempt that was right."""
        number, at_s = self._counts.get(_place(address), (1.0, 0.0))
        self._counts[_place(address)] = number - 1, at_s

    def _until_s(self, place: str) -> float:
        """Return the end of the wait that the attempts from *place* have caused."""
        number, at_s = self._counts.get(place, (0.0, 0.0))
        return at_s if number < _FREE else at_s + 2 ** (number - _FREE)


def _place(address: str) -> str:
    """Return the address, or the network, by which *address* counts."""
    found = address_in(address)
    return str(ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found or address)
