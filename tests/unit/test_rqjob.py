"""The one encoder of RQ's job hash: whatever it makes RQ itself must read back."""

from __future__ import annotations

import builtins
import functools
import json
import math
import pickle
import zlib
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

import fakeredis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rq import Callback, Queue, Retry
from rq.job import Job, JobStatus
from rq.serializers import DefaultSerializer, JSONSerializer

from zsched.core.clock import from_ms
from zsched.core.model import Definition, Now, OnLost, OnUncertain, Payload
from zsched.core.options import define, define_now
from zsched.errors import InvalidSchedule, NotImportable
from zsched.storage.rqjob import Encoder, flags, function_path, labels, plain, timeout_s

SERIALIZERS = {"pickle": DefaultSerializer, "json": JSONSerializer}


class Colour(IntEnum):
    RED = 1


Point = namedtuple("Point", "x y")


class Tasks:
    def method(self) -> None: ...

    @classmethod
    def of_class(cls) -> None: ...

    @staticmethod
    def static() -> None: ...

    def __call__(self) -> None: ...


def task(*args: Any, **kwargs: Any) -> None: ...


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


@decorated
def wrapped() -> None: ...


def _definition(**options: Any) -> Definition:
    return define_now(options.pop("func", "app.task"), options, "id")


def _restore(fields: dict[str, Any], serializer: str = "pickle") -> Job:
    job = Job("a-1", connection=fakeredis.FakeRedis(), serializer=SERIALIZERS[serializer])
    job.restore(
        {name.encode(): text if isinstance(text, bytes) else str(text).encode() for name, text in fields.items()}
    )
    return job


def _hash(encoder: Encoder, definition: Definition, **over: Any) -> dict[str, Any]:
    """All that put.lua and fire.lua leave at a run's key."""
    stamp = from_ms(1_795_248_000_123).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    times = {"status": "queued", "created_at": stamp, "enqueued_at": stamp, "zs": "1" + flags(definition)}
    own = {f"zs_{name}": text for name, text in labels(definition).items()}
    return encoder.shared(definition) | own | {"data": encoder.data(definition.payload)} | times | over


# -- what RQ reads ------------------------------------------------------------------------------------

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_LINE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=50)
_TTL = st.none() | st.just(-1) | st.integers(0, 10**9) | st.timedeltas(timedelta(0), timedelta(days=30_000))
_PATHS = st.sampled_from(["app.task", "a.b.c.d", "_x._y"])
_OPTIONS = st.fixed_dictionaries(
    {"args": st.lists(_JSON, max_size=3), "kwargs": st.dictionaries(st.text(min_size=1), _JSON, max_size=3)},
    optional={
        "queue": _LINE.filter(lambda text: not text.startswith("-") and len(text.encode()) <= 128),
        "timeout": st.none() | st.just(-1) | st.integers(1, 10**9) | st.sampled_from(["90", "5m", "1h", "1d", "30s"]),
        "result_ttl": _TTL, "failure_ttl": _TTL,
        "retry": st.none() | st.integers(1, 50) | st.builds(Retry, max=st.integers(1, 9)),
        "meta": st.none() | st.dictionaries(st.text(), _JSON, max_size=3),
        "on_success": st.none() | _PATHS, "on_failure": st.none() | st.builds(Callback, _PATHS, st.integers(1, 999)),
        "description": st.none() | _LINE, "tags": st.lists(_LINE, max_size=3), "created_by": st.none() | _LINE,
        "at_front": st.booleans(), "on_uncertain": st.sampled_from(OnUncertain), "func": _PATHS,
        "on_lost": st.sampled_from(OnLost),
    },
)  # fmt: skip


