"""
The bare commands: what any dispatcher has to make Redis do, sent as pre-built bytes on one socket.

Per 1,000 jobs one ZRANGE, one ZREM, 1,000 HSET of two fields, one RPUSH and one XADD. No checks, no
fence, nothing reads the replies but to count them: not a scheduler, a yardstick.
"""

import socket
import threading
from collections.abc import Sequence
from itertools import chain
from urllib.parse import urlsplit

from bench.arena import Ground
from bench.load import QUEUE_KEY, RQ, Timed, run_ids
from zsched.core.clock import Clock
from zsched.core.pages import pages_of

_PER_BATCH = 1000
_ENQUEUED_AT = "2026-11-21T08:00:00.123000Z"  # of the length that RQ writes
_END = b"+PONG\r\n"
_CHUNK = 1 << 18  # bytes per read


def dispatch_s(ground: Ground, timed: Sequence[Timed], clock: Clock) -> float:
    """Seconds to move *timed*, which were put by zsched's client, from their lane to their queue."""
    return _sent_s(ground, _commands(ground, timed), clock)


def rebuild_s(ground: Ground, clock: Clock) -> float:
    """Seconds to write all hashes and ZSETs of the server again after FLUSHALL: HSET each, ZADD by the thousand."""
    parts: list[bytes] = []
    with ground.redis.pipeline(transaction=False) as pipeline:
        for keys in pages_of(ground.redis.scan_iter(count=_PER_BATCH, _type="hash"), _PER_BATCH):
            for key in keys:
                pipeline.hgetall(key)
            for key, fields in zip(keys, pipeline.execute(), strict=True):
                parts.append(_encoded(b"HSET", key, *chain.from_iterable(fields.items())))
    for key in ground.redis.scan_iter(count=_PER_BATCH, _type="zset"):
        for members in pages_of(ground.redis.zrange(key, 0, -1, withscores=True), _PER_BATCH):
            pairs = ((b"%d" % score, id) for id, score in members)
            parts.append(_encoded(b"ZADD", key, *chain.from_iterable(pairs)))
    ground.redis.flushall()
    return _sent_s(ground, b"".join([*parts, encode("PING")]), clock)


def _sent_s(ground: Ground, payload: bytes, clock: Clock) -> float:
    """Seconds until the server has done *payload*, which ends with a PING."""
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
    return _encoded(*(text.encode("ascii") for text in texts))


def _encoded(*texts: bytes) -> bytes:
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in texts)
