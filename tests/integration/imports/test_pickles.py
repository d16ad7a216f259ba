"""Arguments of other schedulers' jobs, which pickle opens and so runs: SECURITY.md says when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from rq import Callback, Queue
from rq_scheduler import Scheduler

from tests.integration.imports.ground import LATER, Zsched
from zsched.cli.program import FAILED
from zsched.client import Client

pytestmark = pytest.mark.once


class Opened:
    """An argument whose pickle makes a file where it is opened."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._file,)


def put_with_rq(queue: Queue, argument: Opened) -> None:
    queue.enqueue_in(LATER, "app.tasks.remind", argument)


def put_with_rq_scheduler(queue: Queue, argument: Opened) -> None:
    scheduler = Scheduler(queue_name=queue.name, connection=queue.connection)
    scheduler.schedule(datetime(2040, 1, 1), "app.tasks.beat", args=[argument], interval=90)


@pytest.mark.parametrize(
    ("command", "put"), [(["rq-scheduled"], put_with_rq), (["rq-scheduler", "--tz", "UTC"], put_with_rq_scheduler)]
)
def test_an_import_opens_a_pickle_before_it_finds_the_function_not_allowed(
    zsched: Zsched,
    client: Client,
    queue: Queue,
    tmp_path: Path,
    command: list[str],
    put: Callable[[Queue, Opened], None],
) -> None:
    put(queue, Opened(tmp_path / "ran"))
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "other.*"

    result = zsched("import", *command)

    assert (FAILED, True) == (result.exit_code, "allow_callables" in result.stderr)
    assert [] == list(client.list())
    assert (tmp_path / "ran").exists()


def test_an_import_refuses_a_job_with_a_callback_that_is_not_allowed(
    zsched: Zsched, client: Client, queue: Queue
) -> None:
    queue.enqueue_in(LATER, "app.tasks.remind", on_success=Callback("os.abort"))
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.*.*"

    result = zsched("import", "rq-scheduled")

    assert (FAILED, True) == (result.exit_code, "on_success='os.abort'" in result.stderr)
    assert [] == list(client.list())
