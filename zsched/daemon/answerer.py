"""
Answer questions about history from this daemon's archive, in a separate thread with a separate reader. So a long query
does not stop the archiver.
"""

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import structlog

from zsched.daemon.archiver import Archiver
from zsched.daemon.loop import Failures, Loop
from zsched.errors import ArchiveError
from zsched.storage.answering import NOT_UNDERSTOOD, answer_of, read_arguments
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.questions import TEST_OF_SINK, Inbox, Question

log = structlog.get_logger(__name__)

_WAIT_S: Final = 2.0  # wait for a question, at most, between two checks for the stop
_LOOK_S: Final = 0.5  # the same if Sentinels may choose another master, and between two looks at an unhealthy archive
_CATCH_UP_S: Final = 1.0  # wait until the archive has the log entries that the asker saw


class Answerer(Loop):
    """
    Answers questions from ``start`` to ``stop``, while the archive is healthy. Its thread ends within one wait;
    ``stop`` does not wait for it. *test*: sends a test to a sink, and returns why that failed.
    """

    def __init__(
        self,
        archiver: Archiver,
        link: Link,
        keys: Keys,
        failures: Failures | None = None,
        test: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__("answerer", self._serve_all, failures)
        self._test = test
        self._archiver, self._link, self._keys = archiver, link, keys
        self._wait_s = _LOOK_S if link.finds_master else min(_WAIT_S, link.timeout_s / 2)

    def _serve_all(self) -> None:
        """Answer over one connection, until stopped or until it breaks."""
        with closing(self._link.open()) as wire:
            inbox = Inbox(wire, self._keys)
            while not self.is_stopping:
                self._serve(inbox)
                self.well()

    def _serve(self, inbox: Inbox) -> None:
        if not self._archiver.is_healthy:
            self.pause(_LOOK_S)
            return
        if (question := inbox.receive(self._wait_s)) is None:
            return
        path = self._archiver.path
        if self.is_stopping or path is None or not self._archiver.is_healthy:
            inbox.give_back(question)
            return
        self._archiver.wait_until(question.seen, _CATCH_UP_S)
        inbox.answer(question, self._answer(path, question))

    def _answer(self, path: Path, question: Question) -> dict[str, Any]:
        about = question.about
        if about == TEST_OF_SINK:
            failed = self._test(str(question.arguments.get("name"))) if self._test else "this daemon has no sinks"
            return {"error": failed} if failed else {}
        try:
            arguments = read_arguments(about, question.arguments)
        except NOT_UNDERSTOOD as error:  # from another version, or another writer
            return {"error": f"this daemon does not know the question {about!r} ({error})"}
        try:
            answer = answer_of(path, about, arguments)
        except ArchiveError as error:
            log.error("question_unanswered", about=about, reason=str(error))
            return {"error": str(error)}
        except Exception as error:  # a bug: report it to the asker, and continue with the next question
            self._failures.begin("question", about, error)
            problem = f"this daemon failed to answer {about!r} ({error!r})"
            return {"error": f"{problem}; see question_failed in the log of {socket.gethostname()}"}
        self._failures.end("question", about)
        return answer
