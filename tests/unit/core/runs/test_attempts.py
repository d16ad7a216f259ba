"""Parts of a run in RQ's job: its id, its signature, its attempts, and what another writer may have written there."""

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rq.utils import import_attribute

from zsched.core.runs.attempts import (
    Attempt,
    added,
    attempts_of,
    attempts_text,
    joined,
    last_lines,
    remedy_of,
    with_error,
    without_tracebacks,
)
from zsched.core.runs.job import UNSIGNED, job_pairs, parts_of, signature_in
from zsched.core.runs.run_id import RunId, run_key, schedule_of, usual_keys

T_MS = 1_800_000_000_000
LONGEST = 4000  # bytes of the text
CALL = '  File "/srv/app/tasks/mail.py", line 12, in send\n    connect(host)\n'


def failed(number: int, traceback: str = f"Traceback (most recent call last):\n{CALL * 3}ValueError: no") -> Attempt:
    at_ms = T_MS + number * 1000
    return with_error(Attempt(number, "w", at_ms, at_ms + 5, at_ms + 205, next_ms=at_ms + 1000), traceback)


def all_of(number: int, **more: Any) -> tuple[Attempt, ...]:
    attempts: tuple[Attempt, ...] = ()
    for one in range(1, number + 1):
        attempts = added(attempts, failed(one, **more))
    return attempts


def test_an_attempt_has_the_exception_of_its_traceback_or_its_only_line_as_its_error() -> None:
    attempt = failed(1, f"Traceback (most recent call last):\n{CALL}ConnectionRefusedError: [Errno 111] no\n")
    short = failed(1, "Work-horse terminated unexpectedly; waitpid returned 9; ")

    assert "ConnectionRefusedError: [Errno 111] no" == attempt.error
    assert attempt.traceback.startswith("Traceback (most recent call last):\n  File ")
    assert (200, 5) == (attempt.duration_ms, attempt.wait_ms)
    assert ("Work-horse terminated unexpectedly; waitpid returned 9;", "") == (short.error, short.traceback)


MODULES = {"rq_app/__init__.py": "", "rq_app/tasks.py": "class Mail: pass", "rq_app/ill.py": "import no_such_module"}
MISSING = {
    "rq_app.tasks.charge": "charge (rq_app.tasks has no charge)",
    "rq_app.tasks.Mail.send": "rq_app.tasks.Mail.send (rq_app.tasks.Mail has no send)",
    "rq_app.tasks.Post.send": "send (cannot import rq_app.tasks.Post)",
    "rq_app.news.send": "send (cannot import rq_app.news)",
    "rq_app.news.daily.send": "send (cannot import rq_app.news.daily)",
    "rq_app.ill.send": "send (cannot import rq_app.ill)",
    "other.tasks.send": "other.tasks.send (cannot import other.tasks)",
    "send": "send",
}


@pytest.mark.parametrize("name", MISSING)
def test_an_error_of_rq_about_a_missing_function_says_what_is_missing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, code in MODULES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ValueError, match="Invalid attribute name: ") as raised:
        import_attribute(name)

    error = failed(1, "".join(traceback.format_exception(raised.value))).error
    assert f"ValueError: Invalid attribute name: {MISSING[name]}" == error
    assert ("(" in error) is bool(remedy_of(error))


def test_a_remedy_of_a_missing_function_names_only_what_an_import_can_name() -> None:
    said = "ValueError: Invalid attribute name: x (cannot import {})".format

    assert "deploy app.tasks where its worker runs; if" in remedy_of(said("app.tasks"))
    assert ["", ""] == [remedy_of(said("os; rm -rf /")), remedy_of("ValueError: no (cannot import a")]
    of_a_task = f"Traceback (most recent call last):\n{CALL}ValueError: Invalid attribute name: x"
    assert "ValueError: Invalid attribute name: x" == failed(1, of_a_task).error


def _noted() -> None:
    error = ValueError("no such user")
    error.add_note("see the runbook")
    raise error


