"""The calls of a job, all values that JSON can hold, and a hash as RQ reads it."""

from typing import Any

import fakeredis
from hypothesis import strategies as st
from rq.job import Job
from rq.serializers import DefaultSerializer, JSONSerializer

from zsched.core.clock import from_ms
from zsched.core.model import Definition
from zsched.core.options.define import define_now
from zsched.core.options.forms import Stored
from zsched.storage.rqjob import Encoder

SERIALIZERS = {"pickle": DefaultSerializer, "json": JSONSerializer}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def task(*args: Any, **kwargs: Any) -> None: ...


def definition_of(**options: Any) -> Definition:
    return define_now(options.pop("func", "app.task"), options, "id")


def restored(fields: dict[str, Any], serializer: str = "pickle") -> Job:
    job = Job("a-1", connection=fakeredis.FakeRedis(), serializer=SERIALIZERS[serializer])
    job.restore(
        {name.encode(): text if isinstance(text, bytes) else str(text).encode() for name, text in fields.items()}
    )
    return job


def hash_of(encoder: Encoder, definition: Definition, **over: Any) -> dict[str, Any]:
    """Return all fields that put.lua and fire.lua write into a run's key."""
    stamp = from_ms(1_795_248_000_123).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    times = {"status": "queued", "created_at": stamp, "enqueued_at": stamp, "zs": "1" + definition.letters()}
    own = {f"zs_{name}": text for name, text in definition.texts(Stored.LABEL).items()}
    return encoder.shared(definition) | own | {"data": encoder.data(definition)} | times | over
