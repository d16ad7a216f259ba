"""
The names of a data set (``meta.gen``): read them, ask the archives for one, give one, add one.

A question about names stands on a list of its own, since every archive answers it: also one that lost its place, and
just that one is asked for. Who takes the question answers what it knows (``Knowledge``), and the asker asks again until
somebody knows a name.
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

ABOUT: Final = "names"  # of such a question


@dataclass(frozen=True, slots=True)
class Knowledge:
    """
    What an archive knows of data sets: ``gen``, a name of the one that it followed last, None when it knows none;
    ``position``, its last entry. ``is_new``: it was made by its daemon, and lost nothing since.
    """

    gen: str | None
    position: Position | None
    is_new: bool

    def to_dict(self) -> dict[str, Any]:
        """As an answer."""
        return {"gen": self.gen, "position": self.position and list(self.position), "is_new": self.is_new}

    @classmethod
    def of_dict(cls, told: Any) -> Knowledge:
        """From an answer. Raises as reading foreign JSON does (``questions.UNREADABLE``)."""
        gen, position = told["gen"], told["position"]
        if gen is not None and (not isinstance(gen, str) or len(gen.split()) != 1):
            raise ValueError(f"{gen!r} is no name")
        return cls(gen, None if position is None else Position(*map(int, position)), told["is_new"] is True)


class Naming:
    """The name of one namespace's data set, over one channel."""

    def __init__(self, channel: Channel, keys: Keys) -> None:
        self._channel, self._keys, self._scripts = channel, keys, Scripts(channel, keys)
        self._question = Question(uuid.uuid4().hex, ABOUT, {}, None)

    def gen(self) -> str | None:
        """The names that the data set has, by blanks; None when it has none."""
        found = self._channel.execute("HGET", self._keys.meta(), "gen")
        return text(found) if found else None

    def ask(self) -> None:
        """
        Ask one more archive, if the question before was taken. Nobody can be asked while a foreign hand's key is where
        the list should be: that must not keep a data set without a name from firing.
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
        """The answers that came since the last look; what cannot be read is none."""
        while (told := self._channel.execute("LPOP", self._keys.answer(self._question.id))) is not None:
            with suppress(*UNREADABLE):
                yield Knowledge.of_dict(json.loads(told))

    def give(self, term: Term, gen: str, *, is_new: bool) -> str:
        """
        Name the data set *gen*, if it has no name; the names that it has then. *is_new*: no archive has anything that
        the log lacks, so nothing is in doubt.

        Raises:
            Stale, ServerChanged: the term is over.
        """
        reply = self._scripts.call(
            "name", token=term.token, expected_server=term.server_id, gen=gen, is_new=int(is_new)
        )  # fmt: skip
        return text(reply[0])

    def adopt(self, gen: str) -> str:
        """Say that all of the data set *gen* is in this one, which has that name too from then on; all its names."""
        return text(self._scripts.call("adopt", gen=gen)[0])
