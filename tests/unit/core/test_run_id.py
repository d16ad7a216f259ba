"""Run ids and signatures: their parts, and the namespace of a run id."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.run_id import RunId, run_key, schedule_of, usual_keys
from zsched.core.signed import UNSIGNED, job_pairs, parts_of, signature_in

_WORDS = ["a", "report-1", "1700000000000", "170000000000", "nacme", "r2", "x" * 129, "ä", "!", "\n", ""]
_PARTS = st.sampled_from(_WORDS)
_RUN_IDS = st.lists(_PARTS, min_size=1, max_size=4).map("-".join)

MS = "1795277135295"


FOREIGN = ["a-1795", "import-20240115093000", f"a b-{MS}", f"-{MS}", f"a-{'1' * 5000}", f"a-{MS}-r{'1' * 5000}", ""]
FOREIGN += [f"a-{MS}-nmail", "a-١٧٩٥٢٧٧١٣٥٢٩٥"]
OF_RQ = "8b1f7f9a-1c4e-4e0f-9d53-446655440000"  # RQ makes such an id for every job


@pytest.mark.parametrize(
    ("run_id", "namespace", "key"),
    [
        (f"a-{MS}", "default", ("a", MS)),
        (f"a-b-{MS}", "default", ("a-b", MS)),
        (f"a-{MS}-r7", "default", ("a", f"{MS}-r7")),
        (f"a-{MS}-nmail", "mail", ("a", f"{MS}-nmail")),
        (f"a-{MS}-nmail-r7", "mail", ("a", f"{MS}-nmail-r7")),
        *((run_id, "mail", None) for run_id in (f"a-{MS}", OF_RQ)),
        *((run_id, "default", None) for run_id in (*FOREIGN, OF_RQ)),
    ],
)
def test_a_run_id_has_a_key_only_in_its_own_namespace(run_id: str, namespace: str, key: tuple[str, str] | None) -> None:
    assert key == run_key(run_id, namespace)
    assert (key is None) == (RunId.ours(run_id, namespace) is None)


@pytest.mark.parametrize("run_id", [f"a-b-{MS}", f"a-b-{MS}-r1", f"a-b-{MS}-nmail", f"a-b-{MS}-nmail-r1"])
def test_the_schedule_id_of_a_run_id_is_the_part_before_the_time(run_id: str) -> None:
    parts = RunId.parse(run_id)

    assert ("a-b", "a-b", int(MS)) == (parts.schedule_id, schedule_of(run_id), parts.nominal_ms)


@given(st.lists(_RUN_IDS, max_size=4).map(" ".join))
def test_run_ids_parsed_together_give_the_same_keys_as_parsed_singly(run_ids: str) -> None:
    assert usual_keys(run_ids) in (None, list(map(run_key, run_ids.split())))


def test_run_ids_of_the_usual_form_are_parsed_together() -> None:
    assert usual_keys(f"a-{MS} b-2-{MS}") == [("a", MS), ("b-2", MS)]
    assert usual_keys(f"a-{MS} b-{MS}-r2") is None


SIGNATURE = b"k1.06d2d3800.BuEhdGFpC0Q0nZCUD1l1OQ"


def test_data_has_its_signature_beside_it_in_the_job_if_there_is_one() -> None:
    assert [b"data", b"call", b"zs_sig", SIGNATURE] == job_pairs(SIGNATURE, b"call")
    assert [b"data", SIGNATURE] == job_pairs(UNSIGNED, SIGNATURE)
    assert (SIGNATURE, b"") == (signature_in(SIGNATURE), signature_in(UNSIGNED))


def test_the_parts_of_a_signature_are_read() -> None:
    assert ("k1", 0x06D2D3800, b"BuEhdGFpC0Q0nZCUD1l1OQ") == parts_of(SIGNATURE)
    assert {None} == {parts_of(text) for text in (UNSIGNED, b"", b"k1", SIGNATURE + b"=", b"\n" + SIGNATURE)}
