"""Jobs of the console's tests."""

from __future__ import annotations

import signal


def fail() -> None:
    raise ValueError("no mailbox")


def succeed() -> str:
    return "sent"


def hang() -> None:
    signal.pause()
