"""
A private redis-server, for ``zsched up``, the benchmark and the tests, that cannot outlive its owner.

``server`` finds a binary and runs it, ``guard`` ends children with their owner.
"""

from zsched.embedded.guard import Guard
from zsched.embedded.server import EmbeddedRedis, ServerBinary, find_server, packaged_server

__all__ = ["EmbeddedRedis", "Guard", "ServerBinary", "find_server", "packaged_server"]
