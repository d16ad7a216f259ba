"""
The package that services import: schedule, change, list, cancel, and read the outcome.

``client`` has the calls that put, with those of ``schedules`` (about existing ones) and ``past`` (questions). It makes
what they work with, each part at the first call that needs it: ``putting`` puts schedules, thousands by ``many``;
``updating`` puts them again, changed; ``bulk`` changes many, chosen by filters; ``answers`` answers questions.
``calls`` has what several of them share. ``file_sync`` is for files of schedules.
"""

from zsched.client.client import Client

__all__ = ["Client"]
