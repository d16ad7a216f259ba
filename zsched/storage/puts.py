"""
Schedules to put, in the form that the put scripts take, and the calls of these scripts.

Schedules that differ only in id, time or rule, and arguments share a *shape*, which a call has once, with a row for
each. ``PutScripts`` makes shapes and rows of definitions, signs them, and calls the scripts put, put_recurring and
enqueue. Each call is safe to repeat by id or operation id. ``refusals`` has the exceptions for their refusals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from zsched.core.model import After, At, Definition
from zsched.core.occurrences.first_times import Bracket, PlannedRule
from zsched.core.options.checked import policy_text
from zsched.core.options.choices import IfExists, Priority
from zsched.core.options.forms import Stored
from zsched.core.runs.job import OFFSET_FIELD, SIGNATURE_FIELD, UNSIGNED
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import delay_of
from zsched.errors import InvalidSchedule, RedisUnavailable
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import LogPlace
from zsched.storage.meta import server_now_ms
from zsched.storage.named_texts import read_calendars
from zsched.storage.rivals import RQ_SCHEDULED_OWNER, RQ_SCHEDULER_OWNER
from zsched.storage.rqjob import Encoder
from zsched.storage.rqoptions import Pairs
from zsched.storage.scripts import BulkCall, Scripts, stream

if TYPE_CHECKING:
    from zsched.storage.signing import Signer

ROW_SIZE: Final = 4
RELATIVE: Final = ("+", "=")  # how the due of a delay begins
_RUN_TIMES: Final = 1000  # tries for the id of a run: so many calls of one id in a second
_WRITTEN: Final = frozenset({b"created", b"updated"})  # words of a put that wrote a schedule
_READ_BY_FIRE: Final = ("origin", "zs")  # fields of a waiting job; lua/put.lua writes its status before them
DONE: Final = frozenset("created updated unchanged kept already_fired".split())  # and of those that found nothing to do


@dataclass(frozen=True)
class Shape:
    """
    The shared part of schedules that differ in id, time or rule, and arguments. ``job``: fields of their jobs, or of
    the templates of their runs; ``own``: those of recurring schedules for zsched; both flat. ``enabled``: "1", "0" or
    "". ``signed``: what signatures cover besides their rows (``Signer.shared``); b"" without a signer.
    """

    lane: Priority
    job: tuple[str | bytes, ...]
    own: tuple[str | bytes, ...]
    if_exists: IfExists
    enabled: str
    allow_past: bool = False
    durable: bool = False
    signed: bytes = b""

    @cached_property
    def texts(self) -> tuple[str | bytes | int, ...]:
        """The texts of the shape for put_recurring.lua."""
        sizes = len(self.own), len(self.job)
        return self.lane.value, self.if_exists.value, self.enabled, *sizes, *self.own, *self.job

    @cached_property
    def begun(self) -> hashlib.blake2b:
        """The digest of its schedules, before rule and data."""
        digest = hashlib.blake2b(digest_size=12)
        digest.update(_separated(self.lane.value, *self.own, *self.job))
        return digest


class Put(NamedTuple):
    """
    A schedule to put. ``due`` of a one-shot: ms; "+" and ms from the server's now; or "=" and such a time, computed.
    ``name``: of its data (core/runs/job.py). ``if_version``: put it only if Redis has this version; "": in any
    case.
    """

    shape: Shape
    id: str
    due: str
    name: bytes
    data: bytes
    rule: PlannedRule | None = None
    if_version: str = ""

    @property
    def row(self) -> tuple[str, str, bytes, bytes]:
        """The texts of its row for put.lua."""
        return self[1:5]

    @property
    def is_relative(self) -> bool:
        """True if it is due some time after the server's now."""
        return self.due[:1] in RELATIVE

    @property
    def is_conditional(self) -> bool:
        """True if the same put, sent twice, may be answered differently."""
        return bool(self.if_version) or self.shape.if_exists is not IfExists.REPLACE

    @property
    def digest(self) -> str:
        """The digest of a recurring schedule: a put changes nothing if Redis has it, and the signature, already."""
        assert self.rule is not None
        digest = self.shape.begun.copy()
        digest.update(_separated(self.rule.text, self.data))
        return digest.hexdigest()


class Answer(NamedTuple):
    """
    Result of a put: created, updated, unchanged, kept, already_fired, EXISTS, PAST, CHANGED:<present version>, TAKEN,
    WRONGTYPE or AGAIN.

    ``detail``: the due time in ms, for an enqueue the run id, or None. ``place``: where it was in the log.
    ``version``: the new version of its schedule; None if it wrote none.
    """

    word: str
    detail: str | None
    place: LogPlace
    version: str | None = None


class Replies(NamedTuple):
    """
    Results of a call with many rows: its place in the log, and per row a word of ``Answer`` and its due time or "-".
    """

    place: LogPlace
    words: list[bytes]
    due_ms: list[bytes]


