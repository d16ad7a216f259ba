"""
The encoder of RQ's job hash, and the only module of this package that imports RQ.

A malformed field kills every RQ worker that reads it, one after the other (measured with RQ 2.12: timeout
``'1h'``, a bad timestamp, an unknown status). So everything in ``rq:job:*`` is encoded here, from values
that were checked here. Tests restore it with RQ's own ``Job.restore``.

A waiting one-shot has data, origin, timeout, description, and only the optional fields that were given. A
hash stays a compact listpack while every value has at most 64 bytes. ``data`` is deflated only if that
makes it smaller; ``Job.restore`` accepts both.

RQ is imported late, for retries and callbacks. A service without them does not wait for the import of RQ, its worker
and its scheduler.
"""

import inspect
import json
import math
import pickle
import re
import sys
import zlib
from collections.abc import Callable as Function
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from zsched.core.entry import text as shown
from zsched.core.model import MEND, Definition
from zsched.core.options.arguments import LONGEST_S
from zsched.core.options.forms import LONGEST_PATH, MOST_RETRIES, Stored, whole_number
from zsched.core.runs.job import DEFAULT_TIMEOUT_S
from zsched.core.wording import DURATION_REMEDY, duration_argument
from zsched.errors import NOT_GIVEN, InvalidSchedule, NotImportable
from zsched.storage.pickling import CallPickler, demand_characters, pickled
from zsched.storage.rqversion import HAS_RATE_LIMITS, HERE
from zsched.storage.unpickling import MOST_BYTES, NotPlain, inflated, read_plain

_DEFLATE_FROM = 100  # bytes; below it zlib's header costs more than it saves (measured)
_SHORTEST_TTL_S = 60  # RQ deletes a job with ttl 0 before its end can be seen; then track.lua does
_CALLBACK_TIMEOUT_S = 60  # RQ's own
_LISTS = (tuple, list)
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)

Pairs = dict[str, str | bytes]


@dataclass(frozen=True, slots=True)
class Unopened:
    """A stored ``meta`` that is kept unchanged, without loading its pickle; *reason* says why."""

    data: bytes = field(repr=False)
    reason: str


