"""
The signed text of a job, the check of a signature, and a client's side: it signs what it puts, and what it lets run
once more.

A signature is an HMAC-SHA256, cut to 128 bits, of a text that covers everything by which a worker decides what to run:

- the namespace, and the *subject*: a run id, or the id of a recurring schedule;
- the time until which it is valid;
- the call, which is RQ's ``data`` inflated: function, instance, args and kwargs;
- the queue, ``meta``, the callbacks, the timeouts, and how often RQ may repeat the run: ``SIGNED``.

Each part has its length in front, so no two jobs have the same text. RQ writes a job again when it retries or requeues
it. It writes these parts unchanged, but ``data`` deflated, and JSON with spaces. So ``data`` is signed inflated, and
JSON without spaces. It counts ``retries_left`` down: that is at most ``zs_retries``, which is signed.

A run id has the time of its run, and no job runs before it, unless a client signed the one-shot to be run now.

Redis copies a recurring schedule's template, so a signature of a schedule holds for each of its runs, and cannot tell a
replay from a run. Until then it may run any number of times. The same is true of a retried run, as Redis numbers it.

**A client** makes a signature before the call. So a signed one-shot with a delay needs its due time before: the client
reads the server's clock, and counts from there, instead of leaving that to the script. A signature is valid for
``valid_days`` after the due time of a one-shot, or after the put of a recurring schedule. The end is rounded up to a
tenth of that. So a put that is repeated the next day is the same put, and one that is repeated after a tenth of the
time makes the schedule valid for longer.

Not guaranteed: that a delay is exact to the millisecond. The server's clock is read once a second at most.
"""

import hashlib
import hmac
import json
import threading
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from enum import Enum
from typing import Any, Final, NamedTuple, Self

from zsched.config.bounds import MOST_VALID_DAYS
from zsched.core.clock import Clock, SystemClock, from_ms
from zsched.core.entry import text
from zsched.core.runs.job import CALLBACKS, SIGNATURE_FIELD, parts_of
from zsched.core.runs.run_id import RunId, suffix_of
from zsched.errors import InvalidSchedule
from zsched.storage.keyfile import BLOCK_BYTES, KeyFile, KeyRing, SigningKey
from zsched.storage.keys import Keys
from zsched.storage.unpickling import NotPlain, demand_plain, inflated, is_pickle, read_shown

Fields = Mapping[str, Any]  # of a job: texts or bytes
_PARTS: Final = 4  # of a payload: function, instance, args, kwargs
# The signed fields of a job besides its data. zsched writes no webhooks and no repeats; workers would obey both.
SIGNED: Final = (
    "origin", "timeout", "meta", "success_callback_name", "failure_callback_name", "stopped_callback_name",
    "success_callback_timeout", "failure_callback_timeout", "stopped_callback_timeout",
    "retry_intervals", "zs_retries", "repeat_intervals", "repeats_left", "webhooks",
)  # fmt: skip
_IN_JSON: Final = ("meta", "retry_intervals")
LATEST_S: Final = 0xFFFFFFFFF  # the last second that nine hexadecimal digits can name
_CODE_BYTES, _CODE_CHARACTERS = 16, 22
_HEAD: Final = b"zsched 1 "
EARLY_S: Final = 60  # clocks of machines may differ by so much
_STEPS: Final = 10  # of the time for which a signature is valid
_FRESH_MS: Final = 1000.0  # while a reading of the server's clock counts; clocks drift less than a ms
_SEEN_MS: Final = 50.0  # between two looks whether a key has limits: a look takes longer than a signature


class Called(NamedTuple):
    """The dotted ``paths`` of the functions that a job names, its call's first; and its queue."""

    paths: list[str]
    queue: str


def called(fields: Fields) -> Called:
    """
    Return the functions in the *fields* of a job, without importing or running anything of it.

    RQ's worker imports the function of a job's call, and its callbacks, by their dotted paths. The path of the function
    is in the payload: a pickle, which is read with placeholders for objects, or JSON.

    Raises:
        NotPlain: the payload is not a call of a function by its path, for example of a method of an object.
    """
    data = fields.get("data") or b""
    try:
        raw = inflated(data)
        call = read_shown(raw) if is_pickle(raw) else json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, NotPlain) else NotPlain("it is neither a pickle nor JSON") from error
    if not isinstance(call, tuple | list) or len(call) != _PARTS or type(call[0]) is not str or call[1] is not None:
        raise NotPlain("it is not the call of a function by its dotted path")
    callbacks = (_text(fields.get(name)) for name in CALLBACKS.values())
    return Called([call[0], *filter(None, callbacks)], _text(fields.get("origin")))


