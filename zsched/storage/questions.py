"""
Questions to the archives through Redis, and their answers: history reaches whoever reaches Redis.

A question is one line of JSON on the list ``ask``: its id, what is asked (``about``), the arguments, and the
last entry of the log that the asker saw, so that the answer knows at least that. Any daemon whose archive is
healthy takes it and pushes one line of JSON to a list of that id, which lapses. Nobody answers within two
seconds: the asker takes the question back and says so. A leader's question about names stands on the list
``ask:names`` (``storage.naming``).
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from zsched.core.log import Position
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log

WAIT_S: Final = 2.0  # for an answer
# What json.loads and the parts of a message raise: also numbers without end, and brackets without end.
UNREADABLE: Final = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
KEPT_MS: Final = 30_000  # for questions and answers that nobody takes


@dataclass(frozen=True, slots=True)
class Question:
    """One question. ``seen``: the asker knows the log up to there."""

    id: str
    about: str
    arguments: dict[str, Any]
    seen: Position | None

    @property
    def text(self) -> str:
        """As it stands in Redis."""
        seen = None if self.seen is None else list(self.seen)
        return json.dumps({"id": self.id, "about": self.about, "arguments": self.arguments, "seen": seen})

    @classmethod
    def parse(cls, text: bytes) -> Question | None:
        """The question in *text*; None when another writer wrote it."""
        with suppress(*UNREADABLE):
            given = json.loads(text)
            seen = None if given["seen"] is None else Position(*map(int, given["seen"]))
            return cls(str(given["id"]), str(given["about"]), dict(given["arguments"]), seen)
        return None


class Questions:
    """The asking side."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._keys = link, keys

    @property
    def wait_s(self) -> float:
        """How long an answer is waited for; well below the link's patience, for a busy Redis ends waits late."""
        return min(WAIT_S, self._link.timeout_s / 2)

    def ask(self, about: str, **arguments: Any) -> dict[str, Any] | None:
        """
        The answer, or None when there was none in time, or none that can be read.

        Raises:
            RedisUnavailable, RedisRefused.
        """
        last = Log(self._link, self._keys).last()
        question = Question(uuid.uuid4().hex, about, arguments, last.position if last else None)
        ask_key, answer_key = self._keys.ask(), self._keys.answer(question.id)
        with self._link.wire() as wire:
            wire.execute("RPUSH", ask_key, question.text)
            wire.execute("PEXPIRE", ask_key, KEPT_MS)
            answered = wire.execute("BLPOP", answer_key, self.wait_s)
            if answered is None:
                wire.execute("LREM", ask_key, 1, question.text)
                return None
        with suppress(*UNREADABLE):
            answer = json.loads(answered[1])
            return answer if isinstance(answer, dict) else None
        return None


class Inbox:
    """The answering side, over one wire."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys = wire, keys

    def take(self, wait_s: float, *, names: bool = False) -> Question | None:
        """Return the next question about history, or about *names*; None when none comes within *wait_s*."""
        taken = self._wire.execute("BLPOP", self._keys.ask_names() if names else self._keys.ask(), wait_s)
        return Question.parse(taken[1]) if taken else None

    def answer(self, question: Question, answer: dict[str, Any]) -> None:
        """Push the answer to whoever asked."""
        key = self._keys.answer(question.id)
        self._wire.execute("RPUSH", key, json.dumps(answer))
        self._wire.execute("PEXPIRE", key, KEPT_MS)

    def give_back(self, question: Question) -> None:
        """Leave the question to another archive."""
        self._wire.execute("LPUSH", self._keys.ask(), question.text)
        self._wire.execute("PEXPIRE", self._keys.ask(), KEPT_MS)
