"""Errors of redis-py and of Redis as zsched's: what happened, where, and what to do."""

import re
from dataclasses import dataclass
from typing import Final

import redis
from redis.exceptions import AskError, ClusterCrossSlotError, ClusterDownError, MovedError, TryAgainError

from zsched.config.urls import host_port, redact
from zsched.errors import ConfigError, RedisRefused, RedisUnavailable, SlotMoves, ZschedError, show
from zsched.storage import remedies
from zsched.storage.found import Unfound, distrust_of
from zsched.storage.remedies import Endpoint, WriteRefusal

_NODES: Final = "name some of its nodes, [redis] url = redis+cluster://host:6379,host2:6379, for all of its slots"
# Temporary errors without a type in redis-py: BUSY with a long script; UNBLOCKED, which ends a wait when a master
# becomes a replica.
_UNTYPED: Final = re.compile(r"(BUSY|UNBLOCKED) ")
# A master that refuses for these may be no master any more: another server may answer next time.
_TEMPORARY: Final = (WriteRefusal.REPLICA, WriteRefusal.FEW_REPLICAS)
# Where Redis tells of a script: hash and line, before or after the error.
_OF_A_SCRIPT: Final = re.compile(
    r"^(ERR )?Error running script \(call to \w+\): (@user_script: ?\d+: )*-?| script: \w+, on @user_script:\d+\.?$"
)


@dataclass(frozen=True, slots=True)
class Destination:
    """A Redis in messages: its URL without a password, the URL's place in the settings or "", and the server."""

    where: str
    given_by: str
    server: Endpoint

    def of_opening(self, error: Exception) -> ZschedError:
        """Return the error for a connection that could not be opened; nothing was sent."""
        match error:
            case TypeError():  # redis-py hands a URL's query to the connection unchecked
                problem = f"it has an unknown option ({error})"
                return ConfigError(f"redis url {self.where!r}: {problem}; remove it")
            case redis.AuthenticationError():
                return self._of_login(error)
            case redis.ResponseError() if _UNTYPED.match(str(error)):
                problem = f"Redis at {self.where} is busy: {_reason(error)}"
                return RedisUnavailable(problem, self.server.when_busy(error))
            case redis.ResponseError():  # of SELECT: no such database
                return RedisRefused(f"Redis at {self.where} refused the connection: {_reason(error)}")
            case redis.ConnectionError() | redis.TimeoutError() | OSError():
                return self._of_silence(error)
            case _:
                return RedisUnavailable(*self._of_garbage(error))

    def of_call(self, error: Exception, *, has_moved: bool, follows_slot: bool, is_one_of_many: bool) -> ZschedError:
        """
        Return the error for a call or its reply. *has_moved*: the owner of the slot is known; *follows_slot*: the
        connection is for one slot; *is_one_of_many*: later calls are in flight, and may be applied.
        """
        match error:
            case redis.AuthenticationError():  # for redis-py a lost connection
                return self._of_login(error)
            case redis.BusyLoadingError() | ClusterDownError():
                return self._of_pause(error)
            case MovedError() if has_moved:
                owner = host_port(error.host, error.port)
                problem = f"slot {error.slot_id} of the Redis Cluster at {self.where} moved to {owner}"
                return RedisUnavailable(problem, remedies.ASKED_AGAIN, may_have_been_applied=is_one_of_many)
            case MovedError():
                problem = "other slots are not asked" if follows_slot else _NODES
                return RedisRefused(f"a key is in slot {error.slot_id}, which is elsewhere; {problem}")
            case TryAgainError() | AskError():
                problem = f"a slot of the Redis Cluster at {self.where} is being moved to another node"
                return SlotMoves(problem, self.server.when_slot_moves(), may_have_been_applied=is_one_of_many)
            case ClusterCrossSlotError():
                return RedisRefused(one_node_only(self.where))
            case redis.ResponseError() if (refusal := WriteRefusal.from_error(error)) is not None:
                return self._of_writes(refusal)
            case redis.ResponseError() if _UNTYPED.match(str(error)):
                return self._of_pause(error)
            case redis.ResponseError():
                return RedisRefused(f"Redis at {self.where} refused: {_reason(error)}")
            case redis.ConnectionError() | redis.TimeoutError() | OSError():
                if isinstance(error.__context__, redis.ReadOnlyError):  # redis-py's conversion behind a Sentinel
                    return self._of_writes(WriteRefusal.REPLICA)
                problem = f"lost Redis at {self.where}: {_reason(error)}"
                return RedisUnavailable(problem, self.server.when_silent(error), may_have_been_applied=True)
            case _:  # later replies cannot be read either
                return RedisUnavailable(*self._of_garbage(error), may_have_been_applied=True)

    def _of_writes(self, refusal: WriteRefusal) -> ZschedError:
        problem = f"Redis at {self.where} refuses writes: {refusal.sentence}"
        if refusal in _TEMPORARY:
            return RedisUnavailable(problem, refusal.remedy)
        return RedisRefused(f"{problem}; {refusal.remedy}")

    def _of_login(self, error: redis.AuthenticationError) -> RedisRefused:
        """Return the error for a wrong user or password, or none (NOAUTH; Redis 6.2 may say so at connecting)."""
        said = "needs user and password" if "Authentication required" in str(error) else "refused user or password"
        return RedisRefused(f"Redis at {self.where} {said}; check {self.given_by or 'the URL'}")

    def _of_pause(self, error: redis.RedisError) -> RedisUnavailable:
        problem = f"Redis at {self.where} cannot take writes now: {_reason(error)}"
        return RedisUnavailable(problem, self.server.when_busy(error))

    def _of_silence(self, error: Exception) -> ZschedError:
        if (distrust := distrust_of(error)) is not None:
            problem = f"has a certificate that is not trusted here ({distrust})"
            return RedisRefused(f"Redis at {self.where} {problem}; {remedies.TRUST}")
        problem, remedy = _reason(error), ""
        if isinstance(error, Unfound):
            problem, remedy = redact(error.problem), error.remedy
        elif isinstance(error, redis.BusyLoadingError):
            remedy = self.server.when_busy(error)
        where = f"{self.where} ({self.given_by})" if self.given_by else self.where
        return RedisUnavailable(f"cannot reach Redis at {where}: {problem}", remedy or self.server.when_silent(error))

    def _of_garbage(self, error: Exception) -> tuple[str, str]:
        """Return problem and remedy for bytes that are not a Redis reply, or for any other error of redis-py."""
        if not isinstance(error, redis.InvalidResponse):
            return f"the connection to Redis at {self.where} failed: {_reason(error)}", remedies.ASKED_AGAIN
        problem = f"Redis at {self.where} answered with bytes that are not a Redis reply: {show(_reason(error))}"
        return problem, "look for a proxy, another program or a TLS port at that address"


def one_node_only(where: str) -> str:
    """Return the message for a connection to a single node of a Cluster."""
    return f"Redis at {where} is a node of a Redis Cluster; {_NODES}"


def _reason(error: BaseException) -> str:
    """Return the error's text. The server's own texts are not redacted: they have no URL, but may have an @."""
    text = _OF_A_SCRIPT.sub("", str(error)) if isinstance(error, redis.ResponseError) else redact(str(error))
    return text or type(error).__name__
