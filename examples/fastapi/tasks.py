"""What workers run."""

import zsched


@zsched.task(queue="email", id="reminder-{event}", expires_after="1h")
def remind(event: str, to: str) -> None:
    """Tell a guest that an event begins."""
    print(f"to {to}: {event} begins soon")
