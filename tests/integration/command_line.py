"""The command line in the process of a test, with the settings of the test."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from zsched.cli import program


class Zsched:
    """A command line on the Redis at *url*, with *env*; ``json`` returns its parsed output."""

    def __init__(self, url: str, **env: str) -> None:
        self.env: dict[str, str | None] = {"ZSCHED_REDIS_URL": url, **env}

    def __call__(self, *arguments: str, input: str | None = None, **env: str) -> Result:
        return CliRunner().invoke(program, arguments, env=self.env | env, input=input)

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert result.stdout, result.stderr
        return json.loads(result.stdout)
