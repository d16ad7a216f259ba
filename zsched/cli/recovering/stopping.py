"""Ending something long well by Ctrl-C."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Stopping:
    """Inside the block the first Ctrl-C only sets ``is_asked``; the second one is as always."""

    def __init__(self) -> None:
        self.is_asked = False

    def __enter__(self) -> Stopping:
        self._is_main = threading.current_thread() is threading.main_thread()  # no other may handle signals
        if self._is_main:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_main:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.is_asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
