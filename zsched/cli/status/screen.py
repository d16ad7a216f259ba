"""
``zsched status --watch``: the same lines, live on a terminal until Ctrl-C.

The lines of a table are cut at the terminal's width; what is wrong, and what to do about it, is wrapped. What does not
fit below is not shown, so the verdict always is. Redis being gone does not end it, for then somebody watches: what was
seen last stays under what is wrong now.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from zsched.cli.status.lines import ScreenLine, Style
from zsched.cli.texts import printable
from zsched.errors import ConfigError, RedisRefused, RedisUnavailable

if TYPE_CHECKING:
    from rich.console import Console, Group

_STYLES: Final = {
    Style.GOOD: "bold green",
    Style.BAD: "bold red",
    Style.WARNING: "yellow",
    Style.REMEDY: "",
    Style.HEADING: "bold",
    Style.PLAIN: "",
}
_WRAPPED: Final = (Style.GOOD, Style.BAD, Style.WARNING, Style.REMEDY)


def watch(look: Callable[[], Iterable[ScreenLine]], every_s: float, console: Console | None = None) -> None:
    """
    Show what *look* gives every *every_s* seconds, until Ctrl-C; then the terminal is as before.

    Raises:
        ConfigError: rich is not installed.
    """
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:
        raise ConfigError("--watch needs rich, which is not installed: pip install 'zsched[ops]'") from None
    seen: list[ScreenLine] = []
    with (
        suppress(KeyboardInterrupt),
        Live(console=console or Console(highlight=False), screen=True, auto_refresh=False) as live,
    ):
        while True:
            try:
                seen = told = list(look())
            except (RedisUnavailable, RedisRefused) as error:
                told = [*_no_answer(error, every_s), *seen]
            live.update(coloured(told), refresh=True)
            threading.Event().wait(every_s)


def coloured(lines: Iterable[ScreenLine]) -> Group:
    """*lines* in colour, each as wide as the terminal at most."""
    from rich.console import Group
    from rich.text import Text

    texts = []
    for text, style in lines:
        if style in _WRAPPED:
            texts.append(Text(text, style=_STYLES[style], overflow="fold"))
        else:
            texts.append(Text(text, style=_STYLES[style], no_wrap=True, overflow="ellipsis"))
    return Group(*texts)


def _no_answer(error: Exception, every_s: float) -> list[ScreenLine]:
    return [
        ScreenLine(printable(f"UNHEALTHY: {error}"), Style.BAD),
        ScreenLine(f"  → trying again every {every_s:g} s; this is what was seen last:", Style.REMEDY),
        ScreenLine(""),
    ]
