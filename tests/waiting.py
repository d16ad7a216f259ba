"""Waiting for a condition, with one deadline for all tests."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

WITHIN_S = 60.0  # deadline of every wait: far more than needed, so that a busy machine fails no test
ENDS_S = 300.0  # deadline of the end of a program
_LOOK_S = 0.003  # between two looks at what tells nobody when it changes

T = TypeVar("T")


def eventually(look: Callable[[], T], within_s: float = WITHIN_S) -> T:
    """Return what *look* returns as soon as it is true; raise AssertionError with its last value after *within_s*."""
    until, never = time.monotonic() + within_s, threading.Event()
    while not (found := look()):
        assert time.monotonic() < until, f"not within {within_s} s; it is {found!r}"
        never.wait(_LOOK_S)  # timing: the only pause of all tests
    return found