def _text(value: Any) -> str:
    return text(value) if isinstance(value, bytes) else value or ""


class Subject(Enum):
    """The sort of a signature's subject."""

    RUN = b"run"  # a one-shot, or a run of its own: its run id
    RUN_NOW = b"run now"  # a one-shot that may run before its time: its run id
    SCHEDULE = b"schedule"  # a recurring schedule: its id, for all of its runs
    RETRY = b"retry"  # a run that is pushed once more: the run id without the number of the repetition


class BadSignature(ValueError):
    """A job is not signed as its run demands; the message has the reason, without a subject."""


class TooEarly(BadSignature):
    """The time of the run is to come, by the clock that was read."""


class Checked(NamedTuple):
    """A good signature: its subject, its key, and the epoch second until which it is valid."""

    subject: Subject
    key: SigningKey
    until_s: int


def shared_digest(namespace: str, fields: Fields) -> bytes:
    """Return the digest of *namespace* and the ``SIGNED`` *fields*: the same for all jobs of a shape."""
    return hashlib.sha256(_measured([namespace, *(_normal(name, fields.get(name)) for name in SIGNED)])).digest()


class Stamp:
    """
    Signs jobs by one key, with the same sort of subject, ``shared_digest`` and second until which they are valid. Made
    once for many: the beginning of their texts is the same.
    """

    __slots__ = ("_head", "_mac")

    def __init__(self, key: SigningKey, subject: Subject, shared: bytes, until_s: int) -> None:
        until = b"%09x" % until_s
        self._head = b"%s.%s." % (key.id.encode(), until)
        head = b"".join((_HEAD, subject.value, b" ", until, shared))
        self._mac = key.mac.after(head.ljust(BLOCK_BYTES))  # so that this block is hashed once for all jobs

    def sign(self, name: str, data: bytes) -> bytes:
        """
        Return the signature of a job. *name*: the subject's id. *data*: as stored, or inflated. Raises NotPlain: *data*
        is too long, inflated.
        """
        code = self._mac.code(f"{len(name)}:{name}".encode() + inflated(data))  # a name is of ASCII
        return self._head + b2a_base64(code[:_CODE_BYTES])[:_CODE_CHARACTERS]


def check_run(ring: KeyRing, run_id: str, fields: Fields, now_s: int) -> Checked:
    """
    Check the signature in the *fields* of the job of *run_id* at *now_s*, in epoch seconds.

    Raises:
        BadSignature: it has none, or one that is of another run, of other content, by an unknown key, or expired.
        TooEarly: the time in its run id is more than a minute ahead, and nobody signed that it may run now.
    """
    if (parts := RunId.parse(run_id)) is None:
        raise BadSignature("its id is not a run id")
    subjects = [(Subject.RUN, run_id), (Subject.SCHEDULE, parts.schedule_id), (Subject.RUN_NOW, run_id)]
    if parts.rerun:
        subjects.append((Subject.RETRY, retried_as(parts)))
    checked = _check(ring, parts.namespace, subjects, fields, now_s)
    if checked.subject in (Subject.RUN, Subject.SCHEDULE) and parts.nominal_ms // 1000 > now_s + EARLY_S:
        at, now = (from_ms(ms).isoformat(timespec="seconds") for ms in (parts.nominal_ms, now_s * 1000))
        raise TooEarly(f"it is signed for {at}, and it is {now}")
    return checked


def check_schedule(ring: KeyRing, namespace: str, id: str, run_id: str | None, fields: Fields, now_s: int) -> Checked:
    """
    Check the signature of a waiting schedule: of the one-shot *run_id*, or of recurring schedule *id*. Raises as
    ``check_run``.
    """
    once = [] if run_id is None else [(Subject.RUN, run_id), (Subject.RUN_NOW, run_id)]
    return _check(ring, namespace, once or [(Subject.SCHEDULE, id)], fields, now_s)


