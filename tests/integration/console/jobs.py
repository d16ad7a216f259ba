"""Jobs of the console's tests."""

from __future__ import annotations

import signal


def fail() -> None:
    raise ValueError("no mailbox")


def stumble(number: int) -> None:
    raise ValueError(f"no mailbox {number}")


def succeed() -> str:
    return "sent"


def hang() -> None:
    signal.pause()
