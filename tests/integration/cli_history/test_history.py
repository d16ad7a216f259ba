"""``zsched history``: the outcomes of occurrences as a table."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis
from rq import Queue

from tests.faults.processes import eventually
from tests.integration.cli_history.ground import FUNC, Leading, Zsched, queued
from tests.rq_workers import work_off
from zsched import Client
from zsched.cli.program import USAGE

pytestmark = pytest.mark.once


def test_history_is_a_table_of_occurrences_with_their_outcome(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        client.schedule(FUNC, id="a", at=datetime(2020, 1, 1, tzinfo=UTC), allow_past=True)
        queued(redis_client)
        client.schedule(FUNC, id="b", at=datetime(2030, 1, 1, tzinfo=UTC))
        client.cancel("b")

        result = zsched("history", "--tz", "Asia/Seoul")
        fired = zsched.json("history", "a", "--status", "fired")
        none = zsched("history", "b", "--status", "quarantined")

    header, cancelled, first = result.stdout.splitlines()
    columns = ["DECIDED", "SCHEDULE", "STATUS", "OCCURRENCE", "LATE", "STATE", "WAITED", "TOOK", "RUN", "WHY"]
    assert columns == header.split()
    assert re.search(r"\+09:00  b +cancelled  2030-01-01 09:00:00\+09:00", cancelled)
    assert re.search(r"\+09:00  a +fired      2020-01-01 09:00:00\+09:00  \d+ d.*  queued +a-1577836800000$", first)
    assert "" == result.stderr  # the archive is complete
    [occurrence] = fired["occurrences"]
    assert ("fired", "2020-01-01T00:00:00.000Z", "a-1577836800000") == tuple(
        occurrence[name] for name in ("what", "nominal_at", "run_id")
    )
    assert fired["source"]["archive"].endswith(str(path))
    assert "nothing was quarantined, of schedule b\n" == none.stdout


def test_history_shows_only_the_last_line_of_a_tasks_traceback(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    shows = ["history", "history a", "why a", "status", "show a"]
    with Leading(redis_url, path):
        client.schedule("builtins.int", args=("s3cret",), id="a", cron="0 9 * * *")
        run_id = client.run_now("a")
        work_off(Queue("default", connection=redis_client), redis_client)
        eventually(lambda: "ValueError" in zsched("status").stdout)  # the daemon has read the end of the run

        told = {command: zsched(*command.split()).stdout for command in [*shows, f"why {run_id}"]}
        told |= {f"{command} --json": zsched(*command.split(), "--json").stdout for command in shows}

    last_line = "ValueError: invalid literal for int() with base 10: 's3cret'"
    assert [] == [command for command, text in told.items() if last_line not in text]
    assert [] == [command for command, text in told.items() if "Traceback" in text]


def test_history_refuses_invalid_options(zsched: Zsched) -> None:
    assert USAGE == zsched("history", "--status", "paused").exit_code
    assert USAGE == zsched("history", "--limit", "0").exit_code
    assert USAGE == zsched("history", "--tz", "Nowhere").exit_code
    assert USAGE == zsched("history", "--all", "--limit", "3").exit_code
    assert USAGE == zsched("history", "--after", "then").exit_code
    assert USAGE == zsched("history", "--since", "1h", "--until", "2h").exit_code
    assert "fired|enqueued|retried|skipped|expired|coalesced|duplicate" in zsched("history", "-h").output
