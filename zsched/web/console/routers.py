"""The routers of all pages of the console."""

from __future__ import annotations

from typing import Final

from zsched.web.console import edit, now, operations, runs, schedule, schedules, timeline

CONSOLE: Final = tuple(each.router for each in (now, timeline, schedules, edit, schedule, runs, operations))
