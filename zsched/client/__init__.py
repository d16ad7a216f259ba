"""
The package that services import: schedule, change, list, cancel, and ask what became of it.

``client`` puts and reads schedules. ``many`` puts thousands at once, which ``rows`` or ``keeper`` give it.
``first_times`` plans recurring ones. ``lives`` changes existing schedules and runs. ``past`` reads the history, by
``answers``. ``calls`` holds the shared parts of all calls.
"""

from zsched.client.client import Client

__all__ = ["Client"]
