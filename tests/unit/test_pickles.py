"""
Modules that open a pickle like a worker, which runs it: checked against the sources (SECURITY.md, "Data is never
code").
"""

import ast
import os
import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.sources import PACKAGE, Source, sources
from zsched.errors import InvalidSchedule
from zsched.storage.rqjob import Encoder, Unopened
from zsched.storage.signing import called
from zsched.storage.unpickling import MOST_BYTES, NotPlain, inflated, read_plain, read_shown

PICKLES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "shelve", "yaml"}

# Who imports such a module, and what it names of it. ``unpickling`` subclasses the reader: it looks up no class but
# plain ones.
IMPORTERS = {
    "storage/rqjob.py": {"pickle.Pickler", "pickle.dumps", "pickle.loads", "pickle.HIGHEST_PROTOCOL"},
    "storage/unpickling.py": {"pickle.Unpickler"},
}
# Who asks the encoder of ``rqjob`` to run what it opens, and why that is no surprise.
RUNNERS = {
    "client/updating.py": "Client(runs_pickles=True)",
    "imports/rqjobs.py": "zsched import rq-scheduler and rq-scheduled",
    "tasks/chaining.py": "inside a worker, which has run that very payload",
    "testing/runs.py": "inside a test, which has put that payload",
}
# RQ's jobs and results unpickle when they are asked for what they hold. Who knows them:
KNOW_JOBS = {
    "current.py": "inside a worker",
    "rq/guarded.py": "inside a worker",
    "rq/job.py": "inside a worker",
    "rq/parts.py": "inside a worker",
    "rq/plain.py": "inside a worker",
    "rq/workers.py": "inside a worker",
    "tasks/chaining.py": "inside a worker",
    "testing/ground.py": "a worker of a test",
    "dashboard/app.py": "in a class of its own, which reads without running anything",
}
OF_JOBS = ("rq.job", "rq.results", "rq.queue", "rq.worker", "rq.registry", "rq.serializers", "rq.executions")
OF_JOBS += ("rq.Queue", "rq.Worker", "rq.SimpleWorker", "rq.get_current_job", "rq.group", "rq.scheduler")


def knows_pickles(source: Source) -> bool:
    return any(name.partition(".")[0] in PICKLES for name in source.imports)


def of_pickles(source: Source) -> set[str]:
    """Return the names that *source* uses of a module that unpickles."""
    taken = {name for name in source.imports if "." in name}
    return {name for name in source.attributes | taken if name.partition(".")[0] in PICKLES}


