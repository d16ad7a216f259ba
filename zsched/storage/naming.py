"""
The names of a data set (``meta.gen``): read them, ask the archives for one, give one, add one.

A question about names stands on a list of its own: archives answer it in any state, and an archive that lost its place
is just the one that is wanted. Whoever takes the question answers with its ``Knowledge``. The asker asks again until an
archive knows a name.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from zsched.core.log import Position, text
from zsched.errors import RedisRefused
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.questions import KEPT_MS, UNREADABLE, Question
from zsched.storage.scripts import Channel, Scripts

ABOUT: Final = "names"  # topic of these questions


@dataclass(frozen=True, slots=True)
class Knowledge:
    """
    Knowledge of an archive about data sets. ``gen``: the names of the one that it followed, or None. ``position``:
    its last entry. ``is_new``: its daemon made it, and it lost nothing since.
    """

    gen: str | None
    position: Position | None
    is_new: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the form of an answer."""
        return {"gen": self.gen, "position": self.position and list(self.position), "is_new": self.is_new}

    @classmethod
    def of_dict(cls, told: Any) -> Knowledge:
        """Read an answer. Raises one of ``questions.UNREADABLE`` if it has another form."""
        gen, position = told["gen"], told["position"]
        if gen is not None and (not isinstance(gen, str) or not gen.split()):
            raise ValueError(f"{gen!r} is no name")
        return cls(gen, None if position is None else Position(*map(int, position)), told["is_new"] is True)


class Naming:
    """The name of one namespace's data set, over one channel."""

    def __init__(self, channel: Channel, keys: Keys) -> None:
        self._channel, self._keys, self._scripts = channel, keys, Scripts(channel, keys)
        self._question = Question(uuid.uuid4().hex, ABOUT, {}, None)

    def gen(self) -> str | None:
        """Return the names of the data set, separated by blanks, or None."""
        found = self._channel.execute("HGET", self._keys.meta(), "gen")
        return text(found) if found else None

    def ask(self) -> None:
        """
        Ask one more archive, if the last question was taken. While another program's key is where the list should be,
        nobody can be asked: that must not keep a data set without a name from firing.
        """
        key = self._keys.ask_names()
        try:
            if not self._channel.execute("LLEN", key):
                self._channel.execute("RPUSH", key, self._question.text)
                self._channel.execute("PEXPIRE", key, KEPT_MS)
        except RedisRefused:  # out of memory, or no list
            if text(self._channel.execute("TYPE", key)) in ("none", "list"):
                raise

    def answers(self) -> Iterator[Knowledge]:
        """Yield the answers since the last call. Skip those that cannot be read."""
        while (told := self._channel.execute("LPOP", self._keys.answer(self._question.id))) is not None:
            with suppress(*UNREADABLE):
                yield Knowledge.of_dict(json.loads(told))

    def give(self, term: Term, gen: str, *, is_new: bool) -> str:
        """
        Name the data set *gen* if it has no name. Return its names. *is_new*: no archive has anything that the log
        lacks, so nothing is in doubt.

        Raises:
            Stale, ServerChanged: the term is over.
        """
        reply = self._scripts.call(
            "name", token=term.token, expected_server=term.server_id, gen=gen, is_new=int(is_new)
        )  # fmt: skip
        return text(reply[0])

    def adopt(self, gen: str) -> str:
        """Add the name *gen*: all of that data set is in this one now. Return all names."""
        return text(self._scripts.call("adopt", gen=gen)[0])
