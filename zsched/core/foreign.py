"""
Texts that other programs wrote, as they may stand in a log entry, an event or an archive.

Whoever may write RQ's keys chooses the texts in them: worker names, errors, statuses. lua/lib/clean.lua is the same for
the scripts.
"""

from __future__ import annotations

from typing import Final

LONGEST_NAME: Final = 200  # characters of a worker's, a queue's, or of a run's that somebody else wrote into RQ's hash
_LONGEST: Final = 2000  # characters of any other text


def in_a_line(text: str, most: int = LONGEST_NAME) -> str:
    """The first *most* characters of *text* in one line, without control characters."""
    cut = text[:most]
    plain = cut if cut.isprintable() else "".join(each if each.isprintable() else " " for each in cut)
    return " ".join(plain.split())


def shortened(text: str, most: int = _LONGEST) -> str:
    """*text*, or its first *most* characters and how many it had."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
