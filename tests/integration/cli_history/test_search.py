"""``zsched history`` with filters: what people know of a customer leads to the run, page by page, and for export."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import Queue

from tests.builders.command_line import FUNC, Zsched
from tests.builders.daemons import DaemonThread, leading_daemon
from tests.builders.workers import work_off
from tests.integration.cli_history.answers import ASKING, KEYS, NO_ANSWER, PATIENCE
from tests.ledger import await_queued
from tests.waiting import ENDS_S, eventually
from zsched import Client
from zsched.cli.program import INTERRUPTED, NOT_FOUND, USAGE
from zsched.core.occurrences.changes import Wanted
from zsched.core.story.source import Source
from zsched.errors import InvalidSchedule
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.history_reader import HistoryQuery

pytestmark = pytest.mark.once
PAST: Any = {"at": datetime(2020, 1, 1, tzinfo=UTC), "allow_past": True}
BILLS = {f"bill-acme-{number}" for number in range(5)}
FILTERS: list[tuple[list[str], set[str]]] = [
    (["--match", "*acme*"], BILLS),
    (["--match", "bill-*", "--since", "1h"], BILLS),
    (["--match", "bill-*", "--until", "1h"], set()),
    (["--queue", "fax"], {"fax-bolt"}),
    (["--func", "builtins.str"], BILLS),
    (["--tag", "acme"], BILLS),
    (["--owner", "ann"], BILLS),
    (["--status", "failed"], {"fax-bolt"}),
    (["--status", "failed", "--tag", "acme"], set()),
    (["--status", "succeeded", "--queue", "default"], BILLS),
    (["--status", "queued"], set()),
]


@pytest.fixture
def stocked(client: Client, redis_client: redis.Redis, redis_url: str, path: Path) -> Iterator[Client]:
    """A client of a namespace with runs of two queues, one of which failed, beside a daemon with its archive."""
    with leading_daemon(redis_url, path):
        for number in range(5):
            client.schedule("builtins.str", id=f"bill-acme-{number}", tags=["acme"], owner="ann", **PAST)
        client.schedule("builtins.int", args=("x",), id="fax-bolt", queue="fax", tags=["bolt"], **PAST)
        await_queued(redis_client, 5)
        eventually(lambda: Queue("fax", connection=redis_client).count)
        for name in ("default", "fax"):
            work_off(Queue(name, connection=redis_client), redis_client)
        eventually(lambda: client.runs(status="failed"))  # the leader has recorded it
        eventually(lambda: len(client.runs(status="succeeded")) == 5)
        yield client


def test_history_finds_runs_by_what_people_know(stocked: Client, zsched: Zsched) -> None:
    found = {" ".join(options): zsched.json("history", *options)["occurrences"] for options, _ in FILTERS}

    shown = {options: {one["id"] for one in occurrences} for options, occurrences in found.items()}
    assert {" ".join(options): ids for options, ids in FILTERS} == shown
    [failed] = found["--queue fax"]
    assert ["builtins.int", "fax", ["bolt"]] == [failed[name] for name in ("func", "queue", "tags")]
    assert "failed" == failed["run"]["status"]


def test_a_list_of_failures_says_what_became_of_their_retries(
    stocked: Client, redis_client: redis.Redis, zsched: Zsched
) -> None:
    [failed] = stocked.runs(status="failed")
    before = zsched.json("history", "--status", "failed")["occurrences"]
    retry = stocked.retry(failed.id)
    work_off(Queue("fax", connection=redis_client), redis_client)
    eventually(lambda: len(stocked.runs(status="failed")) == 2)
    last = stocked.retry(retry)

    told = zsched("history", "--status", "failed").stdout
    shown = zsched.json("history", "--status", "failed")["occurrences"]

    assert [None] == [one["retried"] for one in before]
    assert 2 == told.count("retried: queued; ")
    assert [(retry, last, "queued"), (failed.id, last, "queued")] == [
        (one["run_id"], one["retried"]["id"], one["retried"]["status"]) for one in shown
    ]


def test_history_is_read_page_by_page_and_exported_as_lines(stocked: Client, zsched: Zsched) -> None:
    first = zsched("history", "--tag", "acme", "--limit", "2")
    page = zsched.json("history", "--tag", "acme", "--limit", "2")
    rest = zsched.json("history", "--tag", "acme", "--after", page["after"])
    lines = [json.loads(line) for line in zsched("history", "--all", "--json").stdout.splitlines()]

    assert f"there are more: zsched history … --after {page['after']}" in first.stderr
    assert (2, 3, None) == (len(page["occurrences"]), len(rest["occurrences"]), rest["after"])
    assert BILLS == {one["id"] for one in page["occurrences"] + rest["occurrences"]}
    assert BILLS | {"fax-bolt"} == {one["id"] for one in lines}


def test_the_client_pages_and_iterates_with_the_same_filters(stocked: Client) -> None:
    page = stocked.runs(tag="acme", limit=3)
    rest = stocked.runs(tag="acme", after=page.after)
    by_cursor = stocked.history(tag="acme", after=stocked.history(tag="acme", limit=1)[0].cursor)

    assert BILLS == {run.schedule_id for run in [*page, *rest]}
    assert rest.after is None
    assert 4 == len(by_cursor)
    assert BILLS == {one.id for one in stocked.iter_history(match="bill-*")}
    assert ["fax-bolt"] == [run.schedule_id for run in stocked.iter_runs(status="failed")]


def test_a_run_whose_end_is_archived_between_two_questions_is_found_once(
    client: Client, redis_client: redis.Redis, redis_url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, asked = HistoryQuery.ask, list[Wanted]()

    def ask_then_end(query: HistoryQuery, about: str, **arguments: Any) -> tuple[dict[str, Any], Source]:
        answer = ask(query, about, **arguments)
        asked.extend([arguments["wanted"]] if about == "search" else [])
        if len(asked) == 1 and about == "search":
            work_off(Queue("fax", connection=redis_client), redis_client)
            eventually(lambda: "failed" in [change.why for change in client.why("fax-bolt").changes])
        return answer

    with leading_daemon(redis_url, path):
        client.schedule("builtins.int", args=("x",), id="fax-bolt", queue="fax", **PAST)
        eventually(lambda: Queue("fax", connection=redis_client).count)
        eventually(lambda: client.runs(status="queued"))
        monkeypatch.setattr(HistoryQuery, "ask", ask_then_end)

        assert ["fax-bolt"] == [run.schedule_id for run in client.runs(status="failed")]
    assert 2 == len(asked)


@pytest.mark.parametrize(
    "wrong",
    [
        {"match": ""},
        {"queue": 7},
        {"tag": "a\nb"},
        {"after": "then"},
        {"after": "1-1-1-1-1-1"},
        {"since": "1h"},
        {"since": datetime(2026, 1, 1)},
        {"since": datetime(2026, 1, 2, tzinfo=UTC), "until": datetime(2026, 1, 1, tzinfo=UTC)},
        {"limit": 1001},
        {"status": "paused"},
    ],
)
def test_a_wrong_filter_is_refused_with_its_name(client: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule) as raised:
        client.history(**wrong)

    assert raised.value.field in wrong
    assert str(raised.value.remedy or raised.value.problem)
    assert "status" not in wrong or re.search("give one of fired, enqueued, retried.*lost", str(raised.value))


def test_a_search_without_results_has_the_exit_code_of_why_and_names_what_waits(
    stocked: Client, zsched: Zsched, client: Client
) -> None:
    known, unknown = zsched("history", "fax-bolt", "--status", "skipped"), zsched("history", "nope")

    assert (0, NOT_FOUND) == (known.exit_code, unknown.exit_code)
    assert "nope: no schedule nope was ever put into namespace default of " in unknown.stderr

    client.schedule(FUNC, id="bill-dan", after=3600)
    client.pause("bill-dan")

    found = zsched("history", "--match", "*dan*")

    assert "scheduled, without an outcome yet: bill-dan; see zsched why bill-dan" in found.stderr


def test_a_search_without_an_archive_says_how_far_the_log_goes_back(client: Client, redis_url: str) -> None:
    for number in range(3):
        client.enqueue("builtins.str", id=f"bill-{number}", queue="fax", tags=["acme"])
    alone = Zsched(redis_url)

    by_tag = alone("history", "--tag", "acme", "--limit", "2")
    page = alone.json("history", "--queue", "fax", "--limit", "2")
    rest = alone.json("history", "--queue", "fax", "--after", page["after"])
    nothing = alone("history", "--tag", "other")

    assert f"only the log in Redis was searched: {NO_ANSWER}" in by_tag.stdout
    assert ["bill-2", "bill-1", "bill-0"] == [one["id"] for one in page["occurrences"] + rest["occurrences"]]
    assert nothing.stdout.startswith("nothing was found since 20")


def test_ctrl_c_stops_a_search_and_says_how_far_it_came(redis_client: redis.Redis, redis_url: str, link: Link) -> None:
    Archivers(link, KEYS).report("a", None, ArchiveState.FOLLOWING, {})
    command, env = [sys.executable, "-c", ASKING, "history", "-u", redis_url], os.environ | PATIENCE
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: redis_client.llen(KEYS.ask()))  # it waits for an archive
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=ENDS_S)

    assert (INTERRUPTED, "stopped: nothing was searched\n", "") == (process.returncode, out, err)


def test_history_is_a_table_of_occurrences_with_their_outcome(
    zsched: Zsched, client: Client, redis_client: redis.Redis, daemon: DaemonThread
) -> None:
    client.schedule(FUNC, id="a", at=datetime(2020, 1, 1, tzinfo=UTC), allow_past=True)
    await_queued(redis_client, 1)
    client.schedule(FUNC, id="b", at=datetime(2030, 1, 1, tzinfo=UTC))
    client.cancel("b")

    result = zsched("history", "--tz", "Asia/Seoul")
    fired = zsched.json("history", "a", "--status", "fired")
    none = zsched("history", "b", "--status", "quarantined")

    header, cancelled, first = result.stdout.splitlines()
    columns = ["DECIDED", "SCHEDULE", "STATUS", "OCCURRENCE", "LATE", "STATE", "WAITED", "TOOK", "RUN", "WHY"]
    assert columns == header.split()
    assert re.search(r"\+09:00  b +cancelled  2030-01-01 09:00:00\+09:00", cancelled)
    assert re.search(r"\+09:00  a +fired      2020-01-01 09:00:00\+09:00  [\d.]+ m?s  queued +a-1577836800000$", first)
    assert "" == result.stderr  # the archive is complete
    [occurrence] = fired["occurrences"]
    assert ("fired", "2020-01-01T00:00:00.000Z", "a-1577836800000") == tuple(
        occurrence[name] for name in ("what", "nominal_at", "run_id")
    )
    assert fired["source"]["archive"].endswith(str(daemon.archivist.archiver.path))
    assert "nothing was quarantined, of schedule b\n" == none.stdout


def test_history_shows_only_the_last_line_of_a_tasks_traceback(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    shows = ["history", "history a", "why a", "status", "show a"]
    with leading_daemon(redis_url, path):
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
    for wrong in (
        "--status paused", "--limit 0", "--tz Nowhere", "--all --limit 3", "--after then", "--since 1h --until 2h",
    ):  # fmt: skip
        assert USAGE == zsched("history", *wrong.split()).exit_code, wrong
    assert "fired|enqueued|retried|skipped|expired|coalesced|excluded|duplicate" in zsched("history", "-h").output