class Encoder:
    """
    Encodes payloads for one serializer ("pickle", RQ's default, or "json") under one size limit in bytes. *signs*: they
    will be signed, so a payload that was deflated has at most ``MOST_BYTES``, inflated.
    """

    def __init__(self, serializer: str = "pickle", payload_limit: int = 262_144, *, signs: bool = False) -> None:
        self.serializer, self.payload_limit, self._signs = serializer, payload_limit, signs
        self._calls = CallPickler()

    def data(self, definition: Definition) -> bytes:
        """Return RQ's ``data`` of *definition*. Raises as ``call``, and NotImportable."""
        if definition.data is not None:
            return self._signable(definition.data)
        return self.call(function_path(definition.func), definition.args, definition.kwargs)

    def call(self, path: str, args: Any, kwargs: Any) -> bytes:
        """
        Return RQ's ``data``: the call as [function path, None, args, kwargs].

        Raises:
            InvalidSchedule: args or kwargs cannot be serialised, would be reshaped, or are too long.
        """
        if not isinstance(args, _LISTS):
            raise InvalidSchedule("args", args, "not a list of arguments", "give a tuple or list")
        if kwargs is None:
            kwargs = {}
        elif not isinstance(kwargs, dict) or (kwargs and not all(map(str.__instancecheck__, kwargs))):  # quickly
            raise InvalidSchedule("kwargs", kwargs, "not named arguments", "give a dict with texts as keys")
        try:
            raw = self._dumps("args", (path, None, tuple(args), kwargs), self._calls.dumps)
        except InvalidSchedule as error:
            for value in args:  # raises for the first one that cannot be serialised alone
                self._dumps("args", value)
            for name, value in kwargs.items():
                self._dumps("kwargs", {name: value})
            raise InvalidSchedule("args", args, error.problem, error.remedy) from error.__cause__
        if self.serializer == "json":
            _refuse_reshaping("args", list(args))
            _refuse_reshaping("kwargs", kwargs)
        packed = zlib.compress(raw) if len(raw) >= _DEFLATE_FROM else raw
        data = packed if len(packed) < len(raw) else raw
        if len(data) > self.payload_limit:
            problem = f"the payload has {len(data)} bytes, the limit is {self.payload_limit}"
            raise InvalidSchedule(
                "args", args, problem, "pass a reference to the data, or raise [limits] payload_bytes"
            )
        return self._signable(data) if len(raw) > MOST_BYTES else data

    def _signable(self, data: bytes) -> bytes:
        """Return *data*. Raises InvalidSchedule: it will be signed, and no guard would inflate it."""
        try:
            if self._signs:
                inflated(data)
        except NotPlain as error:
            remedy = "pass a reference to the data, or schedule it without keys"
            raise InvalidSchedule("args", NOT_GIVEN, f"the payload cannot be signed: {error}", remedy) from error
        return data

    def open(self, data: bytes, *, runs: bool = False) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """
        Return function path, args and kwargs of *data*: plain values only, and no code is run. With *runs* a pickle is
        loaded as a worker does, for callers that trust every writer of this Redis.

        Raises:
            InvalidSchedule: *data* is not of this serializer, or not plain.
        """
        try:
            func, _, args, kwargs = self._loads(inflated(data), runs)
            if not isinstance(func, str) or not isinstance(args, _LISTS) or not isinstance(kwargs, dict):
                raise TypeError("not a function call")
        except NotPlain as error:
            remedy = "give args and kwargs both, or Client(runs_pickles=True) if you trust every writer of RQ's jobs"
            raise InvalidSchedule("data", data, "the stored payload cannot be read", remedy) from error
        except Exception as error:
            remedy = f"use the serializer that it was written with, not {self.serializer}"
            raise InvalidSchedule("data", data, "the stored payload cannot be read", remedy) from error
        return func, tuple(args), kwargs

    def shared(self, definition: Definition) -> Pairs:
        """
        Return the fields besides data, status and created_at: equal for all schedules that differ in
        arguments and time only.

        Raises:
            InvalidSchedule: an option that RQ does not accept, or that the installed RQ does not have.
        """
        func = function_path(definition.func)
        if definition.rate_limit and not HAS_RATE_LIMITS:
            problem = f"RQ {HERE}, which is installed here, has no rate limits"
            remedy = "install rq>=3 here and for the workers, or give [queues.<queue>] max_per_second instead"
            raise InvalidSchedule("rate_limit", str(definition.rate_limit), problem, remedy)
        pairs: Pairs = {
            "origin": definition.queue,
            "timeout": str(DEFAULT_TIMEOUT_S if definition.timeout is None else timeout_s(definition.timeout)),
            "description": definition.description or func,
        }
        if definition.description and definition.description != func:
            pairs["zs_func"] = func
        for name, ttl in (("result_ttl", definition.result_ttl), ("failure_ttl", definition.failure_ttl)):
            if ttl is not None:
                pairs |= _ttl(name, ttl)
        if definition.retry is not None:
            pairs |= _retry(definition.retry)
        pairs |= definition.texts(Stored.JOB)
        for stem, callback in (("success", definition.on_success), ("failure", definition.on_failure)):
            if callback is not None:
                pairs |= _callback(f"on_{stem}", stem, callback)
        if isinstance(definition.meta, Unopened):
            pairs["meta"] = definition.meta.data
        elif definition.meta is not None:
            if not isinstance(definition.meta, dict):
                raise InvalidSchedule("meta", definition.meta, "not a dict", "give a dict")
            pairs["meta"] = self._dumps("meta", definition.meta)
            if self.serializer == "json":
                _refuse_reshaping("meta", definition.meta)
        return pairs

    def options(self, job: Mapping[str, str | bytes], *, runs: bool = False) -> dict[str, Any]:
        """
        Return RQ's options of the fields *job*, for an update. A meta with a pickle that is not plain is ``Unopened``,
        unless *runs*.

        Raises:
            InvalidSchedule: another program broke one of them.
        """
        texts = ((name, value) for name, value in job.items() if name not in ("data", "meta"))
        text = {name: shown(value) if isinstance(value, bytes) else value for name, value in texts}
        options: dict[str, Any] = {"queue": text.get("origin", "default")}
        name = "timeout"
        try:
            for name in filter(text.__contains__, ("timeout", "result_ttl", "failure_ttl")):
                options[name] = whole_number(text.get(f"zs_{name}", text[name]))
            if (name := "retries_left") in text:
                from rq import Retry

                intervals, at_front = json.loads(text["retry_intervals"]), "enqueue_at_front_on_retry" in text
                options["retry"] = Retry(whole_number(text[name]), intervals, at_front)
            for option, stem in (("on_success", "success"), ("on_failure", "failure")):
                if (name := f"{stem}_callback_name") in text:
                    from rq import Callback

                    options[option] = Callback(text[name], text[f"{stem}_callback_timeout"])
            if (name := "meta") in job:
                meta: bytes = job["meta"]  # type: ignore[assignment]  # as it is stored
                try:
                    options["meta"] = self._loads(meta, runs)
                except NotPlain as error:
                    options["meta"] = Unopened(meta, str(error))
        except Exception as error:  # RQ's own classes and serializers raise anything
            problem = f"the stored one cannot be read ({type(error).__name__}: {error})"[:200]
            raise InvalidSchedule(name, job[name], problem, MEND) from error
        return options

    def _loads(self, raw: bytes, runs: bool) -> Any:
        if self.serializer == "json":
            return json.loads(raw)
        return pickle.loads(raw) if runs else read_plain(raw)

    def _dumps(self, field: str, value: Any, write: Function[[Any], bytes] = pickled) -> bytes:
        try:
            if self.serializer == "json":
                return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
            raw = write(value)
            if 0xED in raw:  # as a number it is found much quicker than its pattern
                demand_characters(raw)
            return raw
        except UnicodeEncodeError as error:
            problem = f"it has {error.object[error.start]!a}, half of a character"
            raise InvalidSchedule(field, value, problem, "cut texts between characters") from error
        except Exception as error:  # pickling runs the arguments' own code: any error may come
            problem = f"the {self.serializer} serializer refuses it ({type(error).__name__}: {error})"[:200]
            raise InvalidSchedule(field, value, problem, "give plain values, or a reference to the data") from error


