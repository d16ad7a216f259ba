"""
A redis-py client for RQ on a Redis Cluster, as RQ's workers and other programs that use RQ need one::

    RQ_KEY_PREFIX='{default}:rq' rq worker --connection-class zsched.cluster.ClusterRedis -u redis+cluster://host1,host2

All of RQ's keys are in the slot of its prefix, so the client speaks with one node, the slot's owner. RQ does not work
with redis-py's own client of a Cluster: its worker needs a client's pool, and that one has none (RQ 3.0). A command
that a node refused because it has not the slot is sent to the owner. While the slot is being moved, it is sent again
until the slot is whole. What may have been executed is not sent again.
"""

from typing import Any, Final, Self

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from zsched.config.urls import check_url, is_cluster_url, shown
from zsched.errors import ConfigError
from zsched.storage.cluster import FOLLOWING, ClusterPool, Redirected, slots_of
from zsched.storage.rqkeys import RQ_PREFIX_VARIABLE, RqKeys

_CONNECT_S: Final = 5.0
_ATTEMPTS: Final = 240  # about two minutes, in which a slot may be moved
_LONGEST_REST_S: Final = 0.5


class ClusterRedis(redis.Redis):
    """A client of the owner of the slot of RQ's keys. Make it by ``from_url``."""

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """
        Make a client by a ``redis+cluster://`` URL, for the slot of ``RQ_KEY_PREFIX``. No connection is made yet.

        Raises:
            ConfigError: not such a URL, or RQ's keys are in many slots.
        """
        try:
            if not is_cluster_url(check_url(url)):
                raise ValueError("not that of a Redis Cluster; write redis+cluster://host:6379,host2:6379")
        except ValueError as error:
            raise ConfigError(f"redis url {shown(url)}: {error}") from None
        rq = RqKeys()
        if len(slots_of(rq)) > 1:
            problem = f"RQ's prefix {rq.prefix!r} spreads its keys over all slots of a Redis Cluster"
            raise ConfigError(f"{problem}; set {RQ_PREFIX_VARIABLE} to '{{default}}:rq', with zsched's namespace in it")
        retry = Retry(ExponentialBackoff(_LONGEST_REST_S, 0.02), _ATTEMPTS, supported_errors=(Redirected,))
        options = {"socket_connect_timeout": _CONNECT_S, **options}
        return cls(connection_pool=ClusterPool.by_url(url, rq.queues(), FOLLOWING, retry, **options))
