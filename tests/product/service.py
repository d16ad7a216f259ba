"""
The calls of the product's web service. Its schedules have ids made from their subjects, so an edit replaces.

A call that failed in the middle is repeated. Until then a message may be missing, but none is wrong: tasks look into
the database.
"""

from datetime import datetime, timedelta
from typing import Final

from tests.product import outside, tasks
from tests.product.outside import Channel
from zsched import Client

SECOND_THOUGHTS: Final = timedelta(minutes=10)  # from signing up to the first mail


def save_event(client: Client, event_id: str, begins_at: datetime, channel: Channel = "push") -> None:
    """Save a new or edited event; its reminder comes by *channel*, from that channel's queue."""
    outside.EVENTS[event_id] = begins_at
    tasks.remind.schedule(
        client, at=begins_at - tasks.LEAD, queue=channel, event_id=event_id, begins_at=begins_at, channel=channel
    )


def delete_event(client: Client, event_id: str) -> None:
    outside.EVENTS.pop(event_id, None)
    client.cancel(tasks.remind.id_of(event_id=event_id))


def sign_up(client: Client, customer: str) -> None:
    """Subscribe a customer, whose campaign begins; for a subscriber nothing changes."""
    if customer not in outside.SUBSCRIBERS:
        tasks.campaign.schedule(client, after=SECOND_THOUGHTS, customer=customer)
        outside.SUBSCRIBERS.add(customer)


def unsubscribe(client: Client, customer: str) -> None:
    outside.SUBSCRIBERS.discard(customer)
    client.cancel(tasks.campaign.id_of(customer=customer))
