"""What the tests of files share."""

from __future__ import annotations

from redis import Redis

from zsched.client import Client
from zsched.core.clock import ManualClock
from zsched.files import ClientChecks

CHECKS = ClientChecks(Client(Redis(), clock=ManualClock()))  # it is never connected
