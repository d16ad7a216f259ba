"""Programs and commands in the pages: each command exists with the shown options, and each piece of Python runs."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import click
import pytest
import redis

from tests.documents import PROJECT, pages
from tests.faults.threads import know
from zsched import AsyncClient, Client
from zsched.cli import program

pytestmark = pytest.mark.once

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = "<!-- not run: "  # before a piece of Python, with the reason
PYTHON = re.compile(rf"^(?:{NOT_RUN}[^>]*-->\n+)?```python\n.*?^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`zsched ([a-z-]+[^`]*)`")
ENDS = ("|", "||", "&&", "&", ";", ">", ">>", "<")
INCOMPLETE = (click.MissingParameter, click.BadOptionUsage)  # what a sentence may leave out: `zsched why`


def shell_commands(text: str) -> Iterator[list[str]]:
    """Yield the words behind ``zsched`` of each command in a page's blocks for a shell."""
    blocks = [block for language, block in BLOCK.findall(text) if language in ("", "sh", "shell", "bash")]
    for line in (line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()):
        if not line.isascii():  # a drawing, or an output
            continue
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split, lexer.commenters = True, "#"
        try:
            words = list(lexer)
        except ValueError:  # an output with an apostrophe
            continue
        starts = [n for n, word in enumerate(words) if word == "zsched"]
        for start in (n for n in starts if n == 0 or words[n - 1] in ENDS or "=" in words[n - 1]):
            end = next((n for n, word in enumerate(words[start:], start) if word in ENDS), len(words))
            yield words[start + 1 : end]


def mistake(words: list[str], allowed: tuple[type[click.UsageError], ...] = ()) -> str | None:
    """Return click's complaint about a command, which is parsed and not executed; None if it has none."""
    command: click.Command = program
    context, rest = None, list(words)
    try:
        while True:
            context = command.make_context(command.name, rest, parent=context)
            command, rest = context.command, [*context._protected_args, *context.args]
            if not isinstance(command, click.Group) or not rest:
                return None
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None, name
            command = found
    except click.exceptions.Exit:  # --help and --version
        return None
    except allowed:
        return None
    except click.UsageError as error:
        return f"zsched {shlex.join(words)}: {error.format_message()}"


def relative(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_every_shown_command_is_accepted(page: Path) -> None:
    text = page.read_text()

    shown = [mistake(words) for words in shell_commands(text)]
    named = [mistake(words.split(), INCOMPLETE) for words in INLINE.findall(text) if not re.search(r"[\[…'\"<]", words)]
    assert [] == [each for each in shown + named if each]


def test_a_command_with_an_unknown_option_is_seen() -> None:
    text = "```sh\nA=1 zsched ls --quue email | head -1   # a comment\n```\nAnd `zsched wy`."

    [words] = shell_commands(text)
    assert ["ls", "--quue", "email"] == words
    assert "--quue" in (mistake(words) or "")
    assert "No such command 'wy'" in (mistake(INLINE.findall(text)) or "")


def pieces(page: Path) -> list[str]:
    """
    Return the Python of a page that runs by itself. Files of programs (``# tasks.py``) are left out, because other
    tests run them, and so are pieces that a comment excludes.
    """
    texts = [found for found in PYTHON.findall(page.read_text()) if not found.startswith(NOT_RUN)]
    texts = [found.partition("\n")[2].rpartition("\n")[0] for found in texts]
    return [text for text in texts if not re.search(r"^# \w+\.py\b", text, re.MULTILINE)]


@pytest.mark.parametrize("page", [page for page in pages() if pieces(page)], ids=relative)
def test_every_piece_of_python_runs(
    page: Path, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(redis_client)
    client, module = Client.from_url(redis_url), ModuleType("shown")
    monkeypatch.setattr(Client, "from_url", lambda *_, **__: client)
    asynchronous = AsyncClient.from_url(redis_url)
    monkeypatch.setattr(AsyncClient, "from_url", lambda *_, **__: asynchronous)
    monkeypatch.setitem(sys.modules, "shown", module)  # where a task is found again
    next_year = str(datetime.now(UTC).year + 1)

    for text in pieces(page):
        coming = re.sub(r"\b20\d\d\b", next_year, text)  # the shown times are in the past some day
        exec(compile(coming, relative(page), "exec"), vars(module))
