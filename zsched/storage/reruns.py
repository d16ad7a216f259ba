"""
Retrying and cancelling runs.

RQ's hash of a run has its call and options. If RQ has deleted it, an archive is asked, through Redis. Nothing is
unpickled, so the caller's serializer does not matter.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from zsched.core.entry import text
from zsched.core.options.arguments import for_match
from zsched.core.repair import IdOutcome
from zsched.core.runs.run import Run, RunStatus, as_seen, facts_text
from zsched.core.runs.run_id import run_key, schedule_of
from zsched.errors import PayloadGone, RedisRefused, RunNotFound, RunNotOver, ZschedError
from zsched.storage.connection import Link
from zsched.storage.jobs import Jobs
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms
from zsched.storage.questions import ask_archives
from zsched.storage.scripts import Scripts
from zsched.storage.signing import Signer

MOST_WAITING: Final = 50_000  # runs of queues that are searched in one call: 1 ms of Redis
_KEEP_RETRIED_MS: Final = 86_400_000  # time for which Redis knows that a run was retried; then the history knows it
_RETRIED: Final = {"retried": "retried", "RETRIED": "retried_before", "SUCCEEDED": "succeeded"}  # words of retry.lua
_LOOKS: Final = 60  # attempts for a run on its way to a worker or back to its queue
_PAUSE_S: Final = 0.05  # between two attempts


class Reruns:
    """
    A client's operations on runs of one namespace, over one link, asked for by *by*: many runs in a call, and an
    outcome for each. *signer*: it signs the new runs of runs that are signed. Raises RedisUnavailable, RedisRefused.
    """

    def __init__(self, link: Link, keys: Keys, by: str = "", signer: Signer | None = None) -> None:
        self._link, self._keys, self._scripts, self._signer = link, keys, Scripts(link, keys, by), signer
        self._jobs = Jobs(link, keys, tracebacks=False)

    def retry(self, run_ids: Sequence[str], *, is_once: bool = False, op: str | None = None) -> dict[str, IdOutcome]:
        """
        Push *run_ids*, which are over, once more: retried, with the new run's id. *is_once*: runs that were retried in
        the last day are retried_before; runs that RQ has as succeeded, requeued after their recorded end, are
        succeeded. *op*: the operation, of one run; None: a new one. Errors: RunNotFound, RunNotOver, PayloadGone;
        RedisRefused: another writer changed its job.
        """
        rest, outcomes = self._ours(run_ids)
        records: dict[str, list[bytes]] = {}
        while rest:
            rows: list[Any] = []
            for run_id, signature in zip(rest, self._signatures(rest, records), strict=True):
                record, run = records.get(run_id, []), Run(run_id, RunStatus.QUEUED)
                rows += (run.schedule_id, run_id, run.nominal_ms, signature, len(record), *record)
            own = {"is_once": int(is_once), "keep_retried_ms": _KEEP_RETRIED_MS}
            answers = self._call("retry", rest, rows, op=op, **own)
            rest = [run_id for run_id, (word, _) in answers.items() if word == "LATER"]
            for run_id, (word, detail) in answers.items():
                if word == "GONE":
                    original, problem = self.original(run_id)
                    if original:
                        records[run_id] = original
                        rest.append(run_id)
                    else:
                        error = self._not_found(run_id, problem) if original is None else self._gone(run_id)
                        outcomes[run_id] = IdOutcome("", error=error)
                elif word in _RETRIED:
                    outcomes[run_id] = IdOutcome(_RETRIED[word], detail)
                elif word != "LATER":
                    outcomes[run_id] = IdOutcome("", error=self._refusal(run_id, word, detail))
        return outcomes

    def cancel(self, run_ids: Sequence[str]) -> dict[str, IdOutcome]:
        """
        Take *run_ids* out of their queues (``cancelled``), or ask their workers to stop them (``stopping``);
        ``already_over``. Errors: RunNotFound. RunNotOver: it has not fired, its worker does not listen, or it was on
        its way to a worker for 3 s. RedisRefused: another writer changed its job.
        """
        rest, outcomes = self._ours(run_ids)
        looks = 0
        while rest:
            answers = self._cancel(rest)
            unsure = [run_id for run_id, (word, _) in answers.items() if word in ("AGAIN", "TAKEN")]
            looks += bool(unsure)
            rest = [run_id for run_id, (word, _) in answers.items() if word == "LATER"]
            if unsure and looks < _LOOKS:
                rest += unsure
                self._link.pause(_PAUSE_S)
            for run_id, (word, detail) in answers.items():
                if run_id not in rest:
                    outcomes[run_id] = self._cancelled(run_id, word, detail)
        return outcomes

    def original(self, run_id: str) -> tuple[list[bytes] | None, str]:
        """
        Ask an archive for the original fields of the job of *run_id*. []: they are deleted. None: no run is known, or
        no archive answered for the returned reason.
        """
        answer = ask_archives(self._link, self._keys, "record", run_id=run_id)
        if "record" not in answer:
            return None, str(answer.get("error", "the archive's answer is not understood"))
        record = answer["record"]
        return None if record is None else [each.encode("latin-1") for each in record], ""

    # -- how ------------------------------------------------------------------------------------------

    def _signatures(self, run_ids: Sequence[str], records: Mapping[str, list[bytes]]) -> list[bytes]:
        """Return the signature of the repetition of each of *run_ids*; b"" if there is none."""
        if self._signer is None:
            return [b""] * len(run_ids)
        with self._link.wire() as wire:
            replies = wire.replies([("HGETALL", self._keys.rq.job(run_id)) for run_id in run_ids])
        found = []
        for run_id, reply in zip(run_ids, replies, strict=True):
            texts = records.get(run_id) or ([] if isinstance(reply, RedisRefused) else reply)
            found.append(self._signer.retry(run_id, dict(zip(map(text, texts[::2]), texts[1::2], strict=True))))
        return found

    def _ours(self, run_ids: Sequence[str]) -> tuple[list[str], dict[str, IdOutcome]]:
        """Return the runs of this namespace among *run_ids*, each once, and outcomes for the others."""
        ours, outcomes = [], {}
        for run_id in dict.fromkeys(run_ids):
            if run_key(run_id, self._keys.namespace) is not None:
                ours.append(run_id)
                continue
            error = RunNotFound(
                f"{run_id!r} is not a run of namespace {self._keys.namespace!r}: run ids are <schedule id>-<ms>"
                f"{self._keys.run_suffix}{for_match(run_id)}",
                "zsched history",
            )
            outcomes[run_id] = IdOutcome("", error=error)
        return ours, outcomes

    def _call(self, name: str, run_ids: Sequence[str], rows: list[Any], **arguments: Any) -> dict[str, tuple[str, str]]:
        """Return the word and detail of each of *run_ids*."""
        _, *texts = self._scripts.call(name, rows=rows, **arguments)
        answers = zip(map(text, texts[::2]), map(text, texts[1::2]), strict=True)
        return dict(zip(run_ids, answers, strict=True))

    def _cancel(self, run_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        now_ms, rows = server_now_ms(self._link, self._keys), []
        for run_id, job in zip(run_ids, self._jobs.read(run_ids), strict=True):
            run = Run(run_id, RunStatus.QUEUED)
            run = run if job is None else as_seen(run, job)
            facts = facts_text(run._replace(status=RunStatus.CANCELLED, ended_ms=now_ms))
            rows += [run.schedule_id, run_id, "-" if job is None else f"{job.status} {job.queued_at}", facts]
        return self._call("cancel_run", run_ids, rows, most_waiting=MOST_WAITING)

    def _cancelled(self, run_id: str, word: str, detail: str) -> IdOutcome:
        """Return the outcome for a word of cancel_run.lua."""
        if word in ("cancelled", "stopping"):
            return IdOutcome(word)
        if word == "UNKNOWN":
            record, problem = self.original(run_id)
            if record is None:
                return IdOutcome("", error=self._not_found(run_id, problem))
        elif word != "over":
            return IdOutcome("", error=self._refusal(run_id, word, detail))
        return IdOutcome("already_over")

    @staticmethod
    def _gone(run_id: str) -> PayloadGone:
        """Return the error for a run that RQ has forgotten, and that cannot be retried."""
        return PayloadGone(
            f"run {run_id!r}: RQ has forgotten it, and the archive does not have its arguments"
            " ([archive] keep_args = false, or it is older than what is kept); enqueue it anew"
        )

    def _not_found(self, run_id: str, problem: str) -> RunNotFound:
        why = f"; {problem}, so it is unknown whether it existed before" if problem else ", and no archive knows it"
        return RunNotFound(f"no run {run_id!r} in namespace {self._keys.namespace!r}: RQ has no such job{why}")

    def _refusal(self, run_id: str, word: str, detail: str) -> ZschedError:
        """Return the exception for a refusal by retry.lua or cancel_run.lua."""
        if word == "WAITS":
            id = schedule_of(run_id)
            remedy = f"cancel or run_now the schedule {id!r}"
            return RunNotOver(f"{run_id!r} is not a run yet: schedule {id!r} has not fired; {remedy}")
        if word == "NOTOVER":
            status = "running" if detail == "started" else "queued"
            return RunNotOver(
                f"run {run_id!r} is {status}, so it is not over; wait for its end, or cancel_run it first"
            )
        if word in ("TAKEN", "AGAIN"):
            problem = "it is on its way to a worker, or was lost on the way"
            return RunNotOver(f"run {run_id!r} could not be cancelled: {problem}; try again when it runs")
        if word == "DEAF":
            problem = f"its worker {detail!r} does not respond, and has probably died"
            return RunNotOver(f"run {run_id!r} could not be stopped: {problem}; it ends when RQ abandons it")
        if word == "WRONGTYPE":
            keys = "its queue's, a registry's or its rate limit's key"
            return RedisRefused(f"run {run_id!r}: {keys} holds a value of another type; see redis-cli TYPE")
        problem = "its job in RQ was changed by another writer"
        return RedisRefused(f"run {run_id!r}: {problem}; see redis-cli HGETALL {self._keys.rq.job(run_id)}")
