"""The schedules of the demo: what a product with push, text messages and mail would have."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from zsched.client import Client
from zsched.core.clock import from_ms
from zsched.core.option_table import ScheduleRow
from zsched.core.triggers import zone

QUEUES: Final = ("push", "sms", "email")  # in the order in which the workers serve them
BURST: Final = 1000
CAMPAIGN: Final = "campaign-"  # what the ids of the burst begin with
_SEOUL: Final = "Asia/Seoul"
TASKS: Final = "zsched.demo.tasks"


def put_all(client: Client, start_ms: int) -> None:
    """Schedule everything; nothing is due before *start_ms*, the burst is three seconds later."""
    for row in _singles(start_ms):
        client.schedule(**row)
    at = from_ms(start_ms + 3000)
    many = client.schedule_many(
        {
            "func": f"{TASKS}.email",
            "id": f"{CAMPAIGN}{n:04}",
            "at": at,
            "args": (f"user{n:04}@example.com", "Two for one this week"),
            "queue": "email",
            "priority": "low",
            "created_by": "demo",
        }
        for n in range(1, BURST + 1)
    )
    for _, error in many.errors:
        raise error


def _singles(start_ms: int) -> list[ScheduleRow]:
    start = from_ms(start_ms)
    in_seoul = from_ms(start_ms + 1500).astimezone(zone(_SEOUL)).replace(tzinfo=None)
    return [
        {
            "func": f"{TASKS}.heartbeat",
            "id": "heartbeat",
            "every": timedelta(seconds=2),
            "starts": start,
            "queue": "push",
            "priority": "high",
        },
        {
            "func": f"{TASKS}.push",
            "id": "reminder-seoul",
            "at": in_seoul,
            "tz": _SEOUL,
            "args": ("Ji-woo", "your class begins"),
            "queue": "push",
        },
        {
            "func": f"{TASKS}.text_message",
            "id": "login-code",
            "at": from_ms(start_ms + 1000),
            "args": ("+1 555 0100", "your code expires soon"),
            "queue": "sms",
        },
        {
            "func": f"{TASKS}.resend_texts",
            "id": "resend-texts",
            "cron": "*/5 * * * * *",  # six fields: seconds first
            "starts": start,
            "args": ("Europe",),
            "queue": "sms",
        },
        {
            "func": f"{TASKS}.email",
            "id": "digest-new-york",
            "cron": "0 9 * * 1-5",
            "tz": "America/New_York",
            "args": ("editors@example.com", "Your digest"),
            "queue": "email",
        },
        {
            "func": f"{TASKS}.email",
            "id": "report-weekly",
            "rrule": "FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=30",
            "tz": "Europe/London",
            "args": ("board@example.com", "The week in figures"),
            "queue": "email",
        },
    ]
