"""Jobs of the console's tests."""

import signal


def fail() -> None:
    raise ValueError("no mailbox")


def stumble(number: int) -> None:
    raise ValueError(f"no mailbox {number}")


def succeed() -> str:
    return "sent"


def hang() -> None:
    signal.pause()
