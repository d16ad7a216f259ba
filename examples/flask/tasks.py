"""What workers run."""

import zsched


@zsched.task(queue="welcome", id="welcome-{user}")
def welcome(user: str) -> None:
    """Write to somebody who has signed up."""
    print(f"welcome, {user}")
