"""
The outside of the product's code: its database, and the providers that deliver its messages.

Here they are variables, which tests read and begin with empty: service and workers share one process in the tests.
"""

from datetime import datetime
from typing import Literal

Channel = Literal["push", "email", "sms"]

EVENTS: dict[str, datetime] = {}  # by event, when it starts
SUBSCRIBERS: set[str] = set()
DELIVERED: list[tuple[Channel, str]] = []


def deliver(channel: Channel, text: str) -> None:
    """Hand a message to the provider of *channel*."""
    DELIVERED.append((channel, text))
