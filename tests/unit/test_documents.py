"""Links and references of the pages have existing targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents import PROJECT, pages
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


def test_the_pages_have_links() -> None:
    assert "docs/how-to/operate.md" in links(PROJECT / "README.md")


def test_every_page_of_the_docs_is_reachable_from_the_readme() -> None:
    reached, new = set[Path](), {PROJECT / "README.md"}
    while new:
        reached |= new
        goals = {(page.parent / link.partition("#")[0]).resolve() for page in new for link in links(page)}
        new = {goal for goal in goals if goal.suffix == ".md"} - reached

    assert set(pages()) == reached


def test_the_architecture_page_names_only_existing_files() -> None:
    page, package = (PROJECT / "docs/explanation/architecture.md").read_text(), PROJECT / "zsched"
    packages = "|".join(folder.name for folder in package.iterdir() if folder.is_dir())

    names = set(re.findall(rf"\b(?:{packages})/[a-z_/]+(?:\.lua)?", page))
    assert "lua/fire.lua" in names
    assert set() == {name for name in names if not any((package / f"{name}{end}").exists() for end in ("", ".py"))}


def test_the_architecture_page_has_a_row_for_each_package() -> None:
    page = (PROJECT / "docs/explanation/architecture.md").read_text()

    packages = {file.parent.name for file in (PROJECT / "zsched").glob("*/__init__.py")} | {"lua"}
    assert packages == {name for name in packages if f"\n| `{name}` |" in page}


def test_the_security_page_names_the_patched_releases_that_the_doctor_knows() -> None:
    page = (PROJECT / "SECURITY.md").read_text()

    assert {releases(PATCHED_REDIS), releases(PATCHED_VALKEY)} <= set(re.findall(r"(?m)\| ([\d., ]+) \|$", page))