def retried_as(parts: RunId) -> str:
    """Return the subject of a repeated run: its run id without the number of the repetition."""
    return f"{parts.schedule_id}-{parts.nominal_ms}{suffix_of(parts.namespace)}"


def demand_in_limits(key: SigningKey, fields: Fields) -> None:
    """
    Check that the key of a good signature may sign these *fields*. A key with limits may sign plain values only: a
    pickle of others can call any function when it is opened.

    Raises:
        BadSignature: the key has limits, and the job is beyond them.
    """
    if not key.is_limited:
        return
    try:
        problem = key.problem_of(*called(fields))
        for name in ("data", "meta"):
            if value := fields.get(name):
                demand_plain(_bytes(value))
    except NotPlain as error:
        problem = f"key {key.id!r} has limits, so it may sign plain values only: {error}"
    if problem:
        raise BadSignature(problem)


def _check(
    ring: KeyRing, namespace: str, subjects: Iterable[tuple[Subject, str]], fields: Fields, now_s: int
) -> Checked:
    if not (given := _bytes(fields.get(SIGNATURE_FIELD))):
        raise BadSignature("it has no signature")
    if (parts := parts_of(given)) is None:
        raise BadSignature("its signature is malformed")
    id, until_s, _ = parts
    if (key := ring.keys.get(id)) is None:
        raise BadSignature(f"its signature is by key {id!r}, which is not in this process's file of keys")
    try:
        data, shared = inflated(_bytes(fields.get("data"))), shared_digest(namespace, fields)
    except NotPlain as error:
        raise BadSignature(f"its data cannot be checked: {error}") from error
    for subject, name in subjects:
        if hmac.compare_digest(Stamp(key, subject, shared, until_s).sign(name, data), given):
            if now_s > until_s:
                raise BadSignature(f"its signature was valid until {from_ms(until_s * 1000):%Y-%m-%dT%H:%M}Z")
            if _has_more_retries(fields):
                raise BadSignature("it has more retries left than were signed")
            return Checked(subject, key, until_s)
    raise BadSignature("its signature is for another run, or the job was changed after it was signed")


def _has_more_retries(fields: Fields) -> bool:
    """Return True if RQ would try the job more often than was signed; also True for texts that are not numbers."""
    left, signed = fields.get("retries_left"), fields.get("zs_retries")
    with suppress(ValueError):
        return int(left or 0) > int(signed or 0)  # as RQ reads them
    return True


def _measured(parts: Iterable[str | bytes]) -> bytes:
    """Return *parts*, each with its length in front."""
    found = (part.encode() if isinstance(part, str) else part for part in parts)
    return b"".join(b"%d:%s" % (len(part), part) for part in found)


def _normal(name: str, value: Any) -> bytes:
    """Return the *value* of a field in the form in which it is signed."""
    found = _bytes(value)
    if name in _IN_JSON and found[:1] in (b"{", b"["):
        with suppress(ValueError, RecursionError):  # else it is signed as it stands
            return json.dumps(json.loads(found.decode()), separators=(",", ":")).encode()
    return found


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else b"" if value is None else str(value).encode()


def checked_valid_days(days: object) -> int:
    """Return *days* for which a signature is valid. Raises InvalidSchedule."""
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MOST_VALID_DAYS:
        raise InvalidSchedule("signing_valid_days", days, "not a number of days", f"give 1 to {MOST_VALID_DAYS}")
    return days


