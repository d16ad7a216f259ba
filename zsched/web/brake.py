"""
A brake on wrong passwords: each of them doubles the wait for the next.

Attempts count by address and by account. An account bears more of them than an address can make in an hour, so an
account that is attacked from one address can be used from others. An attempt counts when it begins, so attempts at the
same time count, too; a right one is forgiven. IPv6 addresses count by network: a client may have 2^64 of them.

Wrong tokens have no brake: nobody guesses 256 random bits, and to know a right one it has to be looked up anyhow.
"""

from __future__ import annotations

import math
from ipaddress import IPv6Address, ip_network
from typing import Final

from zsched.core.clock import Clock
from zsched.core.wording import LONGEST_NAME
from zsched.web.problems import Problem
from zsched.web.proxy import address_in

_FREE: Final = 9.5  # attempts of an address without a wait, as parts of attempts are forgotten
_FREE_OF_ACCOUNT: Final = 99.5  # from all addresses
_FORGOTTEN_S: Final = 300  # in which one attempt is forgotten; so no wait is longer
_REMEMBERED: Final = 10_000  # counts, of some 300 bytes


class Brake:
    """The attempts that this process has seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[tuple[str, float], tuple[float, float]] = {}  # attempts, and the time of the last in seconds

    def begin(self, address: str, account: str) -> int:
        """Count an attempt, and return the seconds to wait after it if it is wrong. Raises Problem: it is too early."""
        now_s, names = self._clock.monotonic_ms() / 1000, _names(address, account)
        if (left_s := max(map(self._until_s, names)) - now_s) > 0:
            detail, wait = f"too many wrong passwords from {address}, or on this account", str(math.ceil(left_s))
            raise Problem(429, "too-many-attempts", detail, f"try again in {wait} s", {"Retry-After": wait})
        if len(self._counts) >= _REMEMBERED:
            self._counts.clear()
        for name in names:
            number, at_s = self._counts.get(name, (0.0, now_s))
            self._counts[name] = max(number - (now_s - at_s) / _FORGOTTEN_S, 0) + 1, now_s
        return math.ceil(max(map(self._until_s, names)) - now_s)

    def forgive(self, address: str, account: str) -> None:
        """Take back an attempt that was right, and forget the wrong ones on its account."""
        of_address, of_account = _names(address, account)
        self._counts.pop(of_account, None)
        number, at_s = self._counts.get(of_address, (1.0, 0.0))
        self._counts[of_address] = number - 1, at_s

    def _until_s(self, name: tuple[str, float]) -> float:
        """Return the end of the wait that the attempts under *name* have caused."""
        number, at_s = self._counts.get(name, (0.0, 0.0))
        return at_s if number < name[1] else at_s + 2 ** (number - name[1])


def _names(address: str, account: str) -> list[tuple[str, float]]:
    """Return the names of the counts of *address* and *account*, each with its free attempts."""
    found = address_in(address)
    place = str(ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found or address)
    return [(place, _FREE), (account[:LONGEST_NAME], _FREE_OF_ACCOUNT)]
