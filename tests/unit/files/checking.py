"""Files of schedules: read, and their complaints."""

from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import Any

import pytest
from redis import Redis

from zsched.client import Client
from zsched.core.clock import ManualClock
from zsched.core.model import Definition
from zsched.errors import InvalidFile, InvalidSchedule
from zsched.files.checking import ClientChecks
from zsched.files.reading import ScheduleFile, read

CLIENT = Client(Redis(), clock=ManualClock())  # it is never connected
CHECKS = ClientChecks(CLIENT)


class Completing(ClientChecks):
    """Checks of functions that have *options* of their own, and accept anything."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(CLIENT)
        self._own = options

    def define(self, func: str | None, options: Mapping[str, Any]) -> Definition:
        return super().define(func, {**self._own, **options})

    def mistakes(self, func: str, options: Mapping[str, Any]) -> Iterator[InvalidSchedule]:
        yield from ()


def reading(text: str, name: str = "schedules.toml") -> ScheduleFile:
    return read(name, dedent(text).encode(), CHECKS)


def complaints(text: str | bytes, name: str = "schedules.toml") -> list[str]:
    raw = text if isinstance(text, bytes) else dedent(text).encode()
    with pytest.raises(InvalidFile) as caught:
        read(name, raw, CHECKS)
    return list(caught.value.complaints)


def assert_complaints(text: str, *expected: str) -> None:
    """Check that the complaints about *text* begin as *expected*, each with its line."""
    found = [complaint.removeprefix("schedules.toml:") for complaint in complaints(text)]
    assert list(expected) == [complaint[: len(start)] for complaint, start in zip(found, expected, strict=True)]
