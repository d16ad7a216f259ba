"""
The package that services import: schedule, change, list, cancel, and read the outcome.

``client`` has the calls, with those of ``lives`` (of existing schedules and runs), ``repairs`` (of many) and ``past``
(questions). ``parts`` makes what they work with, each part at the first call that needs it: ``putting`` puts schedules,
thousands by ``many``, from ``rows``, planned by ``first_times``; ``updating`` puts them again, changed; ``changing``
pauses, resumes and cancels them; ``portions`` does that to many; ``answers`` answers questions. ``calls`` has what all
of them share. ``keeper`` is for files of schedules.
"""

from zsched.client.client import Client

__all__ = ["Client"]
