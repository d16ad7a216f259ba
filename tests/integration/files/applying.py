"""Texts applied as a file of schedules, and the results."""

import redis

from tests.integration.client.calls import KEYS
from zsched.client import Client
from zsched.files.applying import Application, Applied, Step
from zsched.files.checking import ClientChecks
from zsched.files.reading import ScheduleFile, read

DIGEST = '[schedules.digest]\nfunc = "app.tasks.digest"\ncron = "0 9 * * *"\n'
BEAT = '[schedules.beat]\nfunc = "app.tasks.beat"\nevery = "30s"\n'


class JobsFile:
    """The file ``jobs.toml``, whose texts a test reads, compares and applies."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def read(self, text: str) -> ScheduleFile:
        return read("jobs.toml", text.encode(), ClientChecks(self.client))

    def application(self, text: str, *, takes_over: bool = False) -> Application:
        return Application(self.client, self.read(text), takes_over=takes_over)

    def compare(self, text: str) -> list[Step]:
        return self.application(text).compare()

    def apply(self, text: str, *, prune: bool = False, takes_over: bool = False) -> Applied:
        application = self.application(text, takes_over=takes_over)
        return application.carry_out(application.foretell(prune=prune), lambda done: None)

    def ids(self) -> list[str]:
        return sorted(one.id for one in self.client.list())


def outcomes(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.entry.id, step.outcome) for step in steps]


def texts(step: Step) -> list[str]:
    return [change.text() for change in step.changes]


def log_length(redis_client: redis.Redis) -> int:
    return int(redis_client.xlen(KEYS.log()))
