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

_FREE: Final = (10, 100)  # attempts without a wait: of an address, and on an account
_LONGEST_S: Final = 300
_KEPT_MS: Final = 3_600_000.0  # without an attempt; then the count begins again
_REMEMBERED: Final = 10_000  # counts, of some 300 bytes

_Name = tuple[str, str]  # an address, or an account; the other one is ""


class Brake:
    """The attempts that this process has seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[_Name, tuple[int, float]] = {}  # attempts, and the end of the wait

    def begin(self, address: str, account: str) -> int:
        """Count an attempt, and return the seconds to wait after it if it is wrong. Raises Problem: it is too early."""
        now_ms, longest_s, names = self._clock.monotonic_ms(), 0, _names(address, account)
        counts = [self._counts.get(name, (0, now_ms)) for name in names]
        if (left_s := math.ceil((max(until_ms for _, until_ms in counts) - now_ms) / 1000)) > 0:
            detail, remedy = f"too many wrong attempts from {address}", f"try again in {left_s} s"
            raise Problem(429, "too-many-attempts", detail, remedy, {"Retry-After": str(left_s)})
        for name, (number, until_ms), free in zip(names, counts, _FREE, strict=True):
            number = number + 1 if now_ms - until_ms < _KEPT_MS else 1
            wait_s = 0 if number < free else min(2 ** (number - free), _LONGEST_S)
            longest_s = max(longest_s, wait_s)
            if len(self._counts) >= _REMEMBERED:
                self._counts.clear()
            self._counts[name] = number, now_ms + wait_s * 1000
        return longest_s

    def forgive(self, address: str, account: str) -> None:
        """Take back an attempt that was right, and forget the wrong ones on its account."""
        of_address, of_account = _names(address, account)
        self._counts.pop(of_account, None)
        number, _ = self._counts.get(of_address, (1, 0.0))
        self._counts[of_address] = number - 1, self._clock.monotonic_ms()


def _names(address: str, account: str) -> list[_Name]:
    found = address_in(address)
    place = str(ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else address
    return [(place, ""), ("", account[:LONGEST_NAME])]