@given(_OPTIONS, st.sampled_from(["pickle", "json"]), st.sampled_from(["scheduled", "queued"]), st.booleans())
def test_rq_restores_every_hash_that_we_can_make(
    options: dict[str, Any], serializer: str, status: str, is_uncertain: bool
) -> None:
    definition = _definition(**options)
    mark = {"zs_uncertain": "1"} if is_uncertain else {}

    job = _restore(_hash(Encoder(serializer), definition, status=status, **mark), serializer)

    assert (options.get("func", "app.task"), status) == (job.func_name, job.get_status(refresh=False))
    assert (options["args"], options["kwargs"]) == (list(job.args), job.kwargs)
    assert definition.queue == job.origin
    assert definition.payload.description in (None, job.description)
    assert (options.get("meta") or {}) == job.meta
    assert job.timeout == timeout_s(options.get("timeout"))
    assert (job.success_callback_timeout, job.failure_callback_timeout) != (0, 0)


@given(_OPTIONS, st.sampled_from(["pickle", "json"]))
def test_options_read_back_make_the_same_hash(options: dict[str, Any], serializer: str) -> None:
    encoder, definition = Encoder(serializer), _definition(**options)
    fields = encoder.shared(definition)
    path, args, kwargs = encoder.open(encoder.data(definition.payload))

    stored = encoder.options(fields)

    again = _definition(func=path, args=args, kwargs=kwargs, description=options.get("description"), **stored)
    assert fields == encoder.shared(again)
    assert encoder.data(definition.payload) == encoder.data(again.payload)


@pytest.mark.parametrize("serializer", ["pickle", "json"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"result_ttl": 500, "failure_ttl": 60},
        {"result_ttl": -1},
        {"meta": {"trace": "abc", "n": [1, 2]}},
        {"retry": Retry(max=3)},
        {"retry": Retry(max=3, interval=[60, 300])},
        {"retry": Retry(max=2, enqueue_at_front=True)},
        {"timeout": "1h"},
        {"timeout": -1},
        {"on_success": task, "on_failure": Callback(task, timeout=30)},
        {"description": "a reminder"},
        {"queue": "push.high"},
    ],
)
def test_a_hash_says_what_rqs_own_enqueue_writes_for_the_same_call(options: dict[str, Any], serializer: str) -> None:
    connection = fakeredis.FakeRedis()
    queue = Queue(options.get("queue", "default"), connection=connection, serializer=SERIALIZERS[serializer])
    theirs_options = {name: value for name, value in options.items() if name != "queue"}
    theirs_options["job_timeout"] = theirs_options.pop("timeout", None)
    if "on_success" in theirs_options:
        theirs_options["on_success"] = Callback(task)
    job = queue.enqueue("app.task", args=(1, "x"), kwargs={"k": [True]}, **theirs_options)
    theirs = {name.decode(): value for name, value in connection.hgetall(job.key).items()}
    definition = _definition(args=(1, "x"), kwargs={"k": [True]}, **options)

    ours = _hash(Encoder(serializer), definition)

    # Left out by us: empty fields, and those that RQ's default stands for. Ours alone: zs_…
    for name in (name for name in theirs if name not in ("data", "created_at", "enqueued_at", "description")):
        told = ours.get(name, b"")
        told = told if isinstance(told, bytes) else told.encode()
        if name in ("success_callback_timeout", "failure_callback_timeout", "stopped_callback_timeout"):
            assert told in (theirs[name], b"")
        elif name == "meta":
            assert _loaded(theirs[name], serializer) == _loaded(told, serializer)
        else:
            assert theirs[name] == told, name
    assert {name for name in ours if not name.startswith("zs")} <= theirs.keys()
    assert _loaded(theirs["data"], serializer) == _loaded(ours["data"], serializer)
    assert len(theirs["created_at"]) == len(ours["created_at"])


def _loaded(data: bytes, serializer: str) -> Any:
    """What RQ makes of it; for pickle the very bytes."""
    with suppress(zlib.error):
        data = zlib.decompress(data)
    return json.loads(data) if serializer == "json" else data


@pytest.mark.parametrize("serializer", ["pickle", "json"])
def test_a_short_payload_stays_plain_and_a_long_one_is_deflated(serializer: str) -> None:
    encoder = Encoder(serializer)

    assert 64 >= len(encoder.call("app.task", (123456, "email"), None))
    assert 500 > len(encoder.call("app.task", ("x" * 10_000,), None))


