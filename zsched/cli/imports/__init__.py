"""
``zsched import``: what other schedulers have, and the way back.

Reading order: course (how it goes about it, whatever the source), telling (what is said of it), command (the commands,
one per source).
"""

from zsched.cli.imports.command import import_

__all__ = ["import_"]
