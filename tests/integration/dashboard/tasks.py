"""Tasks of the dashboard's tests."""

from fractions import Fraction

MARKUP = "<img src=x onerror=\"document.title='broken in'\">"


def remind(user: str) -> dict[str, str]:
    """Remind *user*, like a product's task, and return a result."""
    return {"user": user, "text": MARKUP}


def third() -> Fraction:
    """Return a result of a class that the dashboard does not import."""
    return Fraction(1, 3)


def pairs() -> dict[tuple[int, int], int]:
    """Return a result without a JSON form."""
    return {(1, 2): 3}


def fail(user: str) -> None:
    """Raise an error whose traceback contains texts of other programs."""
    raise ValueError(MARKUP)
