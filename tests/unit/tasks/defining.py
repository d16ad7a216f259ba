"""Tasks made from a few lines of text, as if they were in a module of their own, ``app.tasks``."""

from textwrap import dedent
from typing import Any

from zsched import Task, task

PATH = "app.tasks.send"

HEAD = """
from __future__ import annotations
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NewType, TypedDict
from uuid import UUID
if TYPE_CHECKING:
    from app.models import Event
"""


def define(source: str, **options: Any) -> Task[..., Any]:
    """Return the task ``send`` that *source* defines, which begins with ``def send(…)``."""
    names: dict[str, Any] = {"__name__": "app.tasks"}
    exec(HEAD + dedent(source), names)
    made: Task[..., Any] = task(**options)(names["send"])
    return made
