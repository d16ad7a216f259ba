"""
The sentences of a page, their lengths in words, and phrases for which there are plainer words.

Code, tables, headings, pictures and comments are left out. A list item ends a sentence, as a full stop does. Inline
code counts as one word, a link as its text.

``python -m tests.prose [PAGE …]`` prints the figures of each page, and its long sentences.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

import click

from tests.documents import PROJECT, pages

LONGEST: Final = 40  # words of a sentence
MEAN: Final = 15.0  # words per sentence, of all pages together
MEAN_OF_PAGE: Final = 18.0

# Phrases that say what is not, or that have no noun, and the plain words for them: in pages, messages and docstrings.
STILTED: Final = {
    r"(?<!here )\b(is|are|was|were) no (?!longer|more|larger|less|later|earlier|other|one\b|obstacle)": "is not a …",
    r"\bnobody (leads|led|stands|listens)\b": "no daemon is leading, no standby, no worker listens",
    r"\bgo(es|ing)? on\b": "continue",
    r"\bas (it is|it was|it came|they are|they were)(?=[.;,)]|$)": "unchanged",
    r"\bnames? no instant\b": "is ambiguous",
    r"\ball the same\b": "anyway",
    r"\bput(s|ting)? ((it|them|one) )?back\b": "restore what was lost, release from quarantine, requeue",
    r"\btak(e|es|en|ing) (it|them|one) away\b": "remove",
    r"\bheard of\b": "the last report",
    r"\b(has|have) not (all|\d)": "lacks, does not have",
    r"\bin reach\b": "available",
}

_BLOCKS: Final = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$|<!--.*?-->", re.DOTALL | re.MULTILINE)
_LINES: Final = re.compile(r"^ *(?:#|\||!\[|\[[^\]]+\]: |:::|!!!).*$", re.MULTILINE)
_ITEM: Final = re.compile(r"^ *(?:[-*+]|\d+\.) +", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE: Final = re.compile(r"`[^`]+`")
_END: Final = re.compile(r"\n\s*\n|(?<=[.!?])[)\"*_]*\s+(?=[A-Z\"(*_])")
_SHORT: Final = re.compile(r"\b(e\.g|i\.e|vs|etc)\.")


class Figures(NamedTuple):
    """The sentences of a page."""

    sentences: list[str]

    @property
    def mean(self) -> float:
        """Words per sentence; 0 for a page without sentences."""
        return mean(map(words, self.sentences)) if self.sentences else 0.0

    @property
    def long(self) -> list[str]:
        """Sentences above the limit."""
        return [each for each in self.sentences if words(each) > LONGEST]


def words(sentence: str) -> int:
    """Count the words of a sentence: parts with a letter or a digit."""
    return sum(1 for part in sentence.split() if re.search(r"\w", part))


def sentences(text: str) -> list[str]:
    """Return the sentences of a page in Markdown."""
    text = _LINES.sub("\n", _BLOCKS.sub("\n\n", text))
    text = _CODE.sub("Code", _LINK.sub(r"\1", _ITEM.sub("\n\n", text)))
    text = _SHORT.sub(lambda found: found[0].replace(".", ""), text)
    return [" ".join(each.split()) for each in _END.split(text) if words(each)]


def replaceable(text: str, phrases: Mapping[str, str] = STILTED) -> list[str]:
    """Return what is found of *phrases* in *text*, each with the plain words for it."""
    found = ((re.search(phrase, text), plain) for phrase, plain in phrases.items())
    return [f"{one[0]} → {plain}" for one, plain in found if one]


def figures(page: Path) -> Figures:
    """Return the figures of a page."""
    return Figures(sentences(page.read_text()))


def main(names: list[str]) -> None:
    """Print the figures."""
    all_sentences: list[str] = []
    for page in [Path(name).resolve() for name in names] or pages():
        found = figures(page)
        all_sentences += found.sentences
        longest = max(map(words, found.sentences), default=0)
        click.echo(f"{found.mean:5.1f}  {longest:4}  {len(found.sentences):4}  {page.relative_to(PROJECT)}")
        for sentence in found.long:
            click.echo(f"       {words(sentence)}: {sentence}")
    click.echo(f"{Figures(all_sentences).mean:5.1f}  {'':4}  {len(all_sentences):4}  all")


if __name__ == "__main__":
    main(sys.argv[1:])
