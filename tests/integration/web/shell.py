"""Commands of a page, typed into bash, and their answers beside what the page shows."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zsched.embedded.guard import Guard

CUT = "…"  # a part that the page leaves out
# Parts that differ from run to run, and a word for each.
VOLATILE = {
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?": "TIME",
    r"\d\d:\d\d:\d\d(?:\.\d+)?": "TIME",
    r"-\d{13}\b": "-MS",
    r"\b\d+-\d+-\d{16}\b": "EVENT",
    r"\b\d+(?:\.\d+)? (?:ms|s|min|h)\b": "SPAN",
}
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Step(NamedTuple):
    """A command, and the answer that the page shows."""

    command: str
    shown: str


def steps_of(text: str) -> Iterator[Step]:
    """
    Yield the commands in the blocks of *text* that have no language. A command continues behind a backslash, and until
    its quotes are closed.
    """
    for block in (block for language, block in _BLOCK.findall(text) if not language):
        command, shown, is_open = "", "", False
        for line in block.splitlines():
            if line.startswith("$ ") or is_open:
                if not is_open and command:
                    yield Step(command, shown.strip())
                    command, shown = "", ""
                command = f"{command}\n{line}" if is_open else line.removeprefix("$ ")
                is_open = command.endswith("\\") or command.count("'") % 2 == 1
            else:
                shown += f"{line}\n"
        yield Step(command, shown.strip())


def is_as_shown(answer: str, shown: str) -> bool:
    """Return True if *answer* is what a page shows, but for cut parts, and parts that differ from run to run."""
    pattern = ".*?".join(re.escape(_steady(part)) for part in shown.split(CUT))
    return re.fullmatch(pattern, _steady(answer), re.DOTALL) is not None


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a reader: our programs on PATH, and no settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    return {**env, "PATH": path, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part), **more}


class Shell:
    """A shell in *folder*, as in a terminal of its own."""

    def __init__(self, guard: Guard, folder: Path, **env: str) -> None:
        self._process = guard.spawn(
            ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
            env=environment(**env),
        )  # fmt: skip

    def type(self, command: str) -> str:
        """Return what *command* prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{{ {command}\n}} </dev/null\necho @end\n".encode())
        self._process.stdin.flush()
        printed = list[str]()
        while (line := self._process.stdout.readline().decode()) != "@end\n":
            assert line, f"the shell ended: {''.join(printed)}"
            if line.endswith("@end\n"):  # behind an answer without an end of line
                return "".join([*printed, line.removesuffix("@end\n")]).strip()
            printed.append(line)
        return "".join(printed).strip()


def _steady(text: str) -> str:
    for pattern, word in VOLATILE.items():
        text = re.sub(pattern, word, text)
    return text
