"""Tasks of the demo's workers: a product's messages, each a few milliseconds of work."""

import time

_WORK_S = 0.003  # what a call to a provider might take


def heartbeat() -> str:
    """Tell a monitor that work gets done."""
    time.sleep(_WORK_S)
    return "alive"


def send(to: str, text: str) -> str:
    """Send a notification, a text message or a mail."""
    time.sleep(_WORK_S)
    return f"to {to}: {text}"


def resend_texts(region: str) -> str:
    """Try text messages again that were not delivered."""
    time.sleep(_WORK_S)
    return f"{region}: nothing left to send again"
