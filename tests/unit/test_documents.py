"""The pages: existing targets of links, short sentences, spelling, pages made from code, and those of contributors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import pages as made
from docs.python_page import CLIENT
from tests.adding import ADDING, PAGES, QUOTED, Page, astray
from tests.documents import PROJECT, pages
from tests.model.rules import Rule
from tests.prose import LONGEST, MEAN, MEAN_OF_PAGE, STILTED, Figures, figures, replaceable, sentences
from zsched.cli import program
from zsched.core.log.kinds import KINDS
from zsched.health import verdict
from zsched.storage.keys import Keys
from zsched.storage.rqkeys import NamedKey


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


def test_the_page_of_the_architecture_names_only_existing_files_and_each_package_on_two_screens() -> None:
    package, page = PROJECT / "zsched", (PROJECT / "docs/explanation/architecture.md").read_text()
    packages = {file.parent.name for file in package.glob("*/__init__.py")} | {"lua"}

    names = set(re.findall(rf"\b(?:{'|'.join(packages)})/[a-z_/]+(?:\.lua)?", page))
    assert "lua/fire.lua" in names
    assert set() == {name for name in names if not any((package / f"{name}{end}").exists() for end in ("", ".py"))}
    assert packages == {name for name in packages if f"\n| `{name}` |" in page}
    assert len(page.splitlines()) <= 100


# A phrase of the private dialect, and the plain words for it.
DIALECT = {
    r"(?<!Be )\btold\b": "said, shown, reported; or name who reports what to whom",
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
    return [f"{found}: {each}" for each in sentences(text) for found in replaceable(each, DIALECT | STILTED)]


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


def test_twelve_methods_ten_settings_and_ten_commands_are_of_every_day() -> None:
    settings = made.page("settings").partition("Everyday: ")[2].partition("\n")[0]

    assert 12 == len(CLIENT["Everyday"].split())
    assert 10 == len(settings.split(", "))
    assert 10 == sum(getattr(command, "group", "") == "Everyday" for command in program.commands.values())


CONTRIBUTING = PROJECT / "CONTRIBUTING.md"
_PATH = re.compile(r"(zsched|tests|tools|bench|docs|config|deploy|bin)(/[\w@.-]+)+/?|[A-Z]+\.md")


@pytest.mark.parametrize("file", [CONTRIBUTING, ADDING], ids=lambda file: file.name)
def test_every_named_path_exists_in_the_project(file: Path) -> None:
    paths = {quoted for quoted in QUOTED.findall(file.read_text()) if _PATH.fullmatch(quoted)}

    assert paths
    assert [] == [path for path in sorted(paths) if not (PROJECT / path).exists()]


def test_every_named_make_target_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)

    assert set() == set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", CONTRIBUTING.read_text(), re.MULTILINE)) - {
        pair for target in targets for pair in ((target, ""), ("", target))
    }


def test_every_usual_addition_has_its_page() -> None:
    titles = ["An option", "An overlap policy", "An outcome", "A trigger kind", "A kind of log entry"]
    titles += ["State of a schedule", "A field of a run", "A check", "A command", "A newer FORMAT"]

    assert titles == [page.title for page in PAGES]


def test_the_status_page_lists_the_names_of_all_checks_that_a_status_makes() -> None:
    names = (PROJECT / "docs" / "reference" / "status.md").read_text().partition("## Names of alarms and warnings")[2]
    rows = re.findall(r"^- `(\w+)` \((?:alarm|warning|alarm, warning)\): ", names.partition("\n## ")[0], re.MULTILINE)

    assert sorted(verdict.NAMES) == sorted(rows)


def test_the_page_of_the_protocol_names_every_key_script_log_entry_and_rule() -> None:
    page = (PROJECT / "docs" / "reference" / "protocol.md").read_text()
    keys = [key.name for key in vars(Keys).values() if isinstance(key, NamedKey)]
    scripts = [file.stem for file in (PROJECT / "zsched" / "lua").glob("*.lua")]

    assert keys
    assert "fire" in scripts
    assert [] == [name for name in (*keys, *scripts, *KINDS) if f"`{name}" not in page]
    assert [] == [rule.name for rule in Rule if rule.name not in page]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_file_and_symbol_of_a_page_exists_and_their_number_is_stated(page: Page) -> None:
    assert page.files
    assert [] == astray(page)
    assert len(page.in_package) == page.promised


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_an_example_occurs_only_in_the_files_of_its_page(page: Page) -> None:
    sources = [*PROJECT.glob("zsched/**/*.py"), *PROJECT.glob("zsched/**/*.lua")]
    texts = {file.relative_to(PROJECT).as_posix(): file.read_text() for file in sources}

    for example in page.examples:
        places = {name for name, text in texts.items() if re.search(rf"(?<!\w){re.escape(example)}(?!\w)", text)}
        assert places, f"{example} stands nowhere"
        assert set() == places - page.in_package, f"{example} stands there too: name these files on the page"
