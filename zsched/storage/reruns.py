"""
Retrying and cancelling runs.

RQ's hash of a run has its call and options. If RQ has deleted it, an archive is asked, through Redis. Nothing is
unpickled, so the caller's serializer does not matter.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from zsched.core.entry import text
from zsched.core.run_id import RunId
from zsched.core.runs import Run, RunStatus, as_seen, facts_text
from zsched.errors import InvalidSchedule, PayloadGone, RedisRefused, RunNotFound, RunNotOver
from zsched.storage.connection import Link
from zsched.storage.jobs import Jobs
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms
from zsched.storage.questions import Questions
from zsched.storage.scripts import Scripts
from zsched.storage.store import KEEP_OP_MS

MOST_WAITING: Final = 50_000  # longest queue to remove a run from: 1 ms of Redis; 2 million take 46 (measured)
_LOOKS: Final = 60  # attempts for a run on its way to a worker or back to its queue
_PAUSE_S: Final = 0.05  # between two attempts


class Remembered(NamedTuple):
    """A run from an archive. ``record``: its job's original texts; None: deleted."""

    is_known: bool
    record: list[bytes] | None = None
    problem: str = ""  # the reason why no archive answered


class Reruns:
    """
    A client's operations on runs of one namespace, over one link, asked for by *by*. Raises RedisUnavailable,
    RedisRefused.
    """

    def __init__(self, link: Link, keys: Keys, by: str = "") -> None:
        self._link, self._keys, self._scripts = link, keys, Scripts(link, keys, by)
        self._jobs, self._questions = Jobs(link, keys), Questions(link, keys)

    def retry(self, run_id: str, op: str) -> str:
        """
        Push *run_id*, which is over, once more; return the new run's id.

        Raises:
            RunNotFound, RunNotOver, PayloadGone. RedisRefused: another writer changed its job.
        """
        parts = self._parts(run_id)
        word, detail = self._retry(run_id, parts, op, [])
        if word == "GONE":
            remembered = self.remembered(run_id)
            if not remembered.is_known:
                raise self._not_found(run_id, remembered.problem)
            if remembered.record is None:
                raise PayloadGone(
                    f"run {run_id!r}: RQ has forgotten it, and the archive does not have its arguments"
                    " ([archive] keep_args = false, or it is older than what is kept); enqueue it anew"
                )
            word, detail = self._retry(run_id, parts, op, remembered.record)
        if word != "retried":
            raise self._refusal(run_id, parts, word, detail)
        return detail

    def cancel(self, run_id: str, op: str) -> str:
        """
        Take *run_id* out of its queue (``cancelled``), or ask its worker to stop it (``stopping``). Return that word,
        or ``already_over``.

        Raises:
            RunNotFound. RunNotOver: it has not fired, its worker does not listen, or it was on its way to a worker for
            3 s. RedisRefused: another writer changed its job.
        """
        parts = self._parts(run_id)
        word, detail = self._cancel(run_id, parts, op)
        for _ in range(_LOOKS):
            if word not in ("AGAIN", "TAKEN"):
                break
            time.sleep(_PAUSE_S)
            word, detail = self._cancel(run_id, parts, op)
        if word in ("cancelled", "stopping"):
            return word
        if word == "UNKNOWN":
            remembered = self.remembered(run_id)
            if not remembered.is_known:
                raise self._not_found(run_id, remembered.problem)
        elif word != "over":
            raise self._refusal(run_id, parts, word, detail)
        return "already_over"

    def remembered(self, run_id: str) -> Remembered:
        """Ask an archive for *run_id*."""
        answer = self._questions.ask("record", run_id=run_id)
        if answer is None:
            return Remembered(False, problem=f"no archive answered within {self._questions.wait_s:g} s")
        if not isinstance(answer.get("is_known"), bool):
            return Remembered(False, problem=str(answer.get("error", "the archive's answer is not understood")))
        record = answer.get("record")
        return Remembered(answer["is_known"], record and [each.encode("latin-1") for each in record])

    # -- how ------------------------------------------------------------------------------------------

    def _parts(self, run_id: str) -> RunId:
        if not isinstance(run_id, str):
            raise InvalidSchedule("run_id", run_id, "not a run id", "give the text that zsched history shows")
        parts = RunId.ours(run_id, self._keys.namespace)
        if parts is None:
            raise RunNotFound(
                f"{run_id!r} is not a run of namespace {self._keys.namespace!r}: run ids are <schedule id>-<ms>"
                f"{self._keys.run_suffix}; see zsched history"
            )
        return parts

    def _retry(self, run_id: str, parts: RunId, op: str, record: list[bytes]) -> tuple[str, str]:
        word, _, detail = self._scripts.call(
            "retry",
            id=parts.schedule_id,
            run=run_id,
            nominal_ms=parts.nominal_ms,
            op=op,
            keep_op_ms=KEEP_OP_MS,
            rows=record,
        )
        return text(word), text(detail)

    def _cancel(self, run_id: str, parts: RunId, op: str) -> tuple[str, str]:
        [job] = self._jobs.look([run_id])
        run = Run(run_id, RunStatus.QUEUED) if job is None else as_seen(Run(run_id, RunStatus.QUEUED), job)
        now_ms = server_now_ms(self._link, self._keys)
        cancelled = run._replace(status=RunStatus.CANCELLED, ended_ms=now_ms)
        word, _, detail = self._scripts.call(
            "cancel_run",
            id=parts.schedule_id,
            run=run_id,
            seen="-" if job is None else f"{job.status} {job.queued_at}",
            facts=facts_text(cancelled),
            most_waiting=MOST_WAITING,
            op=op,
            keep_op_ms=KEEP_OP_MS,
        )
        return text(word), text(detail)

    def _not_found(self, run_id: str, problem: str) -> RunNotFound:
        why = f"; {problem}, so it is unknown whether it existed before" if problem else ", and no archive knows it"
        return RunNotFound(f"no run {run_id!r} in namespace {self._keys.namespace!r}: RQ has no such job{why}")

    def _refusal(self, run_id: str, parts: RunId, word: str, detail: str) -> Exception:
        """Return the exception for a refusal by retry.lua or cancel_run.lua."""
        if word == "WAITS":
            id = parts.schedule_id
            remedy = f"cancel or run_now the schedule {id!r}"
            return RunNotOver(f"{run_id!r} is no run yet: schedule {id!r} has not fired; {remedy}")
        if word == "NOTOVER":
            status = "running" if detail == "started" else "queued"
            return RunNotOver(
                f"run {run_id!r} is {status}, so it is not over; wait for its end, or cancel_run it first"
            )
        if word in ("TAKEN", "AGAIN"):
            problem = "it is on its way to a worker, or was lost on it"
            return RunNotOver(f"run {run_id!r} could not be cancelled: {problem}; try again when it runs")
        if word == "DEAF":
            problem = f"its worker {detail!r} does not listen, so has probably died"
            return RunNotOver(f"run {run_id!r} could not be stopped: {problem}; it is over when RQ gives it up")
        if word == "WRONGTYPE":
            keys = "its queue's, a registry's or its rate limit's key"
            return RedisRefused(f"run {run_id!r}: {keys} holds a value of another type; see redis-cli TYPE")
        problem = "its job in RQ is not as RQ and zsched write it: somebody changed it"
        return RedisRefused(f"run {run_id!r}: {problem}; see redis-cli HGETALL {self._keys.rq.job(run_id)}")
