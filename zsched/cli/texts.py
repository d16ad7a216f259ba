"""Texts for people: what stood in Redis, without what could steer their terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """*text* without control characters."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
