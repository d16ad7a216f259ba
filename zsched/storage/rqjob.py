"""
The encoder of RQ's job hash. With ``rqoptions`` it is all of this package that imports RQ.

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
import pickle
import pickletools
import re
import sys
import threading
import zlib
from collections.abc import Callable as Function
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from zsched.core.entry import text as shown
from zsched.core.model import MEND, Definition
from zsched.core.options.arguments import LONGEST_S, timeout_s
from zsched.core.options.forms import LONGEST_PATH, Stored, whole_number
from zsched.core.runs.job import DEFAULT_TIMEOUT_S
from zsched.errors import NOT_GIVEN, InvalidSchedule, NotImportable
from zsched.storage.rqoptions import Pairs, made, retry_pairs, ttl_pairs
from zsched.storage.rqversion import HAS_RATE_LIMITS, HERE
from zsched.storage.unpickling import MOST_BYTES, NotPlain, inflated, read_plain

_DEFLATE_FROM = 100  # bytes; below it zlib's header costs more than it saves (measured)
_LISTS = (tuple, list)
_PROTOCOL: Final = pickle.HIGHEST_PROTOCOL
_HEAD: Final = 11  # bytes of PROTO and FRAME
_SINGLE: Final = frozenset({str, bytes, int, float, bool, type(None)})
_HALF: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")  # a lone surrogate as pickle writes it, or other bytes
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


class _Written(list[bytes]):
    write = list.append


class CallPickler(threading.local):
    """
    Pickles calls, as short as RQ reads them: ``dumps(call)``. Each thread has a pickler, which it uses again and again.

    RQ pickles a call with a memo, so that an object that appears twice in its arguments is one object in the worker,
    too. A call with texts, bytes, numbers and None only needs no memo: none of them can change, or contain another.
    Without memo, PROTO and FRAME it has 16 bytes less, and a waiting job 32 bytes less in Redis. ``pickle.loads`` reads
    both forms, and no stream of zlib begins as they do, which RQ tries first. Other calls are pickled as RQ does it.
    """

    def __init__(self) -> None:
        written = _Written()
        pickler = pickle.Pickler(written, _PROTOCOL)
        pickler.fast = True  # without memo
        dump, pop = pickler.dump, written.pop

        def dumps(call: tuple[Any, ...]) -> bytes:
            path, _instance, args, kwargs = call
            is_plain = _SINGLE.issuperset(map(type, args)) and type(path) is str
            if is_plain and (not kwargs or _SINGLE.issuperset(map(type, (*kwargs, *kwargs.values())))):
                dump(call)
                raw = pop()
                if not written:
                    return raw[_HEAD:]
                written.clear()  # it has more than one frame
            return pickled(call)

        self.dumps = dumps


def pickled(value: Any) -> bytes:
    """Return the pickle of *value*, as RQ makes it. Raises any error, as pickling runs the values' own code."""
    return pickle.dumps(value, _PROTOCOL)


def demand_characters(raw: bytes) -> None:
    """Raise UnicodeEncodeError if a text in the pickle *raw* has a lone surrogate."""
    if _HALF.search(raw):
        for _, argument, _ in pickletools.genops(raw):
            if isinstance(argument, str):
                argument.encode()


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
                pairs |= ttl_pairs(name, ttl)
        if definition.retry is not None:
            pairs |= retry_pairs(definition.retry)
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


def _callback(field: str, stem: str, callback: object) -> Pairs:
    from rq import Callback

    if isinstance(callback, dict):
        callback = made(field, Callback, callback, "give func, a dotted path, and timeout")
    try:
        given = callback if isinstance(callback, Callback) else Callback(function_path(callback))  # type: ignore[arg-type]  # checked there
        if given.timeout is None or not (given.timeout == -1 or 1 <= given.timeout <= LONGEST_S):
            raise InvalidSchedule(field, callback, "not a time limit", f"give a timeout of 1 to {LONGEST_S} seconds")
        return {f"{stem}_callback_name": function_path(given.func), f"{stem}_callback_timeout": str(given.timeout)}
    except NotImportable as error:
        raise NotImportable(field, callback, error.problem, error.remedy) from error


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
