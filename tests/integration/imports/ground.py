"""The command line of imports, and what they are told of."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from zsched.cli import program

FUNC = "app.tasks.run_command"
NOWHERE = "unix:///nonexistent/redis.sock"
SOON, LATER = timedelta(seconds=5), timedelta(days=3)


class Zsched:
    """Runs the command line; ``cron`` is a crontab."""

    def __init__(self, url: str, folder: Path) -> None:
        self.env: dict[str, str | None] = {"ZSCHED_REDIS_URL": url}
        self.cron = folder / "jobs"

    def __call__(self, *arguments: str, input: str | None = None) -> Result:
        return CliRunner().invoke(program, arguments, env=self.env, input=input)

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json").stdout)

    def crontab(self, text: str, *arguments: str) -> Result:
        self.cron.write_text(text)
        return self("import", "crontab", str(self.cron), "--func", FUNC, "--tz", "Europe/Berlin", *arguments)


def summary(result: Result) -> str:
    return result.stdout.splitlines()[-1]
