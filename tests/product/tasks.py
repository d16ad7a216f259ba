"""
The tasks of the product's workers: a reminder before an event, the mails of a campaign, a digest.

A run may wait in its queue while its subject changes, and may no longer be wanted. So a task gets the facts for which
it was scheduled, and looks into the database before it sends.
"""

from datetime import datetime, timedelta
from typing import Final, Literal

import zsched
from tests.product import outside
from tests.product.outside import Channel

Mail = Literal["welcome", "tips", "offer"]

LEAD: Final = timedelta(hours=1)
FOLLOWS: Final[dict[Mail, tuple[timedelta, Mail]]] = {
    "welcome": (timedelta(days=2), "tips"),
    "tips": (timedelta(days=5), "offer"),
}


@zsched.task(id="reminder-{event_id}", priority="high", allow_past=True, expires_after=LEAD)
def remind(event_id: str, begins_at: datetime, channel: Channel) -> None:
    """Remind subscribers that an event begins soon. An overdue reminder is sent at once, until the event has begun."""
    if outside.EVENTS.get(event_id) == begins_at:
        outside.deliver(channel, f"{event_id} begins soon")


@zsched.task(queue="email", id="campaign-{customer}", retry={"max": 2, "interval": [60, 3600]})
def campaign(customer: str, mail: Mail = "welcome") -> zsched.Next | None:
    """Send one mail to a subscriber; the next one follows days after it was sent."""
    if customer not in outside.SUBSCRIBERS:
        return None
    outside.deliver("email", f"{mail}, {customer}")
    if mail not in FOLLOWS:
        return None
    pause, following = FOLLOWS[mail]
    return zsched.Next(after=pause, mail=following)


@zsched.task(queue="email")
def digest(edition: Literal["daily", "weekly"]) -> None:
    """Send the news to every subscriber. It is not retried: subscribers who have it would get it twice."""
    for customer in sorted(outside.SUBSCRIBERS):
        outside.deliver("email", f"{edition} digest, {customer}")
    if run := zsched.current_run():
        run.note(sent=len(outside.SUBSCRIBERS))
