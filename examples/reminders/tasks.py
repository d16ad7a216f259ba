"""What workers run."""

import zsched


@zsched.task(queue="reminders", id="remind-{event}", expires_after="1h")
def remind(event: str, minutes: int = 60) -> None:
    """Tell somebody that an event begins. After an hour in the queue it is too late for that."""
    print(f"{event} begins in {minutes} minutes")
