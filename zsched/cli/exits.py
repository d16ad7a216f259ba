"""Exit codes of zsched, each with its one meaning; scripts and the documentation rely on them."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
FAILED: Final = 1  # it was tried and did not work: Redis gone or refusing, a run that was fired already
USAGE: Final = 2  # what was asked for makes no sense: arguments, options, settings
NOT_FOUND: Final = 3  # no schedule, or no run, has that id
UNHEALTHY: Final = 4  # `status`: nobody leads, or something is overdue; `doctor`: it found a problem
INTERRUPTED: Final = 130  # Ctrl-C, as shells count it
PIPE_CLOSED: Final = 141  # whoever read the output has gone, as shells count it
