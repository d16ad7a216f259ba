"""Tasks of the demo's workers: a product's messages, each a few milliseconds of work."""

from __future__ import annotations

import time

_WORK_S = 0.003  # what a call to a provider might take


def heartbeat() -> str:
    """Tell a monitor that work gets done."""
    time.sleep(_WORK_S)
    return "alive"


def push(user: str, text: str) -> str:
    """A notification on a telephone."""
    time.sleep(_WORK_S)
    return f"to {user}'s phone: {text}"


def resend_texts(region: str) -> str:
    """Try text messages again that were not delivered."""
    time.sleep(_WORK_S)
    return f"{region}: nothing left to send again"


def text_message(number: str, text: str) -> str:
    """A text message."""
    time.sleep(_WORK_S)
    return f"to {number}: {text}"


def email(user: str, subject: str) -> str:
    """One mail."""
    time.sleep(_WORK_S)
    return f"to {user}: {subject}"
