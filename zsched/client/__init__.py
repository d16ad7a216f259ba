"""
The package that services import: schedule, change, list, cancel, and ask what became of it.

``client`` puts and reads schedules, ``many`` a great number of them at once; ``lives`` changes what is there, ``past``
tells what happened; ``calls`` is what every call shares.
"""

from zsched.client.client import Client

__all__ = ["Client"]
