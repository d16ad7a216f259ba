"""Signed rows of put.lua and put_recurring.lua: a field of the job in Redis, and the name of its data in the log."""

from __future__ import annotations

import pytest

from tests.lua.ground import FIELDS, Ground

DUE_MS = 1_900_000_000_000
SIGNATURE, OTHER = f"k1.06d2d3800.{'A' * 22}", f"k2.06d2d3800.{'+/' * 11}"
UNSIGNED = "data"


def test_a_signed_one_shot_has_its_signature_beside_its_data(ground: Ground) -> None:
    ground.put(("a", DUE_MS, "call", SIGNATURE), ("b", DUE_MS, SIGNATURE), ("c", DUE_MS, "call", OTHER))

    jobs = [ground.job(f"{id}-{DUE_MS}") for id in "abc"]
    assert [("call", SIGNATURE), (SIGNATURE, None), ("call", OTHER)] == [
        (job["data"], job.get("zs_sig")) for job in jobs
    ]
    rows = ["a", str(DUE_MS), SIGNATURE, "call", "b", str(DUE_MS), "data", SIGNATURE, "c", str(DUE_MS), OTHER, "call"]
    assert rows == ground.last.texts[-len(rows) :]


@pytest.mark.parametrize(
    ("data", "name", "word"),
    [
        ("call", SIGNATURE, "unchanged"),
        ("call", OTHER, "updated"),
        ("call", UNSIGNED, "updated"),
        ("x", SIGNATURE, "updated"),
    ],
)
def test_an_equal_one_shot_with_an_equal_signature_is_unchanged(
    ground: Ground, data: str, name: str, word: str
) -> None:
    ground.put(("a", DUE_MS, "call", SIGNATURE))

    [(answered, _)] = ground.put(("a", DUE_MS, data, name))

    assert word == answered
    assert (data, name) == (ground.job(f"a-{DUE_MS}")["data"], ground.job(f"a-{DUE_MS}").get("zs_sig", UNSIGNED))


def test_a_signature_for_an_unsigned_one_shot_changes_it(ground: Ground) -> None:
    ground.put(("a", DUE_MS, "call"))

    assert [("unchanged", str(DUE_MS))] == ground.put(("a", DUE_MS, "call"))
    assert [("updated", str(DUE_MS))] == ground.put(("a", DUE_MS, "call", SIGNATURE))


def test_a_delay_that_the_caller_computed_may_have_passed(ground: Ground) -> None:
    past = ground.now_ms - 5

    words = ground.put(("a", f"={past}", "call", SIGNATURE), ("b", past, "call", SIGNATURE))

    assert [("created", str(past)), ("PAST", str(past))] == words


def test_a_signed_rule_has_its_signature_in_its_template(ground: Ground) -> None:
    def put(id: str, name: str) -> str:
        return str(ground.put_recurring(id, DUE_MS, name=name)[0])

    assert ["created", "unchanged", "updated"] == [put("r", name) for name in (SIGNATURE, SIGNATURE, OTHER)]
    assert OTHER == ground.template("r")["zs_sig"]
    assert [OTHER, "call"] == ground.last.texts[-2:]
    assert ["updated", "unchanged"] == [put("r", UNSIGNED), put("r", UNSIGNED)]
    assert "zs_sig" not in ground.template("r")


def test_a_run_that_is_enqueued_has_the_signed_time_or_none(ground: Ground) -> None:
    texts = [text for pair in FIELDS.items() for text in pair]
    arguments = {"id": "e", "if_exists": "replace", "at_front": 0, "run_ms": DUE_MS}

    first, second = (ground.call("enqueue", texts, **arguments) for _ in range(2))

    assert (f"e-{DUE_MS}", "AGAIN") == (first[-1], second[0])
