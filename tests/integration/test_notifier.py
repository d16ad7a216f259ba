"""The notifier of a real daemon, with real receivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from rq import Queue

from tests.builders.daemons import DaemonThread
from tests.builders.receivers import Receiver
from tests.builders.workers import work_off
from tests.waiting import eventually
from zsched import Client

Notified = Callable[..., DaemonThread]
RAISES = "tests.integration.ends.tasks.fail"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def notified(redis_url: str, client: Client) -> Iterator[Notified]:
    """A function that starts a daemon with sinks, and returns when it leads."""
    with ExitStack() as stack:

        def started(**sinks: dict[str, Any]) -> DaemonThread:
            tables = {name: {"every_s": 0.2} | table for name, table in sinks.items()}
            daemon = stack.enter_context(DaemonThread(redis_url, notify=tables))
            daemon.wait_for("term_began")
            return daemon

        yield started


def test_a_webhook_gets_one_signed_message_for_equal_failures(
    notified: Notified, receiver: Receiver, client: Client, redis_client: redis.Redis, tmp_path: Any
) -> None:
    (tmp_path / "secret").write_text("whsec_c2VjcmV0\n")
    daemon = notified(ops={"kind": "webhook", "url": f"{receiver.url}/hook", "secret_file": str(tmp_path / "secret"), "every_s": 3.0})
    for number in range(12):
        client.schedule("os.remove", args=(f"/nowhere/{number}",), id=f"job-{number}", after=0)
    queue = Queue(connection=redis_client)
    eventually(lambda: len(queue) == 12)
    work_off(queue, redis_client)

    eventually(lambda: sum(one["count"] for one in receiver.messages) == 12)

    [message] = receiver.messages
    print(message)
    assert ("failed", "os.remove", 12) == (message["kind"], message["func"], message["count"])
    assert receiver.taken[0].is_signed_with("whsec_c2VjcmV0")
    assert 10 == len(message["events"])