def _grouped() -> None:
    raise ExceptionGroup("two of three", [ValueError("a"), KeyError("b")])


def _caused() -> None:
    try:
        _noted()
    except ValueError as error:
        raise RuntimeError("no mail\n(Background on this error at: https://e)") from error


def _grouped_while_handled() -> None:
    try:
        _caused()
    except RuntimeError:
        _grouped()


def _told_by_a_child() -> None:
    raise RuntimeError(f"the child failed:\n{traceback_of(_noted)}")


def _marked() -> None:
    raise ValueError("here\n    ^^^^")


def _begun_by_an_empty_line() -> None:
    raise ValueError("\n\nno")


def _without_a_message() -> None:
    raise ValueError


def _invalid() -> None:
    compile("a b", "f.py", "exec")


def traceback_of(task: Callable[[], None]) -> str:
    try:
        task()
    except Exception:
        return traceback.format_exc()
    raise AssertionError(task)


@pytest.mark.parametrize(
    ("task", "error"),
    [
        (_noted, "ValueError: no such user"),
        (_grouped, "ExceptionGroup: two of three (2 sub-exceptions)"),
        (_caused, "RuntimeError: no mail"),
        (_grouped_while_handled, "ExceptionGroup: two of three (2 sub-exceptions)"),
        (_told_by_a_child, "RuntimeError: the child failed:"),
        (_marked, "ValueError: here"),
        (_begun_by_an_empty_line, "ValueError: no"),
        (_without_a_message, "ValueError"),
        (_invalid, "SyntaxError: invalid syntax"),
    ],
)
def test_the_error_is_the_class_and_the_first_line_of_the_message(task: Callable[[], None], error: str) -> None:
    assert error == failed(1, traceback_of(task)).error


def test_the_text_of_attempts_is_read_back_unchanged() -> None:
    attempts = all_of(3)

    assert attempts == attempts_of(attempts_text(attempts))
    assert [1, 2, 3] == [one.number for one in attempts]
    assert all(one.traceback for one in attempts)


def test_a_traceback_has_none_of_rqs_own_calls() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/venv/lib/python3.11/site-packages/rq/worker/base.py", line 1671, in perform_job\n'
        "    return_value = job.perform()\n"
        "                   ^^^^^^^^^^^^^\n"
        '  File "/venv/lib/python3.11/site-packages/rq/job.py", line 1478, in perform\n'
        "    self._result = self._execute()\n"
        f"{CALL}"
        '  File "/venv/lib/python3.11/site-packages/rq/job.py", line 12, in fetch\n'
        "    raise NoSuchJobError\n"
        "rq.exceptions.NoSuchJobError"
    )

    assert f"Traceback (most recent call last):\n{CALL}" == failed(1, text).traceback[: 35 + len(CALL)]
    assert "in fetch" in failed(1, text).traceback
    assert "perform" not in failed(1, text).traceback


def test_a_traceback_keeps_its_last_lines() -> None:
    text = "".join(f"line {n}\n" for n in range(1000)) + "ValueError: no"

    kept = last_lines(text)

    assert 1400 < len(kept) <= 1500
    assert kept.startswith("line ")
    assert text.endswith(kept)
    assert "a b\n  c" == last_lines("a\x1bb\n  c\r\n")


@pytest.mark.parametrize("character", ["x", "é", "서", '"', "\x00", "😀"])
@pytest.mark.parametrize("number", [1, 2, 19, 20, 21, 100])
def test_attempts_stay_within_their_bounds_and_keep_the_first_and_the_newest(number: int, character: str) -> None:
    attempts = all_of(number, traceback=f"Traceback:\n{(character * 70 + chr(10)) * 40}ValueError: {character * 600}")

    assert len(attempts) <= 20
    assert len(attempts_text(attempts)) <= LONGEST
    assert {1, number} <= {one.number for one in attempts}
    assert attempts == attempts_of(attempts_text(attempts))


