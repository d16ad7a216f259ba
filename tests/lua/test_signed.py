"""Signed rows of put.lua and put_recurring.lua: two fields in Redis, one text in the log."""

from __future__ import annotations

import pytest

from tests.lua.ground import FIELDS, Ground

DUE_MS = 1_900_000_000_000
SIGNATURE, OTHER = f"k1.06d2d3800.{'A' * 22}", f"k2.06d2d3800.{'-_' * 11}"
SIGNED = f"data\n{SIGNATURE}"


def test_a_signed_one_shot_has_its_signature_beside_its_data(ground: Ground) -> None:
    ground.put(("a", DUE_MS, SIGNED), ("b", DUE_MS, "data"))

    a, b = ground.job(f"a-{DUE_MS}"), ground.job(f"b-{DUE_MS}")
    assert ("data", SIGNATURE, "data", None) == (a["data"], a["zs_sig"], b["data"], b.get("zs_sig"))
    assert SIGNED in ground.last.texts


@pytest.mark.parametrize(
    ("text", "word"), [(SIGNED, "unchanged"), (f"data\n{OTHER}", "updated"), ("data", "updated"), ("x", "updated")]
)
def test_an_equal_one_shot_with_an_equal_signature_is_unchanged(ground: Ground, text: str, word: str) -> None:
    ground.put(("a", DUE_MS, SIGNED))

    [(answered, _)] = ground.put(("a", DUE_MS, text))

    assert word == answered
    assert text.partition("\n")[2] == ground.job(f"a-{DUE_MS}").get("zs_sig", "")


def test_a_delay_that_the_caller_computed_may_have_passed(ground: Ground) -> None:
    past = ground.now_ms - 5

    assert [("created", str(past)), ("PAST", str(past))] == ground.put(("a", f"={past}", SIGNED), ("b", past, SIGNED))


def test_a_signed_rule_has_its_signature_in_its_template(ground: Ground) -> None:
    def put(data: str) -> str:
        return str(ground.put_recurring("r", DUE_MS, template={"data": data})[0])

    words = [put(SIGNED), put(SIGNED), put(f"data\n{OTHER}"), put("data")]

    assert ["created", "unchanged", "updated", "updated"] == words
    assert "zs_sig" not in ground.template("r")


def test_a_run_that_is_enqueued_has_the_signed_time_or_none(ground: Ground) -> None:
    texts = [text for pair in FIELDS.items() for text in pair]
    arguments = {"id": "e", "if_exists": "replace", "at_front": 0, "run_ms": DUE_MS}

    first, second = (ground.call("enqueue", texts, **arguments) for _ in range(2))

    assert (f"e-{DUE_MS}", "AGAIN") == (first[-1], second[0])
