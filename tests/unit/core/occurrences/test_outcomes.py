"""Outcomes: the words of the scripts' headers, and readers that meet a known or an unknown word."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import zsched
from tests.builders.entries import entry, row_fields
from tests.builders.records import DUE_MS
from tests.unit.core.recovering import T_US
from tests.unit.core.stories import COMPLETE, held, story
from zsched.core.entry import Entry
from zsched.core.log.fires import AdvanceEntry
from zsched.core.log.kinds import changes, parse, touches
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.counts import counted_word
from zsched.core.occurrences.outcomes import OUTCOMES, PUSHES, Outcome, What, outcome_of
from zsched.core.story.sentences import reason_text, sentence
from zsched.metrics.meter import LABELS, LogTally, Names

PACKAGE = Path(zsched.__file__).parent
HEADER = re.compile(r"per schedule a word: ([a-z_\s-]+?)\n--\s+\|")
UNKNOWN = "teleported"


def answers() -> set[str]:
    """Return the words for a schedule in RETURNS of advance.lua."""
    [words] = HEADER.findall((PACKAGE / "lua" / "advance.lua").read_text())
    return set(words.replace("--", "").split())


def lists_of_fire() -> set[str]:
    """Return the lists of runs in LOGS of fire.lua, except the plain one."""
    [logs] = re.findall(r"LOGS   fire: (.*?)quarantine: ", (PACKAGE / "lua" / "fire.lua").read_text(), re.DOTALL)
    return set(re.findall(r"(\w+) = ", logs)) - {"runs", "doubt"}


def words_of_plans() -> set[str]:
    """Return the words by which a plan leaves occurrences out."""
    return {
        Outcome[name].word
        for name in re.findall(r"Outcome\.([A-Z_]+)", (PACKAGE / "core/occurrences/policy.py").read_text())
    }


def advanced(words: str) -> Entry:
    return entry(7, "advance", *row_fields("advance", f"a {words}"))


def changed(words: str) -> list[Change]:
    return [change for change in changes(advanced(words)) if change.what is not What.ENDED]


def test_the_words_of_scripts_and_plans_are_the_outcomes_with_an_event() -> None:
    told = {outcome.word for outcome in Outcome if outcome.event and outcome is not Outcome.UNKNOWN}

    assert told | {Outcome.FIRED.word} == answers() | lists_of_fire() | words_of_plans()


def test_advance_pushes_the_runs_of_the_outcomes_with_a_run() -> None:
    [pushed] = re.findall(r"^local IS_PUSHED = \{(.*)\}", (PACKAGE / "lua" / "advance.lua").read_text(), re.MULTILINE)

    assert {word for word in answers() if outcome_of(word).is_pushed} == set(re.findall(r"(\w+) = true", pushed))


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_is_found_by_its_word_and_has_a_level_of_the_log(outcome: Outcome) -> None:
    assert outcome is outcome_of(outcome.word)
    assert outcome.level in (("debug", "info", "warning", "error") if outcome.event else ("",))
    assert outcome.is_pushed is (outcome.what in PUSHES)
    assert outcome.what is None or outcome.what in OUTCOMES


@pytest.mark.parametrize("word", [*answers(), *words_of_plans(), UNKNOWN])
def test_a_row_of_an_advance_is_counted_as_its_changes(word: str) -> None:
    row = advanced(f"{word} 5 9 9 - a-4")

    found = {change.what for change in changes(row)}
    tally = LogTally("", Names())
    tally.began(1)
    tally.archived([row])

    assert found <= AdvanceEntry.whats
    assert found == {what for what, _ in parse(row).counts().happened}
    assert len(found) == sum(tally.outcomes.values())
    assert LABELS == tuple(tally.outcomes)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome.text and outcome.what])
def test_a_text_of_an_outcome_is_its_reason_for_people(outcome: Outcome) -> None:
    assert outcome.what is not None
    change = Change("a", outcome.what, T_US, "1-7", why=outcome.why("a-4" if "{}" in outcome.text else ""))

    assert outcome.text.format("a-4") == reason_text(change)
    assert sentence(change, "UTC")


@pytest.mark.parametrize(
    ("words", "times"),
    [
        (f"{UNKNOWN} {DUE_MS} {DUE_MS + 9} {DUE_MS + 9} -", {"nominal_ms": DUE_MS}),
        (f"passed - {DUE_MS + 9} {DUE_MS + 9} {UNKNOWN}:5:7:3", {"first_ms": 5, "last_ms": 7, "count": 3}),
    ],
)
def test_a_reader_shows_an_unknown_word_and_continues(words: str, times: dict[str, Any]) -> None:
    [change] = changed(words)
    told = story(replace(change, at_us=DUE_MS * 1000), schedule=held(), source=COMPLETE)

    assert Change("a", What.UNKNOWN, T_US, "1-7", next_ms=DUE_MS + 9, why=UNKNOWN, **times) == change
    assert sentence(change, "UTC").startswith(f"{UNKNOWN}: ")
    assert UNKNOWN in told.lines[0][1]
    assert ("UNKNOWN", True) == (told.verdict.word, UNKNOWN in told.verdict.text)
    assert f"unknown {UNKNOWN}" == counted_word(change)
    assert [("a", "")] == [key for key, _ in touches(advanced(words), "")][:1]
