"""
Schedules in your own tests: a scheduler with a clock that the test sets. ``import zsched`` does not import this.

All decisions are made by production code: the scripts, the leader's pass (``daemon/tick.py``), a term of the real
lease, RQ's own worker. Only the loop around them differs: time is frozen until the test advances it, and then goes from
one due time to the next. ``scheduler`` is that loop. ``ground`` is its Redis with its clock. ``runs`` has runs that
fired, expired, are delayed by RQ, or ended. ``worker`` executes runs in the test's process, and ``fixtures`` is for
pytest.

Runs that wait for another run (``overlap``) are launched at every stop. Missing are an
archive (``durable=True`` raises NotArchived, and ``client.retry`` finds only runs that RQ still has), and the chores
that need one. No worker is ever found dead.
"""

from zsched.testing.runs import Fired
from zsched.testing.scheduler import ManualScheduler

__all__ = ["Fired", "ManualScheduler"]
