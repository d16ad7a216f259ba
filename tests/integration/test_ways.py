"""
The ways of common calls through the package, as upper bounds of files, functions and depth: a call that grows longer
fails here. Each is counted for the first call of a client, and for a client that has called before.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.tracing import way_of
from zsched import Client

pytestmark = pytest.mark.redis
Call = Callable[[Client], Any]


def put(client: Client) -> None:
    client.schedule("app.task", id="a", after=3600, queue="email")


def put_again(client: Client) -> None:
    """Put a one-shot with a shape that this client has not put before."""
    client.schedule("app.task", id="b", after=3600, queue="sms")


def update(client: Client) -> None:
    client.update("r", queue="email")


def why(client: Client) -> None:
    client.why("a")


WAYS: dict[str, tuple[Call, Call, tuple[int, int, int], tuple[int, int, int]]] = {
    "put": (put, put_again, (11, 60, 9), (11, 49, 9)),
    "update": (update, lambda client: client.update("r", queue="sms"), (23, 112, 13), (22, 98, 13)),
    # Without an archive: the history is read from the log's entries about the schedule.
    "why": (why, why, (39, 162, 17), (35, 146, 17)),
}


@pytest.mark.parametrize(("first", "second", "most_first", "most"), WAYS.values(), ids=WAYS)
def test_a_call_enters_no_more_files_and_functions_than_its_bounds(
    redis_url: str, first: Call, second: Call, most_first: tuple[int, int, int], most: tuple[int, int, int]
) -> None:
    for namespace in ("warm", "default"):  # what a process keeps is known when the second one is counted
        before, client = (Client.from_url(redis_url, namespace) for _ in range(2))
        before.schedule("app.task", id="a", after=3600)
        before.schedule("app.task", id="r", cron="0 9 * * *")
        ways = way_of(partial(first, client)), way_of(partial(second, client))

    for way, bounds in zip(ways, (most_first, most), strict=True):
        assert all(is_most <= bound for is_most, bound in zip(way.size, bounds, strict=True)), (way.size, bounds)