class Signer:
    """
    Signs for one namespace by the first key of *file*; *server_ms* reads the server's clock, in ms. Thread-safe. All
    methods that sign or check raise ConfigError: the file cannot be used.
    """

    def __init__(self, file: KeyFile, keys: Keys, valid_days: int, clock: Clock, server_ms: Callable[[], int]) -> None:
        self._file, self._keys, self._clock, self._server_ms = file, keys, clock, server_ms
        self._valid_s = valid_days * 86_400
        self._step_s = max(self._valid_s // _STEPS, 1)
        self._machine, self._lock = SystemClock(), threading.Lock()
        self._read: tuple[int, float] | None = None  # the server's time, and ours by the monotonic clock
        self._seen: tuple[SigningKey, float] | None = None  # the key, and when the file was looked at
        self._of_one_shots = Subject.RUN

    def letting_run_now(self) -> Self:
        """Return the same signer, whose one-shots may run before their time."""
        other = copy(self)
        other._of_one_shots = Subject.RUN_NOW
        return other

    def shared(self, fields: Fields) -> bytes:
        """Return the ``shared_digest`` of *fields*, once per shape."""
        return shared_digest(self._keys.namespace, fields)

    def problem_of(self, pairs: Sequence[Any], data: bytes) -> str:
        """Return why the key's limits do not let it sign a job with *data* and the flat *pairs*; or ""."""
        now_ms = self._machine.monotonic_ms()
        if self._seen is None or now_ms - self._seen[1] > _SEEN_MS:
            self._seen = self._file.current().first, now_ms
        try:
            if (key := self._seen[0]).is_limited:
                fields = dict(zip(pairs[::2], pairs[1::2], strict=True)) | {"data": data}
                demand_in_limits(key, fields)
        except BadSignature as error:
            return str(error)
        return ""

    def one_shots(self, shared: bytes, ids: Iterable[str], dues: Iterable[str], datas: Iterable[bytes]) -> list[bytes]:
        """Return the signatures of one-shots of a shape; *dues* as in their rows. Many at once take 0.7 of the time."""
        key, now_ms, suffix = self._file.current().first, self._clock.now_ms(), self._keys.run_suffix
        signatures = []
        stamp, from_ms, before_ms = None, 0, 0  # it signs one-shots that are due from from_ms on, before before_ms
        for id, due, data in zip(ids, dues, datas, strict=True):
            due = due.removeprefix("=")
            at_ms = int(due)
            if stamp is None or not from_ms <= at_ms < before_ms:
                until_s = self._until_s(max(at_ms, now_ms))
                from_ms, before_ms = at_ms, (until_s - self._valid_s) * 1000
                stamp = Stamp(key, self._of_one_shots, shared, until_s)
            signatures.append(stamp.sign(f"{id}-{due}{suffix}", data))
        return signatures

    def schedule(self, shared: bytes, id: str, data: bytes) -> bytes:
        """Return the signature of the recurring schedule *id*."""
        until_s = self._until_s(self._clock.now_ms())
        return Stamp(self._file.current().first, Subject.SCHEDULE, shared, until_s).sign(id, data)

    def retry(self, run_id: str, fields: Mapping[str, Any]) -> bytes:
        """
        Return the signature for a repetition of *run_id*, with the *fields* of its job; b"" if the job itself is not
        signed as it should be: then the repetition has the old signature, and runs where the run itself would.
        """
        parts = RunId.parse(run_id)
        try:
            demand_in_limits(check_run(self._file.current(), run_id, fields, self._now_s()).key, fields)
        except BadSignature:
            return b""
        assert parts is not None  # checked
        until_s, name = self._until_s(self._clock.now_ms()), retried_as(parts)
        return Stamp(self._file.current().first, Subject.RETRY, self.shared(fields), until_s).sign(name, fields["data"])

    def check_found(self, id: str, due_ms: int | None, fields: Fields) -> None:
        """Check the signature of a waiting schedule: *due_ms* is None for a recurring one. Raises BadSignature."""
        run_id, namespace = None if due_ms is None else self._keys.run_id(id, due_ms), self._keys.namespace
        demand_in_limits(check_schedule(self._file.current(), namespace, id, run_id, fields, self._now_s()).key, fields)

    def server_now_ms(self) -> int:
        """Return the server's time, which is read once a second at most. Raises RedisUnavailable, RedisRefused."""
        with self._lock:
            own_ms = self._machine.monotonic_ms()
            if self._read is None or own_ms - self._read[1] > _FRESH_MS:
                self._read = self._server_ms(), own_ms
            server_ms, read_ms = self._read
            return server_ms + int(own_ms - read_ms)

    def _now_s(self) -> int:
        return self._clock.now_ms() // 1000

    def _until_s(self, from_ms: int) -> int:
        until_s = from_ms // 1000 + self._valid_s
        return min(-(-until_s // self._step_s) * self._step_s, LATEST_S)
