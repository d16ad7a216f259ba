"""
Serializers of RQ that run nothing when they read: for all that no signature covers.

They are classes, since RQ names a worker's serializer by module and name. RQ's JSON serializer runs nothing anyway.
"""

import logging
from typing import Any, Final

from rq.serializers import DefaultSerializer, JSONSerializer

from zsched.errors import ConfigError
from zsched.storage.unpickling import NotPlain, read_plain

log: Final = logging.getLogger("zsched.rq")  # as RQ's workers log


SERIALIZERS: Final[dict[str, Any]] = {"pickle": DefaultSerializer, "json": JSONSerializer}  # RQ 2.8 knows no names


class PlainPickles:
    """RQ's default serializer, but it opens plain values only."""

    dumps = staticmethod(DefaultSerializer.dumps)

    @staticmethod
    def loads(data: bytes) -> Any:
        """Return the plain value of a pickle. Raises NotPlain."""
        return read_plain(data)


class WarnedPickles(PlainPickles):
    """RQ's default serializer, which tells what ``PlainPickles`` would not open."""

    @staticmethod
    def loads(data: bytes) -> Any:
        """Return the value of a pickle."""
        try:
            return read_plain(data)
        except NotPlain as error:
            log.warning("guard: a value that no signature covers was unpickled; enforce would not open it: %s", error)
            return DefaultSerializer.loads(data)


def plain_of(serializer: Any, kind: type[PlainPickles] = PlainPickles) -> Any:
    """
    Return the serializer that writes as *serializer* does, and runs nothing; *kind* instead of RQ's default.

    Raises:
        ConfigError: it is neither RQ's default nor RQ's JSON.
    """
    if serializer is JSONSerializer:
        return serializer
    if serializer is DefaultSerializer or (isinstance(serializer, type) and issubclass(serializer, PlainPickles)):
        return kind
    name = getattr(serializer, "__qualname__", type(serializer).__name__)
    raise ConfigError(f"serializer {name}: a guarded worker reads RQ's pickles or JSON; or set [worker] guard = off")


def trusted_of(serializer: Any) -> Any:
    """Return the serializer for payloads with a good signature: RQ's default for the plain one."""
    is_plain = isinstance(serializer, type) and issubclass(serializer, PlainPickles)
    return DefaultSerializer if is_plain else serializer
