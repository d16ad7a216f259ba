"""
The bare commands: what any dispatcher has to make Redis do, sent as pre-built bytes on one socket.

Per 1,000 jobs one ZRANGE, one ZREM, 1,000 HSET of two fields, one RPUSH and one XADD. No checks, no
fence, nothing reads the replies but to count them: not a scheduler, a yardstick.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

from bench.arena import Ground
from bench.load import QUEUE_KEY, RQ, Timed, run_ids
from zsched.core.clock import Clock

_PER_BATCH = 1000
_ENQUEUED_AT = "2026-11-21T08:00:00.123000Z"  # of the length that RQ writes
_END = b"+PONG\r\n"
_CHUNK = 1 << 18  # bytes per read


def dispatch_s(ground: Ground, timed: Sequence[Timed], clock: Clock) -> float:
    """Seconds to move *timed*, which were put by zsched's client, from their lane to their queue."""
    payload = _commands(ground, timed)
    address = urlsplit(ground.url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender = threading.Thread(target=connection.sendall, args=(payload,), daemon=True)
        started_ms = clock.monotonic_ms()
        sender.start()
        tail = b""
        while not tail.endswith(_END):
            read = connection.recv(_CHUNK)
            if not read:
                raise ConnectionError("the server closed the connection")
            tail = (tail + read)[-len(_END) :]
        took_ms = clock.monotonic_ms() - started_ms
        sender.join()
    return took_ms / 1000


def _commands(ground: Ground, timed: Sequence[Timed]) -> bytes:
    lane, log = ground.keys.due_normal(), ground.keys.log()
    parts: list[bytes] = []
    for start in range(0, len(timed), _PER_BATCH):
        batch = timed[start : start + _PER_BATCH]
        runs = run_ids(batch)
        parts.append(encode("ZRANGE", lane, "0", str(_PER_BATCH - 1)))
        parts.append(encode("ZREM", lane, *(id for id, _ in batch)))
        parts += [encode("HSET", RQ.job(run), "status", "queued", "enqueued_at", _ENQUEUED_AT) for run in runs]
        parts.append(encode("RPUSH", QUEUE_KEY, *runs))
        parts.append(encode("XADD", log, "*", "kind", "fire", "runs", " ".join(runs)))
    parts.append(encode("PING"))
    return b"".join(parts)


def encode(*texts: str) -> bytes:
    """One command in RESP; *texts* are ASCII."""
    return (f"*{len(texts)}\r\n" + "".join(f"${len(text)}\r\n{text}\r\n" for text in texts)).encode("ascii")
