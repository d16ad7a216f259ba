"""
The package that services import: schedule, change, list, cancel, and ask what became of it.

``client`` puts and reads schedules, and ``many`` puts thousands at once. ``lives`` changes existing schedules and runs.
``past`` reads the history, by ``answers``. ``calls`` holds the shared parts of all calls.
"""

from zsched.client.client import Client

__all__ = ["Client"]
