"""
The parts of a client, below its calls. Each is imported and made by the first call that needs it.

So ``Client.from_url`` costs little more than ``import redis``: a service that only schedules imports no reader of logs
and archives, and one that only lists no planning. A test counts the modules.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from zsched.core.clock import Clock
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

if TYPE_CHECKING:
    from zsched.client.answers import Answers
    from zsched.client.changing import Changing
    from zsched.client.portions import Portions
    from zsched.client.putting import Putting
    from zsched.client.updating import Updating
    from zsched.core.options.define import Presets
    from zsched.storage.accounts import Limits
    from zsched.storage.folded import FoldedLog
    from zsched.storage.inquiry import Inquiry
    from zsched.storage.reader import Reader
    from zsched.storage.reruns import Reruns
    from zsched.storage.rqjob import Encoder
    from zsched.storage.signer import Signer
    from zsched.storage.store import Store

# Parts that know the caller, and are made anew.
_NAMED = ("_changing", "_updating", "_reruns", "_portions", "_inquiry", "_answers")


class ClientParts:
    """The checked arguments of a ``Client``, and its parts."""

    _link: Link
    _keys: Keys
    _clock: Clock
    _by: str
    _limits: Limits | None = None
    _signer: Signer | None
    _serializer: str
    _payload_limit: int
    _durable_timeout_s: float
    _urgencies: Presets | None
    _runs_pickles: bool

    def _named(self, by: str, limits: Limits | None) -> Self:
        """Return a copy with the same connections, and another caller's name and *limits*."""
        other = copy(self)
        other._by, other._limits = by, limits
        for name in _NAMED:
            other.__dict__.pop(name, None)
        other._folded = self._folded  # the kept part of the log
        other._store = self._store.acting_as(by)  # what it found out about Redis stays known
        other._putting = self._putting.by_store(other._store)  # and the shapes of earlier puts
        return other

    # -- in Redis -----------------------------------------------------------------------------------

    @cached_property
    def _encoder(self) -> Encoder:
        from zsched.storage.rqjob import Encoder

        return Encoder(self._serializer, self._payload_limit, signs=self._signer is not None)

    @cached_property
    def _store(self) -> Store:
        from zsched.storage.store import Store

        return Store(self._link, self._keys, self._encoder, self._by, self._signer)

    @cached_property
    def _reader(self) -> Reader:
        from zsched.storage.reader import Reader

        return Reader(self._link, self._keys, self._encoder)

    @cached_property
    def _reruns(self) -> Reruns:
        from zsched.storage.reruns import Reruns

        return Reruns(self._link, self._keys, self._by, self._signer)

    @cached_property
    def _inquiry(self) -> Inquiry:
        from zsched.storage.inquiry import Inquiry

        if self._limits is None or self._limits.are_none:
            return Inquiry(self._link, self._keys, self._folded)
        from zsched.storage.limited import LimitedInquiry

        return LimitedInquiry(self._link, self._keys, self._folded, self._reader, self._limits)

    @cached_property
    def _folded(self) -> FoldedLog:
        from zsched.storage.folded import FoldedLog

        return FoldedLog(self._link, self._keys)

    # -- of calls -----------------------------------------------------------------------------------

    @cached_property
    def _putting(self) -> Putting:
        from zsched.client.putting import Putting
        from zsched.core.options.define import merged_presets
        from zsched.storage.archivers import Durability

        durability = partial(Durability, self._link, self._keys, self._clock, self._durable_timeout_s)
        return Putting(self._store, merged_presets(self._urgencies or {}), self._clock, durability)

    @cached_property
    def _changing(self) -> Changing:
        from zsched.client.changing import Changing

        return Changing(self._store, self._reader)

    @cached_property
    def _updating(self) -> Updating:
        from zsched.client.updating import Updating

        found = (self._store, self._reader, self._changing, self._putting)
        return Updating(*found, runs_pickles=self._runs_pickles)

    @cached_property
    def _answers(self) -> Answers:
        from zsched.client.answers import Answers
        from zsched.storage.shell import Shell

        return Answers(self._reader, self._inquiry, Shell(self._link, self._serializer, self._keys.rq.prefix))

    @cached_property
    def _portions(self) -> Portions:
        from zsched.client.portions import Portions

        return Portions(self._link, self._reader, self._reruns, self._answers)
