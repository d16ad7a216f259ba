"""What the tests of files share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis import Redis

from zsched.client import Client
from zsched.client.keeper import Keeper
from zsched.core.clock import ManualClock
from zsched.core.model import Definition

_KEEPER = Keeper(Client(Redis(), clock=ManualClock()))  # it is never connected


def check(func: str | None, options: Mapping[str, Any]) -> Definition:
    """What an entry defines, without Redis."""
    return _KEEPER.define(func or "module.function", options)
