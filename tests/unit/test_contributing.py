"""The pages for contributors are true: the named files and symbols exist, and examples occur where the pages say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.documents import PROJECT
from tests.sources import source

CONTRIBUTING = PROJECT / "CONTRIBUTING.md"
ADDING = PROJECT / "docs" / "contributing" / "adding.md"

_QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(zsched|tests|tools|bench|docs|config|deploy|bin)(/[\w@.-]+)+/?|[A-Z]+\.md")
_DEFINED_IN_LUA = re.compile(r"^(?:local )?function (\w+)|^local ([\w, ]+)", re.MULTILINE)


@dataclass
class Page:
    """
    One "how to add" page: its title, its files with the symbols named beside each, and its examples.

    An *example* is a text of the code that stands in files of the page and in no other file of the package.
    """

    title: str
    text: str
    files: dict[str, list[str]] = field(default_factory=dict)

    @property
    def in_package(self) -> set[str]:
        """Return its files in the installed package."""
        return {file for file in self.files if file.startswith("zsched/")}

    @property
    def examples(self) -> list[str]:
        """The quoted texts of the lines that begin with "Example:"."""
        lines = re.findall(r"^Example: .*$", self.text, re.MULTILINE)
        return [quoted for line in lines for quoted in _QUOTED.findall(line)]

    @property
    def promised(self) -> int | None:
        """The number of files of the package that the page states."""
        told = re.search(r"^Files of the package: (\d+)\.", self.text, re.MULTILINE)
        return int(told[1]) if told else None


def read_pages(text: str) -> list[Page]:
    """
    Read the pages, each below a heading ``## …``.

    A row of a table is a file if its first cell is one quoted path. Quoted names in its second cell are defined there.
    """
    pages = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        page = Page(part.partition("\n")[0], part)
        for first, second in re.findall(r"^\| `([^`|]+)` \| (.*) \|$", part, re.MULTILINE):
            page.files[first] = _QUOTED.findall(second)
        pages.append(page)
    return pages


def defined_in(file: Path) -> set[str]:
    """Return the names that *file* defines: of Python those of modules and classes, of Lua those at the top."""
    text = file.read_text()
    if file.suffix == ".lua":
        found = (name for one in _DEFINED_IN_LUA.findall(text) for name in re.split(r", *", one[0] or one[1]))
        return {name.strip() for name in found}
    return set(_names(source(file).tree, "")) if file.suffix == ".py" else set(re.findall(r"[\w.-]+", text))


def _names(scope: ast.AST, prefix: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(scope):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name
            case ast.ClassDef(name=name):
                yield prefix + name
                yield from _names(node, f"{prefix}{name}.")
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from (prefix + one.id for one in ast.walk(target) if isinstance(one, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case ast.If() | ast.Try() | ast.With():
                yield from _names(node, prefix)


def astray(page: Page) -> list[str]:
    """Return the files and names of *page* that do not exist."""
    found = []
    for name, symbols in page.files.items():
        file = PROJECT / name
        if not file.is_file():
            found.append(name)
            continue
        found += [f"{symbol} in {name}" for symbol in symbols if symbol not in defined_in(file)]
    return found


PAGES = read_pages(ADDING.read_text())


@pytest.mark.parametrize("file", [CONTRIBUTING, ADDING], ids=lambda file: file.name)
def test_every_named_path_exists_in_the_project(file: Path) -> None:
    paths = {quoted for quoted in _QUOTED.findall(file.read_text()) if _PATH.fullmatch(quoted)}

    assert paths
    assert [] == [path for path in sorted(paths) if not (PROJECT / path).exists()]


def test_every_named_make_target_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)

    assert set() == set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", CONTRIBUTING.read_text(), re.MULTILINE)) - {
        pair for target in targets for pair in ((target, ""), ("", target))
    }


def test_every_usual_addition_has_its_page() -> None:
    titles = ["An option", "An overlap policy", "A trigger kind", "A kind of log entry", "A field of a run", "A check"]

    assert [*titles, "A command"] == [page.title for page in PAGES]


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