def test_a_result_ttl_of_zero_is_a_minute_so_that_the_end_can_be_seen() -> None:
    shared = Encoder().shared(_definition(result_ttl=0, failure_ttl=0))

    assert ("60", "0") == (shared["result_ttl"], shared["failure_ttl"])


def test_the_description_is_the_function_without_arguments() -> None:
    assert "app.task" == Encoder().shared(_definition(args=("secret",)))["description"]


def test_a_function_behind_a_description_is_kept() -> None:
    shared = Encoder().shared(_definition(description="Say hello"))

    assert ("Say hello", "app.task") == (shared["description"], shared["zs_func"])


# -- payloads -----------------------------------------------------------------------------------------


class _Unpicklable:
    def __reduce__(self) -> Any:
        raise RuntimeError("no")


BAD_JSON = [
    ((1, 2),), (Point(1, 2),), {"a": (1,)}, {1: "x"}, {None: 1}, math.nan, math.inf, b"bytes", Colour.RED,
    datetime(2026, 1, 1, tzinfo=UTC), {1, 2}, OrderedDict(a=1), defaultdict(int), [[{"deep": {"er": (1,)}}]], object(),
    type("S", (str,), {})("x"), type("L", (list,), {})(), {type("S", (str,), {})("x"): 1}, 1j, timedelta(1),
]  # fmt: skip


@pytest.mark.parametrize("value", BAD_JSON, ids=[str(n) for n in range(len(BAD_JSON))])
def test_json_refuses_what_it_would_reshape(value: Any) -> None:
    encoder = Encoder("json")

    with pytest.raises(InvalidSchedule, match=r"^args="):
        encoder.call("app.task", (value,), None)
    with pytest.raises(InvalidSchedule, match=r"^(kwargs|args)="):
        encoder.call("app.task", (), {"k": value})
    with pytest.raises(InvalidSchedule, match=r"^meta="):
        encoder.shared(_definition(meta={"k": value}))


def test_json_refuses_a_circle() -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(InvalidSchedule, match=r"^args="):
        Encoder("json").call("app.task", (circle,), None)


def test_json_refuses_what_is_nested_too_deep() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(InvalidSchedule, match=r"^args=.*RecursionError"):
        Encoder("json").call("app.task", (deep,), None)


def test_a_tuple_of_arguments_is_no_inner_tuple() -> None:
    assert ["app.task", None, [1, [2]], {}] == json.loads(Encoder("json").call("app.task", (1, [2]), None))


@given(_JSON)
def test_json_brings_back_what_was_given(value: Any) -> None:
    _, args, kwargs = Encoder("json").open(Encoder("json").call("app.task", (value,), {"k": value}))

    assert ((value,), {"k": value}) == (args, kwargs)


