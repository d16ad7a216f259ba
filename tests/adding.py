"""The pages of docs/contributing/adding.md, and the names that they give to files and symbols."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.documents import PROJECT
from tests.sources import source

ADDING = PROJECT / "docs" / "contributing" / "adding.md"

QUOTED = re.compile(r"`([^`\n]+)`")
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
        return [quoted for line in lines for quoted in QUOTED.findall(line)]

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
            page.files[first] = QUOTED.findall(second)
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