def asks_to_run(source: Source) -> bool:
    """Return True if a call of ``open`` or ``options`` has anything but ``runs=False``."""
    asked = [
        keyword
        for call in source.nodes
        if isinstance(call, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("open", "options")
        for keyword in call.keywords
        if keyword.arg in ("runs", None)
    ]
    return any(not (isinstance(one.value, ast.Constant) and one.value.value is False) for one in asked)


def knows_jobs(source: Source) -> bool:
    return any(name == "rq" or f"{name}.".startswith(f"{each}.") for name in source.imports for each in OF_JOBS)


SOURCES = sources(PACKAGE.rglob("*.py"))


def test_only_the_listed_modules_use_functions_of_pickle() -> None:
    assert IMPORTERS == {name: of_pickles(source) for name, source in SOURCES.items() if knows_pickles(source)}


def test_only_the_listed_modules_ask_to_run_pickles_outside_of_workers() -> None:
    runners = {name for name, source in SOURCES.items() if asks_to_run(source)} - {"storage/rqjob.py"}

    assert set(RUNNERS) == runners


def test_modules_of_daemon_archive_and_command_line_do_not_use_rqs_jobs() -> None:
    assert set(KNOW_JOBS) == {name for name, source in SOURCES.items() if knows_jobs(source)}


PLAIN = [
    None,
    [1, 2.5, "text", b"bytes", (True, {"a": {1, 2}})],
    bytearray(b"bytes"),
    frozenset([1, 2]),
    OrderedDict(a=1),
    datetime(2026, 12, 24, 9, tzinfo=timezone(timedelta(hours=9))),
    [date(2026, 12, 24), time(9), timedelta(hours=1), UTC],
    Decimal("1.10"),
    UUID(int=7),
]


class Tag(Enum):
    A = 1  # Python 3.11.2 pickles it by getattr, later ones by its class


class Running:
    """An object that runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_a_plain_value_is_read_like_by_pickle(value: object) -> None:
    assert value == read_plain(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


@pytest.mark.parametrize(
    ("value", "name"),
    [(Tag.A, Tag.A.__reduce_ex__(2)[0].__name__), ([Fraction(1, 3)], "fractions.Fraction"), ({"a": Path}, "pathlib")],
)
def test_an_object_of_another_class_is_refused_by_its_name(value: object, name: str) -> None:
    with pytest.raises(NotPlain, match=name):
        read_plain(pickle.dumps(value))


def test_code_in_a_pickle_is_not_run(tmp_path: Path) -> None:
    made, encoder = tmp_path / "made", Encoder()
    evil = Running(f"touch {made}")
    data, meta = pickle.dumps(("app.f", None, (evil,), {})), pickle.dumps({"a": evil})

    with pytest.raises(InvalidSchedule, match="args and kwargs both"):
        encoder.open(data)
    kept = encoder.options({"meta": meta})["meta"]

    assert Unopened(meta, "it holds posix.system, and only plain values are opened here") == kept
    assert not made.exists()
    encoder.open(data, runs=True)  # as RQ's workers do
    assert made.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        b"\x80\x04Nr\x00\x00\x00\x10.",  # a place in the memo far behind all others
        b"\x80\x04Np99999999\n.",
        b"\x80\x05\x96\x00\x00\x00\x00\x10\x00\x00\x00.",  # a bytearray of more bytes than there are
        b"\x80\x04\x95\x00\x00\x00\x00\x10\x00\x00\x00N.",  # a frame of more bytes than there are
        b"\x80\x04" + b"]" * 5_000 + b"a" * 4_999 + b".",
        pickle.dumps([0] * 100_001),
    ],
    ids=["nothing", "garbage", "binary put", "text put", "bytearray", "frame", "deep", "many"],
)
def test_a_broken_or_too_big_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(NotPlain):
        read_plain(data)


@pytest.mark.parametrize("serializer", ["pickle", "json"])
def test_a_payload_that_would_inflate_beyond_the_limit_is_not_inflated(serializer: str) -> None:
    bomb = zlib.compress(bytes(MOST_BYTES + 1))

    assert len(bomb) < 10_000
    with pytest.raises(InvalidSchedule, match="cannot be read") as refused:
        Encoder(serializer).open(bomb)
    assert "it has more than 10,000,000 bytes, inflated" == str(refused.value.__cause__)


@pytest.mark.parametrize("call", [("f",), ("f", None, (), {}, 1), {"f": 1}, (1, None, (), {}), ("f", 1, (), {})])
def test_a_payload_that_is_not_a_call_of_a_function_by_its_path_is_refused(call: object) -> None:
    assert ["f"] == called({"data": pickle.dumps(("f", None, (), {}))}).paths
    with pytest.raises(NotPlain, match="it is not the call of a function by its dotted path"):
        called({"data": pickle.dumps(call)})


TOO_MANY = "a key or a set in it has more than 100,[0-9]+ values, as often as they appear"


@pytest.mark.parametrize("read", [read_plain, read_shown])
@pytest.mark.parametrize("pair", [b"h%c\x86", b"(h%ch%ch%ct"], ids=["pairs", "threes"])
def test_a_key_of_nested_tuples_is_not_hashed(read: Callable[[bytes], Any], pair: bytes) -> None:
    made = (pair % ((number,) * pair.count(b"%c")) for number in range(60))
    data = b"\x80\x04}K\x01\x85" + b"".join(b"\x94" + each for each in made) + b"K\x01s."

    with pytest.raises(NotPlain, match=TOO_MANY):
        read(data)


@pytest.mark.parametrize("read", [read_plain, read_shown])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("hashing", [set, frozenset, OrderedDict.fromkeys, dict.fromkeys])
def test_a_set_or_mapping_of_nested_tuples_is_not_made(
    read: Callable[[bytes], Any], protocol: int, hashing: Callable[[Any], Any]
) -> None:
    nested: Any = 1
    for _ in range(20):  # 2 ** 20 values, so it can be hashed here
        nested = (nested, nested)

    with pytest.raises(NotPlain, match=TOO_MANY):
        read(pickle.dumps(hashing([nested]), protocol))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_the_call_of_a_job_with_an_argument_that_repeats_its_values_is_known(protocol: int) -> None:
    rows = [[0] * 100] * 2000

    assert ["f"] == called({"data": pickle.dumps(("f", None, (rows,), {"rows": rows}), protocol)}).paths


@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
def test_values_that_appear_a_few_times_are_read(protocol: int) -> None:
    shared: Any = [("a", 1), {"b": {2, 3}}, datetime(2026, 1, 1, tzinfo=UTC), Decimal("1.5")]
    ring: list[Any] = [shared]
    ring.append(ring)
    value = {"many": [shared] * 1000, ("key", ("key", 1)): shared, "long": list(range(20_000))}

    assert value == read_shown(pickle.dumps(value, protocol))
    assert shared == read_shown(pickle.dumps(ring, protocol))[1][0]


@pytest.mark.parametrize("data", [b"", b"as it is", zlib.compress(b"cut short")[:-3]])
def test_data_that_was_not_deflated_is_returned_unchanged(data: bytes) -> None:
    assert data == inflated(data)
    assert b"x" * 1_000 == inflated(zlib.compress(b"x" * 1_000))


def test_a_value_above_the_limit_of_bytes_is_not_opened() -> None:
    with pytest.raises(NotPlain, match="more than 10,000,000 are not opened"):
        read_plain(pickle.dumps(b"0" * MOST_BYTES))
