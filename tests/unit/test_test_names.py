"""
Test names are sentences with a subject and a behaviour: ``test_cancelling_an_unknown_id_returns_not_found``.

A program cannot tell if a name has a verb. It can refuse the beginnings of names without a subject, a pronoun before
any noun, and names that are too short for a sentence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.documents import PROJECT
from tests.sources import Source, sources

TESTS = (PROJECT / "tests", PROJECT / "tools" / "tests")
LEAST_WORDS = 4
# Words that begin no subject. "one shot", and the options if_exists, on_lost and on_uncertain, are nouns.
NO_SUBJECT = re.compile(
    r"(?:after|as|at|before|behind|but|by|each|for|from|how|if(?!_exists)|in|it|no|nothing|of|off"
    r"|on(?!_lost|_uncertain)|one(?!_shot)|others|out|that|them|there|these|they|this|those|to|under|until"
    r"|what|whatever|when|where|whether|which|while|who|whoever|whose|with|without)_"
)
EARLY_PRONOUN = re.compile(r"[^_]+_(?:[^_]+_)?(?:it|them|they|there)(?:_|$)")  # second or third word
RIDDLE = re.compile(r"(?:^|_)(?:told|whoever|(?:one|ones|those)_(?:that|which|who))(?:_|$)")


def fault_of(name: str) -> str | None:
    """Return the reason why *name*, without ``test_``, is no sentence; None if it may be one."""
    if NO_SUBJECT.match(name):
        return "begins without a subject: name the thing, then what it does"
    if EARLY_PRONOUN.match(name):
        return "has a pronoun before any noun: name the thing"
    if RIDDLE.search(name):
        return "has a phrase without a noun: name the thing"
    if len(name.split("_")) < LEAST_WORDS:
        return f"has less than {LEAST_WORDS} words: add the behaviour"
    return None


def bad_names(source: Source) -> Iterator[str]:
    """Yield each bad name of a test in *source*, with the reason."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            fault = fault_of(node.name.removeprefix("test_"))
            if fault:
                yield f"{node.name} {fault}"


def test_every_test_name_has_a_subject_and_a_behaviour() -> None:
    files = [file for folder in TESTS for file in folder.rglob("test_*.py")]

    found = {name: list(bad_names(source)) for name, source in sources(files, PROJECT).items()}

    assert {} == {name: faults for name, faults in found.items() if faults}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("what_is_no_page_says_which_there_are", "begins without a subject"),
        ("of_one_that_waited_rq_keeps_nothing", "begins without a subject"),
        ("it_looks_again_only_after_its_time", "begins without a subject"),
        ("one_is_refused_at_the_start", "begins without a subject"),
        ("if_a_run_is_gone_rq_is_asked", "begins without a subject"),
        ("cancelling_it_returns_not_found", "has a pronoun before any noun"),
        ("looking_for_them_takes_no_time", "has a pronoun before any noun"),
        ("a_task_calls_those_that_wait", "has a phrase without a noun"),
        ("a_daemon_is_told_of_a_loss", "has a phrase without a noun"),
        ("runs_are_counted", "has less than 4 words"),
    ],
)
def test_a_name_without_subject_or_behaviour_is_detected(name: str, fault: str) -> None:
    [found] = bad_names(Source(f"class TestX:\n    def test_{name}(self): ...\ndef {name}(): ..."))

    assert found.startswith(f"test_{name} {fault}")


@pytest.mark.parametrize(
    "name",
    [
        "cancelling_an_unknown_id_returns_not_found",
        "one_shots_fire_beside_recurring_schedules",
        "if_exists_keep_leaves_an_existing_schedule_alone",
        "on_lost_is_stored_in_the_job",
        "an_entry_touches_the_schedules_that_it_names",
    ],
)
def test_a_name_with_subject_and_behaviour_is_accepted(name: str) -> None:
    assert [] == list(bad_names(Source(f"def test_{name}(): ...")))