def function_path(func: str | Function[..., Any]) -> str:
    """
    Return the dotted name by which a worker imports *func*.

    Raises:
        NotImportable: lambda, nested function, ``__main__``, a bound method, or not a dotted path.
    """
    if isinstance(func, str):
        if not _DOTTED.fullmatch(func) or len(func) > LONGEST_PATH:
            raise NotImportable("func", func, "not a dotted path", 'give "package.module.function"')
        if func.startswith("__main__."):
            raise NotImportable("func", func, "a worker has another __main__", "move it into a module")
        return func
    module, name = getattr(func, "__module__", None), getattr(func, "__qualname__", None)
    if not callable(func) or not isinstance(module, str) or not isinstance(name, str):
        raise NotImportable("func", func, "not a function with a name", "give a module's function or its dotted path")
    if module == "__main__":
        raise NotImportable("func", func, "a worker has another __main__", "move it into a module")
    if "<" in name or (inspect.ismethod(func) and not inspect.isclass(func.__self__)):
        raise NotImportable(
            "func", func, "a worker cannot import it by name", "give a function at a module's top level"
        )
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None or getattr(found, "__qualname__", name) != name:
        problem = f"{module}.{name} is another object now"
        raise NotImportable("func", func, problem, "give a function at a module's top level")
    return f"{module}.{name}"


def plain(value: object) -> object:
    """Return RQ's Retry or Callback as a number, path or dict for the encoder; other values unchanged."""
    from rq import Callback, Retry

    if isinstance(value, Retry):
        options: dict[str, object] = {"max": value.max}
        if list(value.intervals) != [0]:
            options["interval"] = list(value.intervals)
        if value.enqueue_at_front:
            options["enqueue_at_front"] = True
        return options if len(options) > 1 else value.max
    if isinstance(value, Callback):
        return value.name if value.timeout == _CALLBACK_TIMEOUT_S else {"func": value.name, "timeout": value.timeout}
    return value


