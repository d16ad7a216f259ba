"""The only encoder of RQ's job hash: RQ itself must read back all of its results."""

import json
import zlib
from contextlib import suppress
from datetime import timedelta
from typing import Any

import fakeredis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rq import Callback, Queue, Retry
from rq.job import JobStatus

from tests.breadth import each
from tests.unit.rqjob.jobs import JSON, SERIALIZERS, definition_of, hash_of, restored, task
from zsched.core.model import Now
from zsched.core.options.arguments import timeout_s
from zsched.core.options.choices import OnLost, OnUncertain
from zsched.core.options.define import define
from zsched.core.options.forms import Stored
from zsched.storage.rqjob import Encoder

_LINE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=50)
_TTL = st.none() | st.just(-1) | st.integers(0, 10**9) | st.timedeltas(timedelta(0), timedelta(days=30_000))
_PATHS = st.sampled_from(["app.task", "a.b.c.d", "_x._y"])
_OPTIONS = st.fixed_dictionaries(
    {"args": st.lists(JSON, max_size=3), "kwargs": st.dictionaries(st.text(min_size=1), JSON, max_size=3)},
    optional={
        "queue": _LINE.filter(lambda text: not text.startswith("-") and len(text.encode()) <= 128),
        "timeout": st.none() | st.just(-1) | st.integers(1, 10**9) | st.sampled_from(["90", "5m", "1h", "1d", "30s"]),
        "result_ttl": _TTL, "failure_ttl": _TTL,
        "retry": st.none() | st.integers(1, 50) | st.builds(Retry, max=st.integers(1, 9)),
        "meta": st.none() | st.dictionaries(st.text(), JSON, max_size=3),
        "on_success": st.none() | _PATHS, "on_failure": st.none() | st.builds(Callback, _PATHS, st.integers(1, 999)),
        "description": st.none() | _LINE, "tags": st.lists(_LINE, max_size=3), "owner": st.none() | _LINE,
        "at_front": st.booleans(), "on_uncertain": st.sampled_from(OnUncertain), "func": _PATHS,
        "on_lost": st.sampled_from(OnLost),
    },
)  # fmt: skip


@given(_OPTIONS, st.sampled_from(["pickle", "json"]), st.sampled_from(["scheduled", "queued"]), st.booleans())
def test_rq_restores_our_hashes(options: dict[str, Any], serializer: str, status: str, is_uncertain: bool) -> None:
    definition = definition_of(**options)
    mark = {"zs_uncertain": "1"} if is_uncertain else {}

    job = restored(hash_of(Encoder(serializer), definition, status=status, **mark), serializer)

    assert (options.get("func", "app.task"), status) == (job.func_name, job.get_status(refresh=False))
    assert (options["args"], options["kwargs"]) == (list(job.args), job.kwargs)
    assert definition.queue == job.origin
    assert definition.description in (None, job.description)
    assert (options.get("meta") or {}) == job.meta
    assert job.timeout == timeout_s(options.get("timeout") or 180)
    assert (job.success_callback_timeout, job.failure_callback_timeout) != (0, 0)


@given(_OPTIONS, st.sampled_from(["pickle", "json"]))
def test_options_read_back_make_the_same_hash(options: dict[str, Any], serializer: str) -> None:
    encoder, definition = Encoder(serializer), definition_of(**options)
    fields = encoder.shared(definition)
    path, args, kwargs = encoder.open(encoder.data(definition))

    stored = encoder.options(fields)

    ours = {name: options[name] for name in ("description", "on_lost") if name in options}
    again = definition_of(func=path, args=args, kwargs=kwargs, **ours, **stored)
    assert fields == encoder.shared(again)
    assert encoder.data(definition) == encoder.data(again)


