"""
Reminders of events, on the command line:

    python reminders.py set concert 2026-12-24T19:00 Europe/Vienna     # again, with another time: it moves
    python reminders.py cancel concert
    python reminders.py why concert
"""

import argparse
import os
from datetime import datetime, timedelta

from tasks import remind

from zsched import Client, InvalidSchedule, ZschedError

client = Client.from_url(os.environ.get("ZSCHED_REDIS_URL", "redis://localhost:6379/0"))


def set_reminder(event: str, at: datetime, tz: str) -> str:
    """Schedule the reminder of an event."""
    made = remind.schedule(client, event=event, at=at, tz=tz)
    return f"{made.id}: {made.outcome}, at {made.next_at:%F %T %Z}"


def cancel(event: str) -> str:
    """Cancel the reminder of an event."""
    return f"{remind.id_of(event=event)}: {client.cancel(remind.id_of(event=event))}"


def why(event: str) -> str:
    """Tell the story of the reminder of an event."""
    story = client.why(remind.id_of(event=event))
    return "\n".join([story.verdict.text, *(text for _, text in story.lines)])


def an_hour_before(text: str) -> datetime:
    """Return the time of the reminder of an event that begins at *text*."""
    try:
        return datetime.fromisoformat(text) - timedelta(hours=1)
    except (ValueError, OverflowError):
        message = f"{text!r} is not a time; give one such as 2026-12-24T19:00"
        raise argparse.ArgumentTypeError(message) from None


def main() -> None:
    """Run the command that the arguments name."""
    usage = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = usage.add_subparsers(required=True, metavar="COMMAND")
    for name, function in {"set": set_reminder, "cancel": cancel, "why": why}.items():
        command = commands.add_parser(name, help=function.__doc__)
        command.set_defaults(function=function)
        command.add_argument("event")
        if function is set_reminder:
            command.add_argument("at", metavar="begins_at", type=an_hour_before)
            command.add_argument("tz", nargs="?", default="UTC")
    given = vars(usage.parse_args())
    try:
        print(given.pop("function")(**given))
    except InvalidSchedule as error:
        usage.error(str(error))
    except ZschedError as error:
        usage.exit(1, f"reminders: {error}\n")


if __name__ == "__main__":
    main()