def one_shots_call(shape: Shape, if_version: str, rows: Iterable[str | bytes], op: str | None) -> BulkCall:
    """Return the call of put.lua for *rows* of *shape*: the texts of one after another."""
    arguments = {
        "lane": shape.lane.value,
        "if_exists": shape.if_exists.value,
        "enabled": shape.enabled,
        "allow_past": str(int(shape.allow_past)),
        "seen_version": if_version,
        "op": op or "-",
        "field_size": str(len(shape.job)),
    }
    return "put", [*shape.job, *rows], arguments


def recurring_call(rows: Iterable[tuple[Put, Bracket]], op: str | None) -> BulkCall:
    """Return the call of put_recurring.lua for *rows* of any shapes, each with its plan."""
    numbers: dict[int, int] = {}  # by identity of the shape, for speed
    shapes: dict[tuple[Any, ...], int] = {}
    texts: list[Any] = []
    for put, bracket in rows:
        if (number := numbers.get(id(put.shape))) is None:
            number = numbers[id(put.shape)] = shapes.setdefault(put.shape.texts, len(shapes) + 1)
        assert put.rule is not None
        texts += (
            number, put.id, put.if_version, put.rule.text, put.digest, put.name, put.data,
            "" if bracket.anchor_ms is None else bracket.anchor_ms, bracket.next, bracket.jitter_ms,
            bracket.from_ms, bracket.until_ms,
        )  # fmt: skip
    arguments = {"op": op or "-", "shape_count": len(shapes)}
    return "put_recurring", [*chain.from_iterable(shapes), *texts], arguments