@pytest.mark.parametrize(
    "value", [lambda: None, _Unpicklable(), (n for n in ())], ids=["lambda", "hostile", "generator"]
)
def test_pickle_refuses_what_cannot_be_pickled(value: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^args=.*the pickle serializer refuses it"):
        Encoder().call("app.task", (value,), None)


def test_pickle_takes_what_json_would_reshape() -> None:
    value = (Point(1, 2), {1: b"x"}, Colour.RED)

    assert (value,) == Encoder().open(Encoder().call("app.task", (value,), None))[1]


@pytest.mark.parametrize("args", ["text", 5, {"a": 1}, {1, 2}, (n for n in ())])
def test_arguments_are_a_list(args: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^args="):
        Encoder().call("app.task", args, None)


@pytest.mark.parametrize("kwargs", ["text", [("a", 1)], {1: 2}, {None: 1}])
def test_named_arguments_have_names(kwargs: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^kwargs="):
        Encoder().call("app.task", (), kwargs)


def test_a_payload_over_the_limit_is_refused() -> None:
    encoder = Encoder("json", payload_limit=40)

    assert encoder.call("app.task", ("x",), None)
    with pytest.raises(InvalidSchedule, match=r"^args=.*the limit is 40; pass a reference"):
        encoder.call("app.task", [str(n) for n in range(40)], None)


def test_what_cannot_be_read_with_this_serializer_is_an_error() -> None:
    data = Encoder().call("app.task", (1,), None)

    with pytest.raises(InvalidSchedule, match=r"^data=.*use the serializer that it was written with, not json"):
        Encoder("json").open(data)
    with pytest.raises(InvalidSchedule, match=r"^data="):
        Encoder().open(pickle.dumps("not a call"))


def test_a_stored_payload_is_passed_on_untouched() -> None:
    assert b"as stored" == Encoder().data(Payload("app.task", args=object(), data=b"as stored"))


@pytest.mark.parametrize("serializer", ["yaml", "", None])
def test_only_two_serializers_are_known(serializer: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^serializer="):
        Encoder(serializer)


# -- functions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("func", "path"),
    [
        ("app.tasks.send", "app.tasks.send"),
        (task, f"{__name__}.task"),
        (wrapped, f"{__name__}.wrapped"),
        (Tasks.static, f"{__name__}.Tasks.static"),
        (Tasks.of_class, f"{__name__}.Tasks.of_class"),
        (Tasks, f"{__name__}.Tasks"),
        (print, "builtins.print"),
        (math.sqrt, "math.sqrt"),
        (json.dumps, "json.dumps"),
    ],
)
def test_a_function_is_known_by_the_path_under_which_a_worker_finds_it(func: Any, path: str) -> None:
    assert path == function_path(func)


def test_rqs_worker_imports_every_path_that_we_make() -> None:
    for func in (task, wrapped, Tasks.static, Tasks.of_class, print, math.sqrt):
        job = _restore(_hash(Encoder(), _definition(func=func)))
        assert callable(job.func)


def _main() -> None: ...


_main.__module__ = "__main__"


def _nested() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


BAD_FUNCTIONS = {
    "lambda": lambda: None,
    "nested": _nested(),
    "main": _main,
    "main by name": "__main__.task",
    "bound method": Tasks().method,
    "callable object": Tasks(),
    "partial": functools.partial(task, 1),
    "method of a value": "text".upper,
    "not callable": 42,
    "none": None,
    "module": builtins,
    "no module": "task",
    "empty": "",
    "a call": "os.system('ls')",
    "a space": "os.path join",
    "a dot at the end": "os.path.",
    "two dots": "os..path",
    "a newline": "os.path.join\n",
    "too long": "a." + "b" * 600,
    "bytes": b"os.path.join",
}


@pytest.mark.parametrize("name", BAD_FUNCTIONS)
def test_a_function_that_no_worker_can_import_is_refused(name: str) -> None:
    with pytest.raises(NotImportable, match=r"^func=.*;"):
        function_path(BAD_FUNCTIONS[name])


@pytest.mark.parametrize("option", ["on_success", "on_failure"])
def test_callbacks_are_functions_that_a_worker_can_import(option: str) -> None:
    for bad in (BAD_FUNCTIONS["lambda"], 5, "task", Callback("task")):
        with pytest.raises(InvalidSchedule, match=f"^{option}="):
            Encoder().shared(_definition(**{option: bad}))
    stem = option.removeprefix("on_")
    shared = Encoder().shared(_definition(**{option: Callback(task, timeout="2m")}))
    expected = {f"{stem}_callback_name": f"{__name__}.task", f"{stem}_callback_timeout": "120"}
    assert expected.items() <= shared.items()


# -- numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_as", "seconds"),
    [
        (None, 180), (60, 60), ("60", 60), ("90s", 90), ("5m", 300), ("1h", 3600), ("1H", 3600), ("1d", 86_400),
        (-1, -1), ("-1", -1), (1.9, 1), (timedelta(minutes=2), 120), (timedelta(milliseconds=1), 1),
    ],
)  # fmt: skip
def test_a_timeout_is_stored_in_seconds(given_as: Any, seconds: int) -> None:
    assert seconds == timeout_s(given_as)
    assert str(seconds) == Encoder().shared(_definition(timeout=given_as))["timeout"]


@pytest.mark.parametrize(
    "timeout",
    ["soon", "", "1w", "1.5", "1h30m", 0, "0", -2, math.nan, math.inf, 1e300, 10**400, True, [], b"60", "9" * 5000],
)
def test_a_timeout_that_would_kill_a_worker_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^timeout="):
        timeout_s(timeout)


@pytest.mark.parametrize("field", ["result_ttl", "failure_ttl"])
@pytest.mark.parametrize("ttl", ["60", 1.5, -2, True, 10**12, timedelta(days=-1), [], math.nan])
def test_a_time_to_live_that_rq_cannot_read_is_refused(field: str, ttl: Any) -> None:
    with pytest.raises(InvalidSchedule, match=f"^{field}="):
        Encoder().shared(_definition(**{field: ttl}))


@pytest.mark.parametrize("retry", [0, -1, True, 1.5, "3", [1]])
def test_retries_are_a_number(retry: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^retry="):
        Encoder().shared(_definition(retry=retry))


def test_retries_are_written_with_their_intervals_and_how_many_there_were_at_first() -> None:
    at_once, spread = _definition(retry=3), _definition(retry=Retry(max=3, interval=[60, 300]))

    written = [Encoder().shared(definition) for definition in (at_once, spread)]

    assert [("3", "3", "[0]"), ("3", "3", "[60, 300]")] == [
        (pairs["zs_retries"], pairs["retries_left"], pairs["retry_intervals"]) for pairs in written
    ]
    assert [60, 300] == Encoder().options(written[1])["retry"].intervals


@pytest.mark.parametrize("interval", [[], [1.5], [60, True], [10**12]])
def test_a_retry_interval_that_rq_would_choke_on_is_refused(interval: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^retry=.*whole seconds"):
        Encoder().shared(_definition(retry=Retry(max=3, interval=interval)))


@pytest.mark.parametrize("meta", [[], "text", 5])
def test_meta_is_a_dict(meta: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^meta="):
        Encoder().shared(_definition(meta=meta))


def test_flags_and_labels_say_what_rq_does_not_know() -> None:
    options = {
        "after": 5,
        "at_front": True,
        "on_uncertain": "skip",
        "tags": ["b", "ä"],
        "created_by": "me",
        "tz": "Asia/Seoul",
    }
    definition = define("app.task", options, "id")

    assert "fs" == flags(definition)
    assert {"tags": '["b","ä"]', "created_by": "me", "tz": "Asia/Seoul"} == labels(definition)
    assert ("", {}) == (flags(_definition()), labels(_definition()))
    assert isinstance(_definition().when, Now)


def test_the_status_words_that_scripts_write_are_rqs() -> None:
    assert {"queued", "scheduled", "started", "deferred"} <= {status.value for status in JobStatus}


@pytest.mark.parametrize(
    ("option", "given", "said"),
    [
        ("retry", Retry(3), 3),
        ("retry", Retry(2, 60), {"max": 2, "interval": [60]}),
        ("retry", Retry(3, [1, 2], enqueue_at_front=True), {"max": 3, "interval": [1, 2], "enqueue_at_front": True}),
        ("on_success", Callback("app.done"), "app.done"),
        ("on_failure", Callback("app.done", 5), {"func": "app.done", "timeout": 5}),
    ],
)
def test_rqs_own_objects_can_be_said_as_plain_values(option: str, given: object, said: object) -> None:
    told = plain(given)

    assert said == told
    assert Encoder().shared(_definition(**{option: given})) == Encoder().shared(_definition(**{option: told}))


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("retry", {}),
        ("retry", {"max": 0}),
        ("retry", {"max": 2.5}),
        ("retry", {"max": True}),
        ("retry", Retry(2.5)),  # type: ignore[arg-type]  # a worker would die of it
        ("retry", {"max": 1, "interval": "x"}),
        ("retry", {"maximum": 1}),
        ("retry", {1: 2}),
        ("on_success", {"func": "nodots"}),
        ("on_success", {"func": "app.done", "timeout": "1x"}),
        ("on_success", {"path": "app.done"}),
    ],
)
def test_plain_values_that_rq_would_refuse_are_refused(option: str, given: object) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        Encoder().shared(_definition(**{option: given}))

    assert option == caught.value.field
