"""Short pickles of calls: which calls have one, and that RQ and zsched read it as any other."""

import pickle
import pickletools
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from enum import StrEnum
from threading import Barrier
from typing import Any

import pytest

from tests.unit.rqjob.jobs import restored
from zsched.storage.rqjob import CallPickler, Encoder, pickled
from zsched.storage.signing import called
from zsched.storage.unpickling import inflated, is_pickle, read_plain

PATH = "app.tasks.send_reminder"
LONG = "x" * 70_000  # more than a frame


class Name(StrEnum):
    A = "a"


PLAIN: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((123456, "email"), {}),
    ((None, True, -1, 2**80, 0.5, b"\x94\xed", "\xed ☃\x00"), {"key": "value", "n": 148}),
    (tuple(range(300)), {}),
]
SHARED: list[Any] = []
RING: list[Any] = []
RING.append(RING)


def without_head_and_memo(raw: bytes) -> bytes:
    codes = [(code.name, at) for code, _, at in pickletools.genops(raw)] + [("", len(raw))]
    dropped = ("PROTO", "FRAME", "MEMOIZE")
    return b"".join(raw[at : codes[n + 1][1]] for n, (name, at) in enumerate(codes[:-1]) if name not in dropped)


@pytest.mark.parametrize(("args", "kwargs"), PLAIN)
def test_a_call_with_plain_values_is_pickled_without_head_and_memo(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    call = (PATH, None, args, kwargs)

    short = CallPickler().dumps(call)

    assert short == without_head_and_memo(pickled(call))
    assert call == pickle.loads(short) == read_plain(short)
    assert is_pickle(short)
    assert [PATH] == called({"data": short, "origin": "default"}).paths


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((SHARED, SHARED), {}),
        ((RING,), {}),
        ((), {"a": SHARED, "b": SHARED}),
        ((datetime(2026, 1, 1, tzinfo=UTC),), {}),
        ((Name.A,), {}),
        ((), {Name.A: 1}),
        ((LONG, "y"), {}),
        (("z" * 40_000, "z" * 40_000), {}),
    ],
    ids=["list", "ring", "kwargs", "datetime", "subclass", "key", "long", "frames"],
)
def test_a_call_with_other_values_is_pickled_as_rq_does_it(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    call = (PATH, None, args, kwargs)
    pickler = CallPickler()

    assert [pickled(call)] * 2 == [pickler.dumps(call), pickler.dumps(call)]
    assert (PATH, None, (1,), {}) == pickle.loads(pickler.dumps((PATH, None, (1,), {})))


def test_an_argument_that_is_given_twice_is_one_object_in_the_worker() -> None:
    both = Encoder().open(Encoder().call(PATH, (SHARED, SHARED), None), runs=True)[1]

    assert both[0] is both[1]


@pytest.mark.parametrize("length", [0, 1, 23, 255, 256, 70_000])
def test_a_short_pickle_is_never_taken_for_a_deflated_one(length: int) -> None:
    short = CallPickler().dumps((f"a.{'b' * length}", None, (), {}))

    assert short == inflated(short)
    with pytest.raises(zlib.error):
        zlib.decompress(short)


@pytest.mark.parametrize(("args", "kwargs"), PLAIN)
def test_rq_restores_a_job_with_a_short_pickle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    job = restored({"data": Encoder().call(PATH, args, kwargs)})

    assert (PATH, args, kwargs) == (job.func_name, job.args, job.kwargs)


def test_threads_that_share_an_encoder_do_not_mix_their_calls() -> None:
    encoder, together = Encoder(), Barrier(4)

    def encode(name: str) -> set[tuple[str, ...]]:
        together.wait()
        return {pickle.loads(encoder.call(PATH, (name,), None))[2] for _ in range(2_000)}

    with ThreadPoolExecutor(4) as pool:
        assert [{(name,)} for name in "abcd"] == list(pool.map(encode, "abcd"))


def test_a_call_that_schedules_while_it_is_pickled_gets_its_own_pickle() -> None:
    pickler, inner = CallPickler(), list[Any]()

    class Scheduling:
        def __reduce__(self) -> tuple[Any, ...]:
            inner.append(pickle.loads(pickler.dumps((PATH, None, ("inner",), {}))))
            return (str, ("outer",))

    outer = pickle.loads(pickler.dumps((PATH, None, (Scheduling(),), {})))

    assert ((PATH, None, ("outer",), {}), [(PATH, None, ("inner",), {})]) == (outer, inner)
