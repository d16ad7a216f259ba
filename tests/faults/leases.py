"""The end of a lease and of a hold, caused by the test: leases of tests do not lapse by themselves."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

import redis

from tests.builders.daemons import DaemonProcess, Start, Telling
from tests.builders.redises import connect
from tests.clocks import now_ms
from tests.waiting import eventually
from zsched.embedded import EmbeddedRedis
from zsched.storage.archivers import ArchiveState
from zsched.storage.keys import Keys

KEYS = Keys("default")
_LOST = f" {ArchiveState.LOST.value} {{".encode()  # in the report of an archive
_RELEASED = "lease"  # the message of lua/release.lua

T = TypeVar("T")


def lapse(watch: redis.Redis, keys: Keys = KEYS) -> int:
    """
    Delete the lease, as its expiry would, and wake the daemons that stand by. Return the epoch of the next term when it
    has begun. The last leader takes part: suspend or kill it if another daemon is to lead.
    """
    before = int(watch.hget(keys.meta(), "epoch") or 0)
    watch.delete(keys.lease())
    return eventually(lambda: watch.publish(keys.wake(), _RELEASED) and _epoch_after(watch, keys, before))


def await_listeners(watch: redis.Redis, number: int, keys: Keys = KEYS) -> None:
    """Wait until *number* daemons listen, so that none of them misses the end of a term or an earlier due time."""
    eventually(lambda: watch.pubsub_numsub(keys.wake())[0][1] >= number)


def leader_and_standby(start: Start, url: str, watch: redis.Redis, **settings: str) -> list[DaemonProcess]:
    """Start a daemon that leads, and one that stands by."""
    leader = start(url, **settings)
    leader.wait_for("term_began")
    standby = start(url, **settings)
    await_listeners(watch, 2)
    return [leader, standby]


def end_hold(watch: redis.Redis, *daemons: Telling, keys: Keys = KEYS) -> None:
    """
    End the hold on a new or restarted Redis, as its time would. Return when the leader, one of *daemons*, has said so.
    A hold for an archive that has found a loss goes on until that has restored it.
    """
    before = _ended(daemons)

    def look() -> bool:
        if any(len(each.of("fire_held")) > len(each.of("hold_ended")) for each in daemons):  # else nobody says its end
            _shorten_hold(watch, keys)
        return _ended(daemons) > before

    eventually(look)


def eventually_without_hold(owner: Callable[[], EmbeddedRedis], look: Callable[[], T], keys: Keys = KEYS) -> T:
    """
    Return what *look* returns as soon as it is true, and end every hold until then on the present *owner*: a failover
    may follow another one, and each begins a hold.
    """
    watches = dict[str, redis.Redis]()

    def unheld() -> T:
        if not (found := look()):
            with suppress(redis.RedisError):  # it has just lost its role
                url = owner().tcp_url
                watches[url] = watches.get(url) or connect(url)
                _shorten_hold(watches[url], keys)
        return found

    try:
        return eventually(unheld)
    finally:
        for watch in watches.values():
            watch.close()


def _shorten_hold(watch: redis.Redis, keys: Keys) -> None:
    """Let a hold end now, and wake the leader; not the hold for an archive that has found a loss."""
    is_restoring = any(_LOST in report for report in watch.hvals(keys.archivers()))
    if not is_restoring and int(watch.hget(keys.meta(), "hold") or 0) > now_ms(watch):
        watch.hset(keys.meta(), "hold", now_ms(watch))
    watch.publish(keys.wake(), _RELEASED)


def _ended(daemons: Iterable[Telling]) -> int:
    return sum(len(daemon.of("hold_ended")) for daemon in daemons)


def _epoch_after(watch: redis.Redis, keys: Keys, epoch: int) -> int:
    """Return the present epoch if it is later than *epoch*, else 0."""
    found = int(watch.hget(keys.meta(), "epoch") or 0)
    return found if found > epoch else 0
