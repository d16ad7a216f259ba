"""
``zsched status``: is somebody leading, does it keep up, is there a durable copy, and what happened lately?

view is all that is shown, read at one moment, with the verdict of ``zsched.health``, and its form as JSON; lines is its
form for people, screen shows that live, command is the command.
"""

from zsched.cli.status.command import status

__all__ = ["status"]
