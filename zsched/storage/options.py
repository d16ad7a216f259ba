"""How redis-py's connections are set up: none sends anything twice, replies are those of RESP 2."""

from __future__ import annotations

from typing import Any

from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.retry import Retry

# Options of redis-py's own client machinery that must not move into a pool of ours.
_OF_CLIENT = ("maint_notifications_pool_handler", "maint_notifications_config", "himport_registry", "event_dispatcher")


def our_options() -> dict[str, Any]:
    """What holds for every connection of ours."""
    return {
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "health_check_interval": 0,
        "protocol": 2,
        "decode_responses": False,
    }


def adopted_options(theirs: ConnectionPool) -> dict[str, Any]:
    """The options of *theirs*, with ours over them."""
    kept = {k: v for k, v in theirs.connection_kwargs.items() if k not in _OF_CLIENT and not k.startswith("orig_")}
    return kept | our_options()
