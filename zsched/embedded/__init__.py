"""
A private redis-server, for ``zsched up``, the benchmark and the tests, that cannot outlive its owner.

``server`` runs one, ``binary`` finds one, ``guard`` ends children with their owner.
"""

from zsched.embedded.binary import ServerBinary, find_server, packaged_server
from zsched.embedded.guard import Guard
from zsched.embedded.server import EmbeddedRedis

__all__ = ["EmbeddedRedis", "Guard", "ServerBinary", "find_server", "packaged_server"]
