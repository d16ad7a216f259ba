"""The ground of the tests of schedule commands: the command line and its input."""

from __future__ import annotations

from tests.integration import command_line

FUNC = "zsched.demo.tasks.heartbeat"
LATER = ("--at", "2030-12-24T18:00", "--tz", "Asia/Seoul")


class Zsched(command_line.Zsched):
    """Runs the command line with RQ's JSON serializer."""

    def __init__(self, url: str) -> None:
        super().__init__(url, ZSCHED_RQ_SERIALIZER="json")

    def ids(self, *arguments: str) -> list[str]:
        return [one["id"] for one in self.json("ls", *arguments)]
