"""The command line in the process of a test, with the settings of the test."""

import json
from typing import Any, Final

from click.testing import CliRunner, Result

from zsched.cli import program
from zsched.cli.program import FAILED

FUNC: Final = "zsched.demo.tasks.heartbeat"
LATER: Final = ("--at", "2030-12-24T18:00", "--tz", "Asia/Seoul")


class Zsched:
    """A command line on the Redis at *url*, or its subcommand *command*, with *env*."""

    def __init__(self, url: str, *command: str, **env: str | None) -> None:
        self._command = command
        self.env: dict[str, str | None] = {"ZSCHED_REDIS_URL": url, **env}

    def __call__(self, *arguments: str, input: str | None = None, **env: str) -> Result:
        return CliRunner().invoke(program, [*self._command, *arguments], env=self.env | env, input=input)

    def json(self, *arguments: str) -> Any:
        """Return the parsed output."""
        result = self(*arguments, "--json")
        assert result.stdout, result.stderr
        return json.loads(result.stdout)

    def refusal(self, *arguments: str, code: int = FAILED) -> str:
        """Run a command that must refuse, and return its message."""
        result = self(*arguments)
        assert (code, "") == (result.exit_code, result.stdout), result.exc_info
        return result.stderr

    def ids(self, *arguments: str) -> list[str]:
        """Return the ids of the listed schedules."""
        return [schedule["id"] for schedule in self.json("ls", *arguments)]
