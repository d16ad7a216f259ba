"""
``zsched import``: what other schedulers have, and the way back.

Reading order: course (how it goes about it, whatever the source), telling (what is said of it), options (what several
commands take), then a module per command: crontab, rq_scheduler, rq_cron, rq_scheduled, undo; and command, the group.
"""

from zsched.cli.imports.command import import_

__all__ = ["import_"]
