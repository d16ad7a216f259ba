"""The command line of imports, and a crontab for it."""

from datetime import timedelta
from pathlib import Path

from click.testing import Result

from tests.builders.command_line import Zsched

FUNC = "app.tasks.run_command"
NOWHERE = "unix:///nonexistent/redis.sock"
SOON, LATER = timedelta(seconds=5), timedelta(days=3)


class Crontab(Zsched):
    """A command line; ``cron`` is a crontab."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url)
        self.cron = folder / "jobs"

    def crontab(self, text: str, *arguments: str) -> Result:
        self.cron.write_text(text)
        return self("import", "crontab", str(self.cron), "--func", FUNC, "--tz", "Europe/Berlin", *arguments)


def summary(result: Result) -> str:
    return result.stdout.splitlines()[-1]
