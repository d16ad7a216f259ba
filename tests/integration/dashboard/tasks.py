"""Tasks of the dashboard's tests."""

from __future__ import annotations

from fractions import Fraction

MARKUP = "<img src=x onerror=\"document.title='broken in'\">"


def remind(user: str) -> dict[str, str]:
    """As products' tasks are: something for somebody."""
    return {"user": user, "text": MARKUP}


def third() -> Fraction:
    """A result of a class that the dashboard does not import."""
    return Fraction(1, 3)


def pairs() -> dict[tuple[int, int], int]:
    """A result that JSON has no form for."""
    return {(1, 2): 3}


def fail(user: str) -> None:
    """A traceback with texts of others in it."""
    raise ValueError(MARKUP)