def test_the_oldest_tracebacks_are_left_out_first() -> None:
    attempts = all_of(8, traceback=f"Traceback:\n{CALL * 10}ValueError: no")

    assert [1, 2, 3, 4, 5, 6, 7, 8] == [one.number for one in attempts]
    have = [bool(one.traceback) for one in attempts]
    assert sorted(have) == have
    assert {False, True} == set(have)


SEEN, SECOND = failed(1), failed(2)
FORGOTTEN = SEEN._replace(queued_ms=None)  # RQ's hash has no ``queued_ms`` of an attempt once the next one is queued
OTHER = FORGOTTEN._replace(started_ms=T_MS + 7)


@pytest.mark.parametrize(
    ("known", "later", "expected"),
    [
        (SEEN, [FORGOTTEN, SECOND], (SEEN, SECOND)),
        (FORGOTTEN, [SEEN], (SEEN,)),
        (SEEN, [OTHER], (OTHER,)),  # another attempt of the same number takes nothing of it
    ],
)
def test_a_later_look_keeps_when_an_attempt_was_queued(
    known: Attempt, later: list[Attempt], expected: tuple[Attempt, ...]
) -> None:
    assert expected == joined([known], later)


def test_an_attempt_after_a_requeue_gets_the_next_number() -> None:
    assert [1, 2, 3] == [one.number for one in added(all_of(2), failed(2))]


def test_attempts_without_tracebacks_keep_their_errors() -> None:
    first, second = without_tracebacks(all_of(2))

    assert ("", "") == (first.traceback, second.traceback)
    assert "ValueError: no" == first.error == second.error


GOOD = [1, "w", T_MS, T_MS, T_MS, "ValueError: no", None, "Traceback:\nValueError: no"]


def changed(place: int, value: object) -> str:
    return json.dumps([[*GOOD[:place], value, *GOOD[place + 1 :]]])


FOREIGN = ["", "{", "7", "null", "[7]", '["abcdefgh"]', "[" * 3000, json.dumps([GOOD[:-1]]), json.dumps([[*GOOD, 1]])]
FOREIGN += [json.dumps([GOOD] * 2), json.dumps([[n, *GOOD[1:6], None, ""] for n in range(1, 22)])]
FOREIGN += [json.dumps([[*GOOD[:-1], "x" * 5000]])]
FOREIGN += [changed(0, number) for number in (0, -1, 1.5, True, "1", None, 10**10)]
FOREIGN += [changed(2, instant) for instant in (-1, 1e30, "now", True, 10**18, float("nan"))]
FOREIGN += [changed(place, value) for place in (1, 5, 7) for value in (None, 7, ["x"])]


@pytest.mark.parametrize("text", FOREIGN)
def test_a_text_of_another_writer_counts_as_no_attempt(text: str) -> None:
    assert () == attempts_of(text)


def test_texts_of_another_writer_are_cleaned() -> None:
    [attempt] = attempts_of(json.dumps([[1, "w\n\x00x", None, None, None, "a\rb", None, "one\x1b[31m\ntwo\u2028six"]]))

    assert ("w x", "a b") == (attempt.worker, attempt.error)
    assert "one [31m\ntwo six" == attempt.traceback


_WORDS = ["a", "report-1", "1700000000000", "170000000000", "nacme", "r2", "x" * 129, "ä", "!", "\n", ""]
_PARTS = st.sampled_from(_WORDS)
_RUN_IDS = st.lists(_PARTS, min_size=1, max_size=4).map("-".join)

MS = "1795277135295"


NO_RUN_IDS = ["a-1795", "import-20240115093000", f"a b-{MS}", f"-{MS}", f"a-{'1' * 5000}", f"a-{MS}-r{'1' * 5000}", ""]
NO_RUN_IDS += [f"a-{MS}-nmail", "a-١٧٩٥٢٧٧١٣٥٢٩٥"]
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
        *((run_id, "default", None) for run_id in (*NO_RUN_IDS, OF_RQ)),
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