def timeout_s(timeout: object) -> int:
    """
    Return the time limit of a run in whole seconds, rounded up; -1: no limit.

    Raises:
        InvalidSchedule: not a duration, or out of range; it would kill RQ's worker.
    """
    seconds = _seconds("timeout", timeout)
    if seconds is None or not (seconds == -1 or 1 <= seconds <= LONGEST_S):
        raise InvalidSchedule("timeout", timeout, "not a time limit", f"{DURATION_REMEDY}, or -1 for none")
    return seconds


def _ttl(field: str, value: object) -> Pairs:
    seconds = _seconds(field, value)
    if seconds is None or not -1 <= seconds <= LONGEST_S:
        raise InvalidSchedule(field, value, "not a time to live", f"{DURATION_REMEDY}, or -1 for ever")
    if not 0 <= seconds < _SHORTEST_TTL_S:
        return {field: str(seconds)}
    return {field: str(_SHORTEST_TTL_S), f"zs_{field}": str(seconds)}


def _seconds(field: str, value: object) -> int | None:
    """Return the duration *value* in whole seconds, rounded up; None: it is not one. Raises InvalidSchedule."""
    value = duration_argument(field, value) if isinstance(value, str) else value
    if isinstance(value, timedelta):
        return -(-value // timedelta(seconds=1))
    if isinstance(value, float):
        return math.ceil(value) if math.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _retry(retry: object) -> Pairs:
    from rq import Retry

    if isinstance(retry, int) and not isinstance(retry, bool) and retry >= 1:
        retry = Retry(max=retry)
    elif isinstance(retry, dict):
        retry = _made("retry", Retry, retry, "give max, interval and enqueue_at_front as rq.Retry takes them")
    if not isinstance(retry, Retry) or type(retry.max) is not int:
        raise InvalidSchedule(
            "retry", retry, "not a number of retries", "give a whole number from 1, or rq.Retry(max=…)"
        )
    if retry.max > MOST_RETRIES:
        raise InvalidSchedule("retry", retry, "too many retries", f"give 1 to {MOST_RETRIES:,}")
    if not retry.intervals or not all(_is_interval(one) for one in retry.intervals):
        raise InvalidSchedule("retry", retry, "its intervals are not whole seconds", "give interval=60 or [60, 300]")
    pairs: Pairs = {
        "retries_left": str(retry.max),
        "retry_intervals": json.dumps(list(retry.intervals)),
        "zs_retries": str(retry.max),  # RQ counts retries_left down
    }
    if getattr(retry, "enqueue_at_front", False):
        pairs["enqueue_at_front_on_retry"] = "1"
    return pairs


def _is_interval(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= LONGEST_S


def _callback(field: str, stem: str, callback: object) -> Pairs:
    from rq import Callback

    if isinstance(callback, dict):
        callback = _made(field, Callback, callback, "give func, a dotted path, and timeout")
    try:
        given = callback if isinstance(callback, Callback) else Callback(function_path(callback))  # type: ignore[arg-type]  # checked there
        if given.timeout is None or not (given.timeout == -1 or 1 <= given.timeout <= LONGEST_S):
            raise InvalidSchedule(field, callback, "not a time limit", f"give a timeout of 1 to {LONGEST_S} seconds")
        return {f"{stem}_callback_name": function_path(given.func), f"{stem}_callback_timeout": str(given.timeout)}
    except NotImportable as error:
        raise NotImportable(field, callback, error.problem, error.remedy) from error


def _made(field: str, kind: Function[..., Any], given: dict[Any, Any], remedy: str) -> Any:
    """Return RQ's Retry or Callback from a dict of arguments. Raises InvalidSchedule."""
    try:
        return kind(**given)
    except Exception as error:  # RQ raises TypeError, ValueError or its own
        raise InvalidSchedule(field, given, f"RQ refuses it ({error})", remedy) from None


def _refuse_reshaping(field: str, value: Any) -> None:
    """Refuse values that JSON changes: tuples, keys that are not texts, subclasses. *value* has no cycles."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            if not all(type(key) is str for key in one):
                raise InvalidSchedule(field, value, "JSON would turn its keys into texts", "give texts as keys")
            waiting.extend(one.values())
        elif type(one) is list:
            waiting.extend(one)
        elif one is not None and type(one) not in (str, int, float, bool):
            problem = f"JSON would reshape or refuse a {type(one).__name__}"
            raise InvalidSchedule(field, one, problem, "give texts, numbers, lists and dicts")
