"""The log folded in memory, which answers where no archive does: how far back, what came since, and after a loss."""

import asyncio
import threading
from typing import Any

import pytest
import redis

from tests.builders.entries import T_US, at, end_fields, entry, fire, put, put_recurring, row_fields
from tests.integration.aio.turns import turn
from tests.waiting import WITHIN_S
from zsched import AsyncClient, Client
from zsched.core.entry import Entry
from zsched.core.runs.run import Run, RunStatus
from zsched.errors import ArchiveError
from zsched.storage import answering, folded, history_reader
from zsched.storage.connection import Link
from zsched.storage.folded import FoldedLog
from zsched.storage.history_reader import HistoryReader
from zsched.storage.keys import Keys

KEYS = Keys("default")
DUE_MS = T_US // 1000 + 4000
RUNS = [f"s{number}-{DUE_MS}" for number in range(6)]


def write(client: redis.Redis, *entries: Entry) -> None:
    for one in entries:
        client.execute_command("XADD", KEYS.log(), one.position.id, *one.texts)  # type: ignore[no-untyped-call]


def ended(seq: int, run_id: str, status: RunStatus) -> Entry:
    return entry(seq, "end", *end_fields(Run(run_id, status, at(seq - 1).t_us)))


def rule_fired(seq: int, id: str) -> Entry:
    return entry(seq, "advance", *row_fields("advance", f"{id} fired {DUE_MS} {DUE_MS + 60_000} {DUE_MS + 60_000} -"))


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold has four rows."""
    monkeypatch.setattr(folded, "_ROWS", 4)


def test_the_fold_of_one_schedule_is_its_part_of_the_whole_log(link: Link, redis_client: redis.Redis) -> None:
    entries = [entry(1, "term", "daemon", "d", "server", "s"), fire(2, "old-1"), put(3, "s0", "s2", due_ms=DUE_MS)]
    entries += [fire(5, RUNS[0]), put(7, "new"), entry(10, "term", "daemon", "d", "server", "s")]
    entries += [fire(11, RUNS[2], RUNS[3]), entry(13, "term", "daemon", "d", "server", "s"), fire(14, RUNS[4], RUNS[1])]
    write(redis_client, *entries, ended(15, RUNS[2], RunStatus.FAILED), put_recurring(16, "r"), rule_fired(17, "r"))
    whole, alone = (
        HistoryReader(link, KEYS),
        {id: HistoryReader(link, KEYS).chronicle(id) for id in ("s0", "s2", "s4", "r")},
    )
    whole._folded.fold(None)

    assert alone == {id: whole.chronicle(id) for id in alone}
    leaders = [
        {(one.entry, one.term_us, one.led_us) for one in alone[id].changes if one.term_us} for id in ("s2", "s4")
    ]
    assert [{("1-11", at(10).t_us, at(5).t_us)}, {("1-14", at(13).t_us, at(11).t_us)}] == leaders


@pytest.mark.usefixtures("few_rows")
def test_a_long_log_is_known_since_the_oldest_folded_entry(client: Client, redis_client: redis.Redis) -> None:
    write(redis_client, put(1, "a", "b", "c"), fire(2, f"a-{DUE_MS}"), fire(3, f"b-{DUE_MS}"), rule_fired(4, "r"))
    write(redis_client, ended(5, f"b-{DUE_MS}", RunStatus.FAILED), put(6, "d"))

    found, of_one, failed = client.history(), client.history("a"), client.runs(status="failed")

    assert (["r", "b"], at(3).t_us // 1000) == ([one.id for one in found], found.source.complete_since_ms)
    assert (["a"], True) == ([one.id for one in of_one], of_one.source.is_untrimmed)
    assert [f"b-{DUE_MS}"] == [run.id for run in failed]


@pytest.mark.usefixtures("few_rows")
def test_open_runs_of_schedules_put_before_the_fold_are_found_but_by_no_filter(
    client: Client, redis_client: redis.Redis
) -> None:
    write(redis_client, put_recurring(1, "r"), put(2, "a", "b", "c", "d"), put(3, "e", due_ms=DUE_MS))
    write(redis_client, fire(4, f"a-{DUE_MS}"), rule_fired(5, "r"), fire(6, f"e-{DUE_MS}"))

    runs = {f"{id}-{DUE_MS}" for id in "are"}
    for run_id in runs:
        redis_client.hset(KEYS.rq.job(run_id), "status", "queued")

    everything = client.runs(status="queued")

    assert runs == {run.id for run in everything}
    assert [f"e-{DUE_MS}"] == [run.id for run in client.runs(status="queued", owner="ann")]
    assert [] == client.history(owner="bob")
    assert ["e"] == [one.id for one in client.history(queue="mail")]


def test_a_kept_fold_takes_in_what_came_since_and_is_shared_by_views(client: Client, redis_client: redis.Redis) -> None:
    write(redis_client, put(1, "a"), fire(2, f"a-{DUE_MS}"))
    client.history()
    kept = client._folded._kept
    assert kept is not None
    read = redis_client.info("commandstats")["cmdstat_xrevrange"]["calls"]

    write(redis_client, put(3, "b"), fire(4, f"b-{DUE_MS}"))
    found = client.acting_as("ann").history()

    assert ["b", "a"] == [one.id for one in found]
    assert (kept, at(4)) == (client._folded._kept, kept.last)
    assert 1 == redis_client.info("commandstats")["cmdstat_xrevrange"]["calls"] - read
    assert ["b"] == [one.id for one in client.history("b")]


@pytest.mark.usefixtures("few_rows")
def test_a_fold_that_grew_is_replaced(link: Link, redis_client: redis.Redis) -> None:
    log = FoldedLog(link, KEYS)
    write(redis_client, *(put(seq, f"s{seq}") for seq in range(1, 4)))
    first = log.fold(None)
    for seq in range(4, 9):
        write(redis_client, put(seq, f"s{seq}"))
        log.fold(None)
    grown = log.fold(None)

    assert (at(1), at(8)) == (first.first, first.last)
    assert (at(5), at(8)) == (grown.first, grown.last)


@pytest.mark.usefixtures("few_rows")
def test_a_schedule_is_read_further_back_when_the_kept_fold_is_a_part_or_lost(
    client: Client, redis_client: redis.Redis
) -> None:
    write(redis_client, put(1, "a"), fire(2, f"a-{DUE_MS}"))
    assert client.history().source.is_untrimmed

    write(redis_client, *(fire(seq, f"b-{DUE_MS}") for seq in range(3, 12)))
    grown, later = client.history("a"), client.history()
    found = client.history("a")

    assert [["a"], ["a"]] == [[one.id for one in page] for page in (grown, found)]
    assert (True, True, False) == tuple(page.source.is_untrimmed for page in (grown, found, later))

    redis_client.flushall()
    write(redis_client, fire(1, f"a-{DUE_MS}"), *(fire(seq, f"c-{DUE_MS}") for seq in range(2, 9)))
    assert [["a"], ["c"] * 4, ["a"]] == [[one.id for one in client.history(id)] for id in ("a", None, "a")]


def test_a_new_history_is_folded_anew(client: Client, redis_client: redis.Redis) -> None:
    write(redis_client, put(1, "a"), fire(2, f"a-{DUE_MS}"), put(3, "c"))
    client.history()

    redis_client.flushall()
    lost = client.history()
    write(redis_client, put(1, "b"), fire(2, f"b-{DUE_MS}"), fire(4, f"c-{DUE_MS}"))
    later = client.history()

    assert ([], None) == (lost, lost.source.complete_since_ms)
    assert ["c", "b"] == [one.id for one in later]


def test_threads_share_a_fold(client: Client, redis_client: redis.Redis) -> None:
    write(redis_client, *(each for n in range(50) for each in (put(2 * n + 1, f"s{n}"), fire(2 * n + 2, f"s{n}-5"))))
    found = list[int]()

    def look() -> None:
        found.extend(len(client.history(limit=100)) for _ in range(5))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(WITHIN_S)

    assert [50] * 20 == found


@pytest.mark.anyio
async def test_the_event_loop_continues_while_a_log_is_folded_and_asked(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, check = threading.Event(), answering.answer_from

    def check_while_the_loop_goes_on(*arguments: Any) -> Any:
        assert goes_on.wait(WITHIN_S)
        return check(*arguments)

    write(redis_client, put(1, "a"), fire(2, f"a-{DUE_MS}"))
    monkeypatch.setattr(answering, "answer_from", check_while_the_loop_goes_on)
    async with AsyncClient.from_url(redis_url) as client:
        calls = [asyncio.create_task(client.history()), asyncio.create_task(client.history("a"))]
        await turn()
        goes_on.set()

        assert [["a"], ["a"]] == [[one.id for one in await call] for call in calls]


def test_a_search_that_an_archive_began_does_not_continue_in_the_log(
    client: Client, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"archive": "host:/a.db", "complete_since": "start", "as_of": "0-1"}
    part = {"source": source, "occurrences": [], "after": "1-2-3-4-5", "reached_us": 7}
    answers = iter([part, {"error": "no archive answered within 2 s"}])
    monkeypatch.setattr(history_reader, "ask_archives", lambda *_, **__: next(answers))

    with pytest.raises(ArchiveError, match="within 2 s; the search continues after cursor 1-2-3-4-5"):
        client.history()
