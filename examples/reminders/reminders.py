"""
Reminders of events, on the command line:

    python reminders.py set concert 2026-12-24T19:00 Europe/Vienna     # again, with another time: it moves
    python reminders.py cancel concert
    python reminders.py why concert
"""

import os
import sys
from datetime import datetime, timedelta

from tasks import remind

from zsched import Client, ZschedError

client = Client.from_url(os.environ.get("ZSCHED_REDIS_URL", "redis://localhost:6379/0"))


def set_reminder(event: str, begins_at: str, tz: str = "UTC") -> str:
    """Schedule the reminder of an event, an hour before it begins."""
    at = datetime.fromisoformat(begins_at) - timedelta(minutes=60)
    made = remind.schedule(client, event=event, at=at, tz=tz)
    return f"{made.id}: {made.outcome}, at {made.next_at:%F %T %Z}"


def cancel(event: str) -> str:
    """Cancel the reminder of an event."""
    return f"{remind.id_of(event=event)}: {client.cancel(remind.id_of(event=event))}"


def why(event: str) -> str:
    """Tell the story of the reminder of an event."""
    story = client.why(remind.id_of(event=event))
    return "\n".join([story.verdict.text, *(text for _, text in story.lines)])


if __name__ == "__main__":
    commands = {"set": set_reminder, "cancel": cancel, "why": why}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    try:
        print(commands[sys.argv[1]](*sys.argv[2:]))
    except ZschedError as error:
        sys.exit(f"reminders: {error}")
