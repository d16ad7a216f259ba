"""The way of a call through the package: which files and functions it enters, and how deep."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import zsched

_PACKAGE = str(Path(zsched.__file__).parent)
_NO_CALLS = {"<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"}


@dataclass
class Way:
    """The files and functions of zsched that a call entered; ``depth``: the most of its functions at once."""

    files: set[str] = field(default_factory=set)
    functions: set[tuple[str, str]] = field(default_factory=set)
    depth: int = 0

    @property
    def size(self) -> tuple[int, int, int]:
        """The numbers of files and functions, and the depth."""
        return len(self.files), len(self.functions), self.depth


def way_of(call: Callable[[], Any]) -> Way:
    """Return the way of *call*, in this thread. The bodies of modules and classes, run by an import, are no calls."""
    way, before = Way(), sys.getprofile()

    def enter(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and _is_call(code):
            way.files.add(code.co_filename.removeprefix(_PACKAGE))
            way.functions.add((code.co_filename, code.co_qualname))
            depth, at = 0, frame
            while at is not None:
                depth, at = depth + _is_call(at.f_code), at.f_back  # type: ignore[assignment]
            way.depth = max(way.depth, depth)

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(before)
    return way


def _is_call(code: CodeType) -> bool:
    """Return True for a function of zsched; the bodies of modules and classes have no fast local names."""
    is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name not in _NO_CALLS
    return bool(is_function) and code.co_filename.startswith(_PACKAGE)
