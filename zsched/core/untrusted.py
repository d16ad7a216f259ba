"""
Cleaning of texts that other programs wrote, before they go into a log entry, an event or an archive.

Whoever may write RQ's keys chooses the texts in them: worker names, errors, statuses. For scripts lua/lib/untrusted.lua
does the same.
"""

from __future__ import annotations

from typing import Final

LONGEST_NAME: Final = 200  # characters of the name of a worker or a queue, and of a run id in RQ's hash
_LONGEST: Final = 2000  # characters of any other text


def in_a_line(text: str, most: int = LONGEST_NAME) -> str:
    """Return the first *most* characters of *text* as one line, without control characters."""
    return " ".join(blanked(text[:most]).split())


def blanked(text: str) -> str:
    """Return *text* with a blank for each character that is not printable, as control characters and ends of lines."""
    return text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)


def truncated(text: str, most: int = _LONGEST) -> str:
    """Return *text*; if it is longer than *most* characters, its beginning and its length."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
