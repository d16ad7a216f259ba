"""
A client's operations on schedules: one typed operation per script, safe to repeat by id or operation id.

No policy and no planning here: the caller decides what to write, and gets a word as the result. ``refusals`` has the
exceptions for the words by which scripts refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zsched.core.entry import text as shown
from zsched.core.model import At, Definition
from zsched.core.occurrences.planning import Bracket, PlannedRule
from zsched.core.occurrences.policy import Range
from zsched.core.options.choices import Missed
from zsched.core.options.forms import Stored
from zsched.core.runs.job import OFFSET_FIELD
from zsched.core.runs.signature import SIGNATURE_FIELD, UNSIGNED
from zsched.core.triggers import TriggerSpec
from zsched.errors import InvalidSchedule, RedisUnavailable
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import LogPlace
from zsched.storage.meta import server_now_ms
from zsched.storage.refusals import refusal
from zsched.storage.rivals import RQ_SCHEDULED_OWNER, RQ_SCHEDULER_OWNER
from zsched.storage.rqjob import Encoder, Pairs
from zsched.storage.scripts import BulkCall, Scripts, stream
from zsched.storage.shapes import (
    KEEP_OP_MS,
    RELATIVE,
    ROW_SIZE,
    Put,
    Shape,
    flat,
    one_shots_call,
    recurring_call,
)

if TYPE_CHECKING:
    from zsched.storage.signer import Signer

BACKFILLED_AT_ONCE: Final = 100  # runs: about 1 ms of the server

_RUN_TIMES: Final = 1000  # tries for the id of a run: so many calls of one id in a second
_WRITTEN: Final = frozenset({"created", "updated"})  # words of a put that wrote a schedule
DONE: Final = _WRITTEN | {"unchanged", "kept", "already_fired"}  # and of those that found nothing to do


@dataclass(frozen=True, slots=True)
class Answer:
    """
    Result of a put: created, updated, unchanged, kept, already_fired, EXISTS, PAST, CHANGED:<present version>, TAKEN,
    WRONGTYPE or AGAIN.

    ``detail``: the due time in ms, for an enqueue the run id, or None. ``place``: where it was in the log.
    ``version``: the new version of its schedule; None if it wrote none.
    """

    word: str
    now_ms: int
    detail: str | None
    place: LogPlace
    version: str | None = None

    @classmethod
    def from_reply(cls, word: bytes | str, now_ms: bytes | int, detail: bytes | str, change: bytes | str) -> Answer:
        """Return the answer of a script; *change*: ``<next entry>/<version>``."""
        said, detail, change = (each.decode() if isinstance(each, bytes) else each for each in (word, detail, change))
        entry, _, version = change.partition("/")
        place = LogPlace(entry, int(now_ms), said in _WRITTEN)
        return cls(said, place.at_ms, None if detail == "-" else detail, place, version if place.is_written else None)


class Replies(NamedTuple):
    """
    Results of a call with many rows: the server's time, the call's place in the log, and per row a word of ``Answer``
    and its due time or "-".
    """

    now_ms: int
    place: LogPlace
    words: list[bytes]
    due_ms: list[bytes]


class SkipPlan(NamedTuple):
    """
    The plan of a recurring schedule that is resumed without its missed occurrences; made for a schedule with this due
    time and version.
    """

    seen_due_ms: int
    version: str
    passed: Range
    bracket: Bracket

    def to_text(self) -> str:
        """Return the plan for resume.lua."""
        bracket, passed = self.bracket, self.passed
        words = (self.seen_due_ms, self.version, bracket.next or "-", bracket.from_ms, bracket.until_ms)
        return " ".join(map(str, (*words, bracket.jitter_ms, passed.first_ms, passed.last_ms, passed.count)))


class Refilled(NamedTuple):
    """Runs that were pushed: a word, and per run its id; None for an occurrence whose run exists, or is open."""

    word: str
    run_ids: list[str | None]


class Store:
    """The writing side of one namespace over one link. ``by``: who asks, for the log. *signer*: None signs nothing."""

    def __init__(self, link: Link, keys: Keys, encoder: Encoder, by: str = "", signer: Signer | None = None) -> None:
        self._link, self.keys, self.encoder, self.by, self.signer = link, keys, encoder, by, signer
        self._scripts = Scripts(link, keys, by)
        self._is_serializer_agreed = False

    def acting_as(self, by: str) -> Store:
        """Return the same store, with another *by*."""
        other = copy(self)
        other.by, other._scripts = by, Scripts(self._link, self.keys, by)
        return other

    def with_signer(self, signer: Signer | None) -> Store:
        """Return the same store, which signs by *signer*."""
        other = copy(self)
        other.signer = signer
        return other

    def demand(self, word: str, id: str, **about: Any) -> None:
        """Raise the ``refusal`` of *word*, if it is one; *about*: for its message."""
        error = refusal(word, id, self.keys, **about)
        if error is not None:
            raise error

    def check_serializer(self) -> None:
        """
        Check that the namespace uses this serializer, or none yet. Every put calls it after all other checks.

        Raises:
            InvalidSchedule: the namespace uses another one.
        """
        if self._is_serializer_agreed:
            return
        serializer, held = self.encoder.serializer, self._link.execute("HGET", self.keys.meta(), "serializer")
        if held is not None and held.decode() != serializer:
            problem = f"namespace {self.keys.namespace!r} uses {held.decode()}"
            remedy = f'use serializer="{held.decode()}" ([rq] serializer in settings) or another namespace'
            raise InvalidSchedule("serializer", serializer, problem, remedy)
        self._is_serializer_agreed = held is not None

    def _claim_serializer(self, *words: bytes | str) -> None:
        """Record the serializer of the namespace, after the first put that wrote a schedule."""
        if not self._is_serializer_agreed and any(_text(word) in _WRITTEN for word in words):
            try:  # another client may be faster; the next check finds that out
                claimed = self._link.execute("HSETNX", self.keys.meta(), "serializer", self.encoder.serializer)
            except RedisUnavailable as error:  # the put itself was answered
                raise error.but(may_have_been_applied=True) from error
            self._is_serializer_agreed = bool(claimed)

    # -- puts -----------------------------------------------------------------------------------

    def shape(self, definition: Definition) -> Shape:
        """Return the shape of a schedule. Raises InvalidSchedule for options that RQ does not accept."""
        job, own, allow_past = self.encoder.shared(definition), Pairs(), definition.allow_past
        letters = definition.letters()
        if isinstance(definition.when, TriggerSpec):
            func = str(job.pop("zs_func", job["description"]))
            own = {"flags": letters, "func": func, **definition.texts(Stored.LABEL), **definition.texts(Stored.OWN)}
            if policy := definition.policy.to_text():
                own["policy"] = policy
            job["status"], allow_past = "queued", False
            if letters:  # also in a run's job: a new archive reads them there while the run is open
                job["zs"] = "1" + letters
        else:
            is_moved = definition.owner in (RQ_SCHEDULED_OWNER, RQ_SCHEDULER_OWNER)
            job |= definition.texts(Stored.LABEL, "zs_")
            job["zs"] = "1" + letters + ("m" if is_moved else "")  # m: see lua/lib/moved.lua
            if isinstance(definition.when, At) and definition.when.offset_s is not None:
                job[OFFSET_FIELD] = str(definition.when.offset_s)
        return Shape(
            lane=definition.priority,
            job=flat(job),
            own=flat(own),
            if_exists=definition.if_exists,
            enabled=definition.enabled,
            allow_past=allow_past,
            durable=definition.durable,
            signed=b"" if self.signer is None else self.signer.shared(job),
        )

    def one_shot(self, shape: Shape, id: str, due: str, data: bytes, if_version: str = "") -> Put:
        """
        Return a one-shot to put, not signed yet. If it will be signed, a delay becomes a due time. Raises
        InvalidSchedule: the key may not sign it; RedisUnavailable, RedisRefused.
        """
        if self.signer is not None:
            self._demand_signable(id, shape.job, data)
            if due[0] in RELATIVE:
                due = f"={self.signer.server_now_ms() + int(due)}"
        return Put(shape, id, due, UNSIGNED, data, None, if_version)

    def recurring(self, shape: Shape, id: str, rule: PlannedRule, data: bytes, if_version: str = "") -> Put:
        """Return a recurring schedule to put, signed. Raises InvalidSchedule."""
        self._demand_signable(id, shape.job, data)
        name = UNSIGNED if self.signer is None else self.signer.schedule(shape.signed, id, data)
        return Put(shape, id, "", name, data, rule, if_version)

    def _demand_signable(self, id: str, pairs: Sequence[Any], data: bytes) -> None:
        """Check that the key, if it has limits, may sign the job with *data* and the flat *pairs*."""
        if self.signer is not None and (problem := self.signer.problem_of(pairs, data)):
            remedy = "let a client do it whose key may, or widen the limits of this key in the files of all workers"
            raise InvalidSchedule("id", id, problem, remedy)

    def sign(self, shape: Shape, texts: Sequence[Any]) -> list[Any]:
        """Return the *texts* of rows of one-shots, signed if the *shape* is for it. Raises ConfigError."""
        found = [*texts]
        if self.signer is not None and shape.signed:
            found[2::ROW_SIZE] = self.signer.one_shots(
                shape.signed, texts[::ROW_SIZE], texts[1::ROW_SIZE], texts[3::ROW_SIZE]
            )
        return found

    def put(self, put: Put, op: str | None, plan: Bracket | None = None) -> Answer:
        """
        Put a one-shot, or a recurring schedule by *plan*: AGAIN if the server's time is outside of that. *op* makes a
        relative or conditional call repeatable.
        """
        if plan is None:
            row = put.row if self.signer is None else self.sign(put.shape, put.row)
            name, rows, arguments = one_shots_call(put.shape, put.if_version, row, op)
        else:
            name, rows, arguments = recurring_call([(put, plan)], op)
        if not self._is_serializer_agreed:
            self.check_serializer()
        now_ms, change, word, due_ms = self._scripts.call(name, rows=rows, **arguments)
        if not self._is_serializer_agreed:
            self._claim_serializer(word)
        return Answer.from_reply(word, now_ms, due_ms, change)

    def server_now_ms(self) -> int:
        """Return the server's time, as scripts see it."""
        return server_now_ms(self._link, self.keys)

    # -- many -------------------------------------------------------------------------------------

    def put_many(self, calls: Iterable[BulkCall]) -> Iterator[Replies]:
        """Put by ``one_shots_call`` and ``recurring_call``, ids distinct in a call. Yield replies in their order."""
        for reply in stream(self._link, self.keys, ("put", "put_recurring"), self._agreed(calls), self.by):
            words = reply[2::2]
            self._claim_serializer(*words)
            yield Replies(int(reply[0]), _place(reply[1], reply[0], *words), words, reply[3::2])

    def _agreed(self, calls: Iterable[BulkCall]) -> Iterator[BulkCall]:
        for call in calls:
            self.check_serializer()
            yield call

    # -- runs now ---------------------------------------------------------------------------------

    def enqueue(self, definition: Definition, op: str, waits_ms: int | None = None) -> Answer:
        """
        Push one run at once; ``detail`` is its run id, or that of the run that is kept; None: a schedule is.
        *waits_ms*: the due time of a waiting one-shot with this definition, which runs now instead, and is signed for
        that; CHANGED if it is another one.
        """
        data = self.encoder.data(definition.payload)
        pairs = self.encoder.shared(definition) | {"data": data} | definition.texts(Stored.LABEL, "zs_")
        signer, seen_version = self.signer, ""
        if waits_ms is not None:
            assert signer is not None  # it has checked the signature of the one that waits
            signer, seen_version = signer.letting_run_now(), definition.if_version or ""
            pairs["zs"] = "1" + definition.letters()
        if definition.unique_ms:
            pairs["zs_unique"] = str(definition.unique_ms)
        self._demand_signable(definition.id, flat(pairs), data)
        self.check_serializer()
        word, now_ms, entry, run_id = b"AGAIN", 0, b"", b""
        for run_ms in self._run_times() if waits_ms is None else [str(waits_ms)]:
            if signer is not None:
                [pairs[SIGNATURE_FIELD]] = signer.one_shots(signer.shared(pairs), [definition.id], [run_ms], [data])
            word, now_ms, entry, run_id = self._scripts.call(
                "enqueue",
                id=definition.id,
                if_exists=definition.if_exists.value,
                op=op,
                keep_op_ms=KEEP_OP_MS,
                at_front=int(definition.at_front),
                run_ms=run_ms,
                seen_version=seen_version,
                rows=flat(pairs),
            )
            if _text(word) != "AGAIN":
                break
        self._claim_serializer(word)
        return Answer.from_reply(word, now_ms, run_id, entry)

    def _run_times(self) -> Iterator[str]:
        """Yield times for the id of a run that is pushed now: a signer signs it; else the script makes it."""
        if self.signer is None:
            yield ""
            return
        now_ms = self.signer.server_now_ms()
        yield from map(str, range(now_ms, now_ms + _RUN_TIMES))

    def run_now(self, id: str, op: str, if_version: str | None = None) -> tuple[str, str | None]:
        """
        Push a run of a schedule at once: fired, and its run id; NOTFOUND, CHANGED:<version>, WRONGTYPE or QUARANTINED.
        SIGNED: it is a one-shot with a signature for its time.
        """
        word, run_ids = self._run_now(id, op, if_version or "", [])
        return word, run_ids[0] if run_ids else None

    def backfill(self, id: str, version: str, occurrences: Iterable[tuple[int, bool]], op: str) -> Refilled:
        """
        Push runs of a recurring schedule for up to ``BACKFILLED_AT_ONCE`` *occurrences*: nominal ms, and True if it ran
        and has to run again. The word is fired, NOTFOUND, CHANGED:<version>, QUARANTINED or WRONGTYPE.
        """
        texts = [text for ms, is_again in occurrences for text in (str(ms), "again" if is_again else "once")]
        return self._run_now(id, op, version, texts) if texts else Refilled("fired", [])

    def _run_now(self, id: str, op: str, seen_version: str, rows: Sequence[str]) -> Refilled:
        arguments = {"seen_version": seen_version, "op": op, "keep_op_ms": KEEP_OP_MS}
        word, _, *run_ids = self._scripts.call("run_now", id=id, rows=rows, **arguments)
        return Refilled(_text(word), [_detail(run_id) for run_id in run_ids])

    # -- life cycle: many schedules in a step, a word for each ---------------------------------------

    def cancel(self, ids: Sequence[str], op: str, if_version: str | None = None) -> list[str]:
        """Delete schedules: cancelled, NOTFOUND or CHANGED:<version>."""
        seen = if_version or ""
        _, *words = self._scripts.call("cancel", op=op, keep_op_ms=KEEP_OP_MS, seen_version=seen, rows=ids)
        return [_text(word) for word in words]

    def pause(self, ids: Sequence[str], note: str, op: str, if_version: str | None = None) -> list[str]:
        """Take schedules out of their lanes: paused, unchanged, NOTFOUND, QUARANTINED, ENDED or CHANGED:<version>."""
        keep_op_ms, seen = KEEP_OP_MS if if_version else 0, if_version or ""
        _, *words = self._scripts.call("pause", op=op, keep_op_ms=keep_op_ms, seen_version=seen, note=note, rows=ids)
        return [_text(word) for word in words]

    def resume(
        self,
        plans: Mapping[str, SkipPlan | None],
        op: str,
        missed: Missed,
        if_version: str | None = None,
        place: str = "paused",
    ) -> tuple[int, list[str]]:
        """
        Resume the schedules of *plans* that are in *place*, paused or quarantine. Return the server's time and a word
        for each: resumed, skipped, unchanged, NOTFOUND, QUARANTINED, BROKEN, ENDED, WRONGTYPE, CHANGED:<version>;
        AGAIN: plan (again).
        """
        rows = [text for id, plan in plans.items() for text in (id, "" if plan is None else plan.to_text())]
        arguments = {"missed": missed.value, "seen_version": if_version or "", "place": place}
        now_ms, *words = self._scripts.call("resume", op=op, keep_op_ms=KEEP_OP_MS, rows=rows, **arguments)
        return int(now_ms), [_text(word) for word in words[::2]]


def _text(word: bytes | str) -> str:
    return shown(word) if isinstance(word, bytes) else word


def _detail(value: bytes | str) -> str | None:
    text = _text(value)
    return None if text == "-" else text


def _place(change: bytes | str, now_ms: bytes | int, *words: bytes | str) -> LogPlace:
    """Return the place of a put in the log, from its ``<next entry>/<version>`` and its rows' words."""
    is_written = any(_text(word) in _WRITTEN for word in words)
    return LogPlace(_text(change).partition("/")[0], int(now_ms), is_written)
