"""The pages for readers: lengths of sentences, phrases of our private dialect, spelling, and pages made from code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import pages as made
from tests.documents import PROJECT, pages
from tests.prose import LONGEST, MEAN, MEAN_OF_PAGE, Figures, figures, sentences, words

# A phrase of the private dialect, and the plain words for it.
DIALECT = {
    r"\btold\b": "said, shown, reported; or name who reports what to whom",
    r"\bis none\b": "name the noun: an invalid id",
    r"\bthose (that|which)\b": "name the noun: throttled runs",
    r"\bwhoever\b": "users who, a program that",
    r"\bno matter here\b": "does not count",
    r"\bin vain\b": "without success",
    r"\bforeign hand\b": "another writer",
    r"\b(stands?|step|steps|stood) aside\b": "throttled",
    r"\bnot begun\b": "not started",
    r"\bmend(s|ed)?\b": "repair, correct",
    r"\bput(s)? right\b": "corrects",
    r"\bof a sort\b": "of a kind",
}
SPELLED = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs", "config", "deploy", "zsched")


def dialect(text: str) -> list[str]:
    """Return the phrases of the dialect in a page, each with the plain words for it."""
    found = [
        (each, plain) for each in sentences(text) for pattern, plain in DIALECT.items() if re.search(pattern, each)
    ]
    return [f"{sentence} → {plain}" for sentence, plain in found]


def relative(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_the_sentences_of_a_page_are_short(page: Path) -> None:
    found = figures(page)

    assert [] == found.long, f"above {LONGEST} words"
    assert found.mean <= MEAN_OF_PAGE


def test_the_sentences_of_all_pages_are_short_on_average() -> None:
    everything = Figures([sentence for page in pages() for sentence in figures(page).sentences])

    assert everything.mean <= MEAN


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_a_page_has_no_phrase_of_our_dialect(page: Path) -> None:
    assert [] == dialect(page.read_text())


def test_pages_and_code_are_spelled_correctly() -> None:
    command = [sys.executable, "-m", "codespell_lib", *SPELLED]

    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)

    assert (0, "") == (ran.returncode, ran.stdout + ran.stderr)


@pytest.mark.parametrize("name", made.PAGES)
def test_a_reference_page_is_as_the_code_says(name: str) -> None:
    assert made.page(name) == made.path(name).read_text(), "make pages writes it anew"


# -- the measure itself -----------------------------------------------------------------------------


def test_code_tables_headings_and_links_are_left_out_of_sentences() -> None:
    text = (
        "# A heading of four words\n\nOne two `three four` [five](six.md). Seven\neight.\n\n- nine ten\n- eleven\n\n"
        "| a | table |\n|---|---|\n\n```sh\nmake run\n```\n<!-- a comment -->\n![a picture](x.png)\n"
    )

    assert ["One two Code five.", "Seven eight.", "nine ten", "eleven"] == sentences(text)
    assert [4, 2, 2, 1] == [words(each) for each in sentences(text)]


def test_a_long_sentence_and_a_phrase_of_the_dialect_are_seen() -> None:
    long = "word " * (LONGEST + 1)

    assert [long.strip()] == Figures(sentences(long)).long
    assert ["What is told. → said, shown, reported; or name who reports what to whom"] == dialect("What is told.")
