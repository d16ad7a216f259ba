"""
``zsched status``: is somebody leading, does it keep up, is there a durable copy, and what happened lately?

Reading order: standing (everything that is shown, read at one moment), verdict (what of it is wrong, and what to do),
copies (archives and their audit), then how it is told: facts as JSON, sections as lines, screen live. command is the
command.
"""

from zsched.cli.status.command import status

__all__ = ["status"]
