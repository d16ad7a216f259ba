"""
May a user run a command on a key? Three ways to ask Redis without doing anything, by what may be used.

`ByScript`   Redis 7 and later tell a script what its caller may: no right but that to scripts is needed.
`Rehearsed`  else commands are queued after MULTI, which checks each of them, and dropped by DISCARD.
`Dry`        another user's rights are told by ACL DRYRUN (7.0), to who may ask that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final, Protocol

from zsched.doctor.patient import Patient
from zsched.errors import RedisRefused
from zsched.storage.connection import Wire
from zsched.storage.replies import is_denied

_MAY: Final = "return redis.acl_check_cmd(unpack(ARGV)) and 1 or 0"
_TRANSACTIONS: Final = ("MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH")  # done at once in a rehearsal, not queued


class Asker(Protocol):
    """Tells what a user may."""

    def may(self, *command: str) -> bool:
        """Whether *command* would be allowed, its keys and channels too."""


class ByScript:
    """The user of *wire*. Raises RedisRefused: it may not run scripts."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._sha = wire, wire.execute("SCRIPT", "LOAD", _MAY)

    def may(self, *command: str) -> bool:
        return bool(self._wire.execute("EVALSHA", self._sha, 0, *command))


class Rehearsed:
    """
    The user of *wire*, which is in a transaction that is never executed; if it is lost, Redis drops what was queued.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def may(self, *command: str) -> bool:
        if command[0].upper() in _TRANSACTIONS:
            return True  # as far as that can be told: MULTI was
        try:
            self._wire.execute(*command)
        except RedisRefused as error:
            return not is_denied(error)  # out of memory, say, which is asked after the rights
        return True


class Dry:
    """The user *name*, asked for over *wire*."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire, self._name = wire, name

    def may(self, *command: str) -> bool:
        return bool(self._wire.execute("ACL", "DRYRUN", self._name, *command) == b"OK")


@contextmanager
def asker_of(patient: Patient) -> Iterator[Asker]:
    """
    Who can tell what the patient's user may, over a connection of its own: nobody else may come into a transaction.

    Raises:
        RedisRefused: nobody can.
    """
    with closing(patient.link.open()) as wire:
        if patient.user is not None:
            yield Dry(wire, patient.user)
        elif patient.release >= (7,) and (asker := _by_script(wire)) is not None:
            yield asker
        else:
            wire.execute("MULTI")
            yield Rehearsed(wire)
            wire.execute("DISCARD")


def _by_script(wire: Wire) -> ByScript | None:
    """None: its user may not run scripts."""
    try:
        asker = ByScript(wire)
        asker.may("PING")
    except RedisRefused as error:
        if is_denied(error):
            return None
        raise
    return asker
