"""
The package that services import: schedule, change, list, cancel, and read the outcome.

``client`` puts and reads schedules. ``many`` puts thousands at once, from ``rows`` or ``keeper``.
``first_times`` plans recurring ones. ``lives`` changes existing schedules and runs. ``past`` reads the history, by
``answers``. ``calls`` holds the shared parts of all calls.
"""

from zsched.client.client import Client

__all__ = ["Client"]
