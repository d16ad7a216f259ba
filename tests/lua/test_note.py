"""note.lua: stores the note of a task about its run."""

from __future__ import annotations

import pytest

from tests.lua.ground import Ground
from tests.prefix import RQ
from zsched.storage.scripts import load

JOB = f"{RQ}:job:a-1700000000000"


def note(ground: Ground, text: str, seen: str = "", field: str = "zs_note") -> str:
    word: bytes = ground.link.execute("EVAL", load("note").text, 1, JOB, field, seen, text)[1]
    return word.decode()


def test_a_note_is_stored_in_the_job(ground: Ground) -> None:
    ground.redis.hset(JOB, mapping={"data": "call", "status": "started"})

    assert "noted" == note(ground, '{"sent":1}')
    assert "noted" == note(ground, '{"sent":2}', seen='{"sent":1}')
    assert b'{"sent":2}' == ground.redis.hget(JOB, "zs_note")
    assert [] == ground.entries()


def test_a_note_based_on_a_stale_note_is_refused(ground: Ground) -> None:
    ground.redis.hset(JOB, mapping={"data": "call", "zs_note": '{"sent":1}'})

    assert "AGAIN" == note(ground, '{"failed":1}')
    assert b'{"sent":1}' == ground.redis.hget(JOB, "zs_note")


@pytest.mark.parametrize("there", ["half of a job", "another type"])
def test_a_note_does_not_recreate_a_deleted_job(ground: Ground, there: str) -> None:
    if there == "half of a job":
        ground.redis.hset(JOB, "status", "started")
    else:
        ground.redis.set(JOB, "x")
    before = ground.keyspace()

    assert "GONE" == note(ground, "{}")
    assert before == ground.keyspace()


def test_a_note_in_one_field_leaves_the_other_fields_alone(ground: Ground) -> None:
    ground.redis.hset(JOB, mapping={"data": "call", "zs_note": '{"sent":1}'})

    assert "noted" == note(ground, "a", field="zs_next")
    assert {b"data": b"call", b"zs_note": b'{"sent":1}', b"zs_next": b"a"} == ground.redis.hgetall(JOB)
