"""The project's pages, and the programs in them, which tests run as a reader would."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def pages() -> list[Path]:
    """Every page that a reader may open."""
    beside = [page for place in (".", "deploy/redis") for page in (PROJECT / place).glob("*.md")]
    return sorted([*beside, *(PROJECT / "docs").rglob("*.md")])


def programs(page: str) -> dict[str, str]:
    """
    The Python files in *page* by their names.

    A block says whose text follows by a comment of its own line: ``# shop.py``, or ``# tasks.py: what workers run``.
    """
    blocks = re.findall(r"^```python\n(.*?)^```", (PROJECT / page).read_text(), re.DOTALL | re.MULTILINE)
    named = [re.split(r"^# (\w+\.py)\b.*\n", block, flags=re.MULTILINE) for block in blocks]
    return {name: text for parts in named for name, text in zip(parts[1::2], parts[2::2], strict=True)}
