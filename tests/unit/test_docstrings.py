"""A docstring begins with a verb or a noun, so that it is understood without the name above it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.documents import PROJECT
from tests.sources import PACKAGE, Source, sources

FOLDERS = (PACKAGE, PROJECT / "bench", PROJECT / "tests", PROJECT / "tools")
RIDDLE = re.compile(r"(What|Whether|Where|Those|Which|As|Of|How|When|Why|Who|Whose|That)\b")


def riddles(source: Source) -> Iterator[str]:
    """Yield the first line of each docstring that begins with a word of half a sentence."""
    for node in source.nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if RIDDLE.match(docstring):
                yield docstring.partition("\n")[0]


def test_every_docstring_begins_with_a_verb_or_a_noun() -> None:
    files = [file for folder in FOLDERS for file in folder.rglob("*.py")]

    found = {name: list(riddles(source)) for name, source in sources(files, PROJECT).items()}

    assert {} == {name: lines for name, lines in found.items() if lines}


def test_a_docstring_of_half_a_sentence_is_detected() -> None:
    text = (
        '"Whether."\nclass A:\n    "A noun."\n    async def b(self):\n        """\n        What it does.\n        """'
    )

    assert ["Whether.", "What it does."] == list(riddles(Source(text)))
