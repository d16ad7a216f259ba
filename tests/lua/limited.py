"""A queue with a limit, by a clock that stands still: its puts and its runs."""

from __future__ import annotations

from typing import Any

from tests.lua.ground import FIELDS, Ground

EMAIL = FIELDS | {"origin": "email"}


def put_due(ground: Ground, *ids: str, lane: str = "normal", age_ms: int = 1000, **fields: str) -> None:
    """Put one-shots of queue email (or as in *fields*) that are due now, a millisecond apart."""
    rows = [(id, ground.now_ms - age_ms + n) for n, id in enumerate(ids)]
    ground.put(*rows, lane=lane, allow_past=1, fields=EMAIL | fields)


def put_many(ground: Ground, prefix: str, count: int, **options: Any) -> list[str]:
    ids = [f"{prefix}{n:04}" for n in range(count)]
    for first in range(0, count, 200):
        put_due(ground, *ids[first : first + 200], **options)
    return ids


def ids(runs: list[str]) -> list[str]:
    return [run.rpartition("-")[0] for run in runs]
