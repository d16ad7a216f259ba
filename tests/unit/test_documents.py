"""The pages for readers: existing targets of links, lengths of sentences, spelling, and pages made from code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import pages as made
from tests.documents import PROJECT, pages
from tests.prose import LONGEST, MEAN, MEAN_OF_PAGE, Figures, figures, sentences
from zsched.health.checks_walls import PATCHED_REDIS, PATCHED_VALKEY, releases


def anchors(page: Path) -> set[str]:
    """Return the headings of *page* as a browser of Markdown names them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """Return the targets of the links of *page* within this project."""
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    return [target for target in targets if not target.startswith(("https://", "http://"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_has_an_existing_target(page: Path) -> None:
    astray = []
    for target in links(page):
        name, _, anchor = target.partition("#")
        goal = page.parent / name if name else page
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            astray.append(target)

    assert [] == astray


def test_every_page_of_the_docs_is_reachable_from_the_readme() -> None:
    reached, new = set[Path](), {PROJECT / "README.md"}
    while new:
        reached |= new
        goals = {(page.parent / link.partition("#")[0]).resolve() for page in new for link in links(page)}
        new = {goal for goal in goals if goal.suffix == ".md"} - reached

    assert set(pages()) == reached


def test_the_architecture_page_names_only_existing_files_and_has_a_row_for_each_package() -> None:
    page, package = (PROJECT / "docs/explanation/architecture.md").read_text(), PROJECT / "zsched"
    packages = {file.parent.name for file in package.glob("*/__init__.py")} | {"lua"}

    names = set(re.findall(rf"\b(?:{'|'.join(packages)})/[a-z_/]+(?:\.lua)?", page))
    assert "lua/fire.lua" in names
    assert set() == {name for name in names if not any((package / f"{name}{end}").exists() for end in ("", ".py"))}
    assert packages == {name for name in packages if f"\n| `{name}` |" in page}


def test_the_security_page_names_the_patched_releases_that_the_doctor_knows() -> None:
    page = (PROJECT / "SECURITY.md").read_text()

    assert {releases(PATCHED_REDIS), releases(PATCHED_VALKEY)} <= set(re.findall(r"(?m)\| ([\d., ]+) \|$", page))


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
    found = [(each, plain) for each in sentences(text) for words, plain in DIALECT.items() if re.search(words, each)]
    return [f"{sentence} → {plain}" for sentence, plain in found]


def relative(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_the_sentences_of_a_page_are_short_and_without_our_dialect(page: Path) -> None:
    found = figures(page)

    assert [] == found.long, f"above {LONGEST} words"
    assert found.mean <= MEAN_OF_PAGE
    assert [] == dialect(page.read_text())


def test_the_sentences_of_all_pages_are_short_on_average() -> None:
    everything = Figures([sentence for page in pages() for sentence in figures(page).sentences])

    assert everything.mean <= MEAN


def test_pages_and_code_are_spelled_correctly() -> None:
    command = [sys.executable, "-m", "codespell_lib", *SPELLED]

    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)

    assert (0, "") == (ran.returncode, ran.stdout + ran.stderr)


@pytest.mark.parametrize("name", made.PAGES)
def test_a_reference_page_is_as_the_code_says(name: str) -> None:
    assert made.page(name) == made.path(name).read_text(), "make pages writes it anew"
