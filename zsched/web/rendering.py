"""Responses as JSON, whatever other programs have written into Redis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import JSONResponse

_DEPTH: Final = 50  # of lists and objects in a value that cannot be shown as it is


class JsonAnswer(JSONResponse):
    """
    A JSON response. Values that JSON or UTF-8 cannot have, such as NaN and half of a character, are shown as texts, and
    a value that is nested too deeply is cut.
    """

    def render(self, content: Any) -> bytes:
        try:
            return super().render(content)
        except (ValueError, RecursionError):
            return super().render(_plain(content, _DEPTH))


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping | list | tuple) and depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {_plain(str(name), 0): _plain(each, depth - 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, depth - 1) for each in value]
    return value
