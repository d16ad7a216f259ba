"""
The asynchronous client. Its logic is that of ``zsched.client``; only the waits differ.

::

    await client.schedule(…) ──► bridge.run ──► Client.schedule, unchanged, in a greenlet
                                     ▲                  │ sends a command, reads a reply, pauses
              the event loop waits ──┘ ◄── bridge.wait ─┘

``bridge`` runs a function in a greenlet, in which ``wait`` gives an awaitable to the event loop. ``link`` is a link
whose connections, pauses and long calculations wait that way. ``adopted`` takes the settings of an asyncio client of
redis-py. ``client`` has the methods.
"""

from zsched.aio.client import AsyncClient

__all__ = ["AsyncClient"]