class PutScripts:
    """The put scripts of one namespace, over one link. *by*: who asks, for the log. *signer*: None signs nothing."""

    def __init__(self, link: Link, keys: Keys, encoder: Encoder, by: str = "", signer: Signer | None = None) -> None:
        self._link, self.keys, self.encoder, self._by, self.signer = link, keys, encoder, by, signer
        self._scripts = Scripts(link, keys, by)
        self._is_serializer_agreed = False
        self.server_now_ms, self.calendars = partial(server_now_ms, link, keys), partial(read_calendars, link, keys)

    def acting_as(self, by: str) -> PutScripts:
        """Return the same, with another *by*."""
        other = copy(self)
        other._by, other._scripts = by, Scripts(self._link, self.keys, by)
        return other

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

    def _claim_serializer(self, place: LogPlace) -> None:
        """Record the serializer of the namespace, after the first put that wrote a schedule."""
        if place.is_written and not self._is_serializer_agreed:
            try:  # another client may be faster; the next check finds that out
                claimed = self._link.execute("HSETNX", self.keys.meta(), "serializer", self.encoder.serializer)
            except RedisUnavailable as error:  # the put itself was answered
                raise error.but(may_have_been_applied=True) from error
            self._is_serializer_agreed = bool(claimed)

    def from_definition(self, definition: Definition, *, signs: bool = True) -> Put:
        """
        Return the schedule of a checked *definition*, ready to be put, and signed if *signs* and there is a signer.
        Raises InvalidSchedule.
        """
        shape, data = self._shape(definition, self.signer if signs else None), self.encoder.data(definition)
        when, if_version = definition.when, definition.if_version or ""
        if isinstance(when, TriggerSpec):
            return self.recurring(shape, definition.id, PlannedRule(when), data, if_version)
        delay_ms = delay_of(definition.id, definition.jitter_ms) if definition.jitter_ms else 0
        due = f"{when.due_ms + delay_ms}" if isinstance(when, At) else f"+{cast(After, when).delay_ms + delay_ms}"
        return self.one_shot(shape, definition.id, due, data, if_version)

    def _shape(self, definition: Definition, signer: Signer | None) -> Shape:
        """Return the shape of a schedule. Raises InvalidSchedule for options that RQ does not accept."""
        job, own, allow_past = self.encoder.shared(definition), Pairs(), definition.allow_past
        letters = definition.letters()
        if isinstance(definition.when, TriggerSpec):
            func = str(job.get("zs_func", job["description"]))
            own = {"func": func, **definition.texts(Stored.LABEL), **definition.texts(Stored.OWN)}
            if policy := policy_text(definition):
                own["policy"] = policy
            job["status"], allow_past = "queued", False
            if of_run := letters + "q" * definition.policy.overlap.waits:  # q: others wait for it (rq/workers.py)
                job["zs"] = "1" + of_run  # a new archive reads the others there while the run is open
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
            enabled="" if definition.enabled is None else str(int(definition.enabled)),
            allow_past=allow_past,
            durable=definition.durable,
            signed=b"" if signer is None else signer.shared(job),
        )

    def one_shot(self, shape: Shape, id: str, due: str, data: bytes, if_version: str = "") -> Put:
        """
        Return a one-shot to put, not signed yet. If it will be signed, a delay becomes a due time. Raises
        InvalidSchedule: the key may not sign it; RedisUnavailable, RedisRefused.
        """
        if self.signer is not None and shape.signed:
            self._demand_signable(id, shape.job, data)
            if due[0] in RELATIVE:
                due = f"={self.signer.server_now_ms() + int(due)}"
        return Put(shape, id, due, UNSIGNED, data, None, if_version)

    def recurring(self, shape: Shape, id: str, rule: PlannedRule, data: bytes, if_version: str = "") -> Put:
        """Return a recurring schedule to put, signed. Raises InvalidSchedule."""
        name = UNSIGNED
        if self.signer is not None and shape.signed:
            self._demand_signable(id, shape.job, data)
            name = self.signer.schedule(shape.signed, id, data)
        return Put(shape, id, "", name, data, rule, if_version)

    def _demand_signable(self, id: str, pairs: Sequence[Any], data: bytes) -> None:
        """Check that the key, if it has limits, may sign the job with *data* and the flat *pairs*."""
        if self.signer is not None and (problem := self.signer.problem_of(pairs, data)):
            remedy = "let a client do it whose key may, or widen the limits of this key in the files of all workers"
            raise InvalidSchedule("id", id, problem, remedy)

    def sign(self, shape: Shape, texts: Sequence[Any]) -> Sequence[Any]:
        """Return the *texts* of rows of one-shots, signed if the *shape* is for it. Raises ConfigError."""
        if self.signer is None or not shape.signed:
            return texts
        found = [*texts]
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
        return self._answer(word, now_ms, due_ms, change)

    def _answer(self, word: bytes, now_ms: bytes | int, detail: bytes, change: bytes) -> Answer:
        """Return the answer of a script; *change*: ``<next entry>/<version>``."""
        entry, _, version = change.decode().partition("/")
        place = LogPlace(entry, int(now_ms), word in _WRITTEN)
        if not self._is_serializer_agreed:
            self._claim_serializer(place)
        found = None if detail == b"-" else detail.decode()
        return Answer(word.decode(), found, place, version if place.is_written else None)

    def put_many(self, calls: Iterable[BulkCall]) -> Iterator[Replies]:
        """Put by ``one_shots_call`` and ``recurring_call``, ids distinct in a call. Yield replies in their order."""
        for reply in stream(self._link, self.keys, ("put", "put_recurring"), self._agreed(calls), self._by):
            entry, words = reply[1].decode().partition("/")[0], reply[2::2]
            place = LogPlace(entry, int(reply[0]), not _WRITTEN.isdisjoint(words))
            self._claim_serializer(place)
            yield Replies(place, words, reply[3::2])

    def _agreed(self, calls: Iterable[BulkCall]) -> Iterator[BulkCall]:
        for call in calls:
            self.check_serializer()
            yield call

    def enqueue(self, definition: Definition, waits_ms: int | None = None) -> Answer:
        """
        Push one run at once; ``detail`` is its run id, or that of the run that is kept; None: a schedule is.
        *waits_ms*: the due time of a waiting one-shot with this definition, which runs now instead, and is signed for
        that; CHANGED if it is another one.
        """
        data = self.encoder.data(definition)
        pairs = self.encoder.shared(definition) | {"data": data} | definition.texts(Stored.LABEL, "zs_")
        signer, seen_version = self.signer, ""
        run_times: Iterable[str | int] = [""]  # the script makes the id of a run that is not signed
        if waits_ms is not None:
            assert signer is not None  # it has checked the signature of the one that waits
            signer, seen_version, run_times = signer.letting_run_now(), definition.if_version or "", [waits_ms]
            pairs["zs"] = "1" + definition.letters()
        elif signer is not None:
            run_times = count(signer.server_now_ms())  # another call of this id may have the same ms
        if definition.unique_ms:
            pairs["zs_unique"] = str(definition.unique_ms)
        self._demand_signable(definition.id, flat(pairs), data)
        self.check_serializer()
        own = {"id": definition.id, "if_exists": definition.if_exists.value, "at_front": int(definition.at_front)}
        reply = list[Any]()
        for run_ms in islice(map(str, run_times), _RUN_TIMES):
            if signer is not None:
                [pairs[SIGNATURE_FIELD]] = signer.one_shots(signer.shared(pairs), [definition.id], [run_ms], [data])
            rows = flat(pairs)
            reply = self._scripts.call("enqueue", rows=rows, run_ms=run_ms, seen_version=seen_version, **own)
            if reply[0] != b"AGAIN":
                break
        word, now_ms, entry, run_id = reply
        return self._answer(word, now_ms, run_id, entry)


def flat(pairs: Pairs | dict[str, str]) -> tuple[str | bytes, ...]:
    """Return field and value texts: those that fire reads, as Redis finds the first ones soonest, then by field."""
    fields = sorted(pairs, key=lambda field: (field not in _READ_BY_FIRE, field))
    return tuple(each for field in fields for each in (field, pairs[field]))


def _separated(*texts: str | bytes) -> bytes:
    """Join texts by a separator that keeps different lists different."""
    return b"".join(each for one in texts for each in (one if isinstance(one, bytes) else one.encode(), b"\0"))
