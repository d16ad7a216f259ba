"""
Schedules in the tests of whoever uses zsched: a scheduler whose clock the test turns. ``import zsched`` does not
import this.

Everything that decides is what runs in production: the scripts, the leader's pass (``daemon/tick.py``), a term of the
real lease, RQ's own worker. Only the loop around them is another: time stands still until the test says otherwise,
and then goes from one due time to the next. ``scheduler`` is that loop, ``ground`` and ``fake`` the Redis it stands on,
with its clock; ``runs`` is what was fired, expires, is delayed by RQ, and ended; ``worker`` executes runs in the test's
process, and ``fixtures`` is for pytest.

Of the leader's chores there is the one that ``overlap`` needs (``daemon/chains.py``), at every stop. Not here: an
archive (``durable=True`` raises NotArchived, and ``client.retry`` knows only what RQ still holds), and the chores that
go with one. Nor is any worker found dead.
"""

from zsched.testing.runs import Fired
from zsched.testing.scheduler import ManualScheduler

__all__ = ["Fired", "ManualScheduler"]
