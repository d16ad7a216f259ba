"""The project's Python files for tests: each is parsed once per process."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.documents import PROJECT

PACKAGE = PROJECT / "zsched"


@dataclass(frozen=True)
class Source:
    """The text of a Python file."""

    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[str]:
        """Full names of its imports, also inside functions and under TYPE_CHECKING: ``rq.job.Job``."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"line {node.lineno}: imports are absolute here\n{self.text}"
                found += [f"{node.module}.{alias.name}" for alias in node.names]
        return found

    @cached_property
    def attributes(self) -> set[str]:
        """Attributes as written: ``time.time``, ``self.link.pool``."""
        return {ast.unparse(node) for node in self.nodes if isinstance(node, ast.Attribute)}

    @cached_property
    def attribute_names(self) -> set[str]:
        """Names of attributes: ``time``, ``pool``."""
        return {node.attr for node in self.nodes if isinstance(node, ast.Attribute)}

    @cached_property
    def texts(self) -> set[str]:
        """Its strings and bytes, without docstrings."""
        statements = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        constants = (node for node in self.nodes if isinstance(node, ast.Constant) and id(node) not in statements)
        values = [node.value for node in constants if isinstance(node.value, str | bytes)]
        return {value if isinstance(value, str) else value.decode(errors="replace") for value in values}


@cache
def source(file: Path) -> Source:
    """Return the source of *file*."""
    return Source(file.read_text())


def sources(files: Iterable[Path], root: Path = PACKAGE) -> dict[str, Source]:
    """Return the sources of *files* by their paths below *root*, sorted: ``core/clock.py``."""
    return {file.relative_to(root).as_posix(): source(file) for file in sorted(files)}
