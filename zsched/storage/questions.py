"""
Questions to the archives through Redis, and their answers: every client of Redis can read the history.

A question is one line of JSON on the list ``ask``: its id, its topic (``about``), the arguments, and the last log entry
that the asker saw, which the answer must include. Any daemon with a healthy archive takes it, and pushes one line of
JSON to a list of that id, which expires. Without an answer within two seconds, the asker removes the question and
says that. Nothing is asked if no archive reported lately.
"""

import json
import uuid
from contextlib import suppress
from enum import Enum
from typing import Any, Final, NamedTuple, Self

from zsched.core.entry import Position
from zsched.errors import RedisRefused, RedisUnavailable
from zsched.storage.archivers import ALIVE_MS, reports_of
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.meta import server_now_ms
from zsched.storage.remedies import WriteRefusal

WAIT_S: Final = 2.0  # for an answer
# Errors of json.loads and of malformed messages, such as numbers or brackets without end.
UNREADABLE: Final = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
TEST_OF_SINK: Final = "test_of_sink"  # the topic of a question that is none: it asks for a message
KEPT_MS: Final = 30_000  # for questions and answers that are not taken


def json_form(value: Any) -> Any:
    """Return the form for JSON of a value of a question or an answer: of bytes, times, or a value with ``to_dict``."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Enum):
        return value.value
    return sorted(value) if isinstance(value, set) else value.to_dict()


class Question(NamedTuple):
    """One question. ``seen``: the last log entry that the asker knows."""

    id: str
    about: str
    arguments: dict[str, Any]
    seen: Position | None

    @property
    def text(self) -> str:
        """Return the question's text in Redis."""
        seen = None if self.seen is None else list(self.seen)
        question = {"id": self.id, "about": self.about, "arguments": self.arguments, "seen": seen}
        return json.dumps(question, default=json_form)

    @classmethod
    def parse(cls, text: bytes) -> Self | None:
        """Return the question in *text*; None if another writer wrote it."""
        with suppress(*UNREADABLE):
            given = json.loads(text)
            seen = None if given["seen"] is None else Position(*map(int, given["seen"]))
            return cls(str(given["id"]), str(given["about"]), dict(given["arguments"]), seen)
        return None


def ask_archives(link: Link, keys: Keys, about: str, **arguments: Any) -> dict[str, Any]:
    """
    Return an archive's answer. Its ``error`` says why there is none: no archive is there, Redis refuses the question as
    any write, or none answered in time, or only unreadably.

    Raises:
        RedisUnavailable, RedisRefused.
    """
    now_ms, reports = server_now_ms(link, keys), reports_of(link.execute("HGETALL", keys.archivers()))
    if not any(one.is_present(now_ms) for one in reports):
        return {"error": f"no archive reported within {ALIVE_MS // 1000} s"}
    last, wait_s = Log(link, keys).last(), min(WAIT_S, link.timeout_s / 2)  # a busy Redis ends waits late
    question = Question(uuid.uuid4().hex, about, arguments, last.position if last else None)
    ask_key, answer_key = keys.ask(), keys.answer(question.id)
    with link.wire() as wire:
        try:
            wire.execute("RPUSH", ask_key, question.text)
        except (RedisRefused, RedisUnavailable) as error:
            if (refusal := WriteRefusal.from_error(error.__cause__)) is None:
                raise
            return {"error": f"Redis refuses writes: {refusal.sentence}"}
        wire.execute("PEXPIRE", ask_key, KEPT_MS)
        if (answered := wire.execute("BLPOP", answer_key, wait_s)) is None:
            wire.execute("LREM", ask_key, 1, question.text)
    with suppress(*UNREADABLE):
        answer = json.loads(answered[1]) if answered else None
        if isinstance(answer, dict):
            return answer
    return {"error": f"no archive answered within {wait_s:g} s"}


class Inbox:
    """The answering side, over one wire."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys = wire, keys

    def receive(self, wait_s: float) -> Question | None:
        """Return the next question; None if none comes within *wait_s*."""
        taken = self._wire.execute("BLPOP", self._keys.ask(), wait_s)
        return Question.parse(taken[1]) if taken else None

    def answer(self, question: Question, answer: dict[str, Any]) -> None:
        """Push the answer for the asker."""
        key = self._keys.answer(question.id)
        self._wire.execute("RPUSH", key, json.dumps(answer, default=json_form))
        self._wire.execute("PEXPIRE", key, KEPT_MS)

    def give_back(self, question: Question) -> None:
        """Leave the question to another archive."""
        self._wire.execute("LPUSH", self._keys.ask(), question.text)
        self._wire.execute("PEXPIRE", self._keys.ask(), KEPT_MS)
