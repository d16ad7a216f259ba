"""The end of a lease and of a hold, caused by the test: leases of tests do not lapse by themselves."""

from __future__ import annotations

import redis

from tests.faults.clocks import now_ms
from tests.faults.processes import Telling, eventually
from zsched.storage.keys import Keys

KEYS = Keys("default")
_RELEASED = "lease"  # the message of lua/release.lua


def lapse(watch: redis.Redis, keys: Keys = KEYS) -> int:
    """
    Delete the lease, as its expiry would, and wake the daemons that stand by. Return the epoch of the next term when it
    has begun. The last leader takes part: suspend or kill it if another daemon is to lead.
    """
    before = int(watch.hget(keys.meta(), "epoch") or 0)
    watch.delete(keys.lease())
    return eventually(lambda: watch.publish(keys.wake(), _RELEASED) and _epoch_after(watch, keys, before))


def end_hold(watch: redis.Redis, leader: Telling, keys: Keys = KEYS) -> None:
    """End the hold of a *leader* on a new or restarted Redis, as its time would. Return when it has said so."""
    number = len(leader.of("hold_ended"))
    leader.wait_for("fire_held", number + 1)
    watch.hset(keys.meta(), "hold", now_ms(watch))
    eventually(lambda: len(leader.of("hold_ended")) > number or watch.publish(keys.wake(), _RELEASED) < 0)


def _epoch_after(watch: redis.Redis, keys: Keys, epoch: int) -> int:
    """Return the present epoch if it is later than *epoch*, else 0."""
    found = int(watch.hget(keys.meta(), "epoch") or 0)
    return found if found > epoch else 0