@pytest.mark.parametrize(
    ("options", "serializer"),
    each(
        [
            {}, {"result_ttl": 500, "failure_ttl": 60}, {"result_ttl": -1}, {"meta": {"trace": "abc", "n": [1, 2]}},
            {"retry": Retry(max=3)}, {"retry": Retry(max=3, interval=[60, 300])},
            {"retry": Retry(max=2, enqueue_at_front=True)}, {"timeout": "1h"}, {"timeout": -1},
            {"on_success": task, "on_failure": Callback(task, timeout=30)}, {"description": "a reminder"},
            {"queue": "push.high"},
        ],
        ["pickle", "json"],
    ),
)  # fmt: skip
def test_a_hash_equals_the_hash_that_rqs_enqueue_writes(options: dict[str, Any], serializer: str) -> None:
    connection = fakeredis.FakeRedis()
    queue = Queue(options.get("queue", "default"), connection=connection, serializer=SERIALIZERS[serializer])
    theirs_options = {name: value for name, value in options.items() if name != "queue"}
    theirs_options["job_timeout"] = theirs_options.pop("timeout", None)
    if "on_success" in theirs_options:
        theirs_options["on_success"] = Callback(task)
    job = queue.enqueue("app.task", args=(1, "x"), kwargs={"k": [True]}, **theirs_options)
    theirs = {name.decode(): value for name, value in connection.hgetall(job.key).items()}
    definition = definition_of(args=(1, "x"), kwargs={"k": [True]}, **options)

    ours = hash_of(Encoder(serializer), definition)

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
    """Return the payload as RQ loads it; for pickle the very bytes."""
    with suppress(zlib.error):
        data = zlib.decompress(data)
    return json.loads(data) if serializer == "json" else data


@pytest.mark.parametrize("serializer", ["pickle", "json"])
def test_a_short_payload_stays_plain_and_a_long_one_is_deflated(serializer: str) -> None:
    encoder = Encoder(serializer)

    assert 64 >= len(encoder.call("app.task", (123456, "email"), None))
    assert 500 > len(encoder.call("app.task", ("x" * 10_000,), None))


@pytest.mark.parametrize(
    ("given", "kept", "wanted"),
    [
        (0, "60", 0), (0.0, "60", 0), ("0s", "60", 0), (0.4, "60", 1), ("500ms", "60", 1), (59, "60", 59),
        (timedelta(seconds=59.5), "60", None), (60, "60", None), ("1m", "60", None), (61, "61", None), (-1, "-1", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["result_ttl", "failure_ttl"])
def test_rq_keeps_an_ended_job_for_a_minute_at_least_and_the_job_has_the_shorter_wish(
    field: str, given: Any, kept: str, wanted: int | None
) -> None:
    shared = Encoder().shared(definition_of(**{field: given}))

    assert (kept, None if wanted is None else str(wanted)) == (shared[field], shared.get(f"zs_{field}"))
    assert (int(kept) if wanted is None else wanted) == Encoder().options(shared)[field]


def test_the_description_is_the_function_without_arguments_or_keeps_it_in_a_field_of_zsched() -> None:
    assert "app.task" == Encoder().shared(definition_of(args=("secret",)))["description"]
    shared = Encoder().shared(definition_of(description="Say hello"))
    assert ("Say hello", "app.task") == (shared["description"], shared["zs_func"])


def test_flags_and_labels_hold_the_options_that_rq_lacks() -> None:
    options = {
        "after": 5,
        "at_front": True,
        "on_uncertain": "skip",
        "tags": ["b", "ä"],
        "owner": "me",
        "tz": "Asia/Seoul",
    }
    definition = define("app.task", options, "id")

    assert "fs" == definition.letters()
    assert {"tags": '["b","ä"]', "owner": "me", "tz": "Asia/Seoul"} == definition.texts(Stored.LABEL)
    assert ("", {}) == (definition_of().letters(), definition_of().texts(Stored.LABEL))
    assert isinstance(definition_of().when, Now)


def test_the_status_words_that_scripts_write_are_rqs() -> None:
    assert {"queued", "scheduled", "started", "deferred"} <= {status.value for status in JobStatus}
