"""Questions to an archive through Redis, by a client that cannot read its file; and replies when no archive answers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from types import SimpleNamespace

import pytest
import redis

from tests.builders.daemons import DaemonThread, archive_of_its_own, leading_daemon
from tests.builders.redises import connect
from tests.builders.scenes import Scene, schedule
from tests.integration.reruns.ends import archived
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.core.entry import Position
from zsched.core.occurrences.changes import Wanted
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run import RunStatus
from zsched.core.story.source import Source
from zsched.embedded import EmbeddedRedis
from zsched.errors import ArchiveError
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.history_reader import HistoryQuery, HistoryReader
from zsched.storage.keys import Keys
from zsched.storage.log import Log

KEYS = Keys("default")
FUNC = "app.tasks.run"
DAY_MS = 86_400_000
IMPATIENT_S = 0.5  # of a client that waits 0.25 s for an answer


@pytest.fixture
def impatient(link: Link, redis_client: redis.Redis) -> Client:
    """A client that soon stops waiting."""
    return Client(Link(link.pool, link.where, IMPATIENT_S))


@pytest.fixture
def present(link: Link, redis_client: redis.Redis) -> None:
    """An archive that has just reported; neither it answers nor one of an earlier test, whose threads end later."""
    redis_client.client_kill_filter(_type="normal", skipme=True)
    Archivers(link, KEYS).report("a", None, ArchiveState.FOLLOWING, {})


def forget_but(redis_client: redis.Redis, last: Position) -> None:
    """Trim the log up to *last*, like a leader."""
    redis_client.xtrim(KEYS.log(), minid=last.id, approximate=False)


@contextmanager
def answering(redis_client: redis.Redis, answer: str) -> Iterator[None]:
    """Meanwhile, take one question and answer it with *answer*."""

    def take() -> None:
        _, asked = redis_client.blpop([KEYS.ask()], WITHIN_S / 2)  # type: ignore[misc]
        redis_client.rpush(KEYS.answer(json.loads(asked)["id"]), answer)

    somebody = threading.Thread(target=take)
    somebody.start()
    yield
    somebody.join()


def test_an_answer_includes_the_askers_own_writes(client: Client, daemon: DaemonThread) -> None:
    for number in range(20):
        client.schedule(FUNC, id=f"s{number}", after=3600)

        story = client.why(f"s{number}")

        assert [What.PUT] == [change.what for change in story.changes]
        assert story.source.archive is not None


def test_an_answer_names_its_archive_and_its_last_entry(client: Client, redis_url: str, link: Link) -> None:
    path = archive_of_its_own()
    with leading_daemon(redis_url, path):
        client.schedule(FUNC, id="a", after=3600)
        last = archived(link)

        source = client.why("a").source

    assert source.archive is not None
    assert source.archive.endswith(f":{path}")
    assert (None, last.id, "") == (source.complete_since_ms, source.as_of, source.problem)


def test_history_includes_entries_trimmed_from_redis(
    client: Client, daemon: DaemonThread, link: Link, redis_client: redis.Redis
) -> None:
    client.enqueue(FUNC, id="old")
    client.enqueue(FUNC, id="new")
    forget_but(redis_client, archived(link))

    found = client.history()

    assert (["new", "old"], True) == ([change.id for change in found], found.source.archive is not None)


def test_history_can_be_filtered_by_schedule_or_status(
    client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    for id in ("a", "b", "a"):
        client.enqueue(FUNC, id=id)
    client.schedule(FUNC, id="a", after=3600)
    client.cancel("a")

    of_a = client.history("a")
    enqueued = client.history(status="enqueued", limit=2)

    assert [What.CANCELLED, What.ENQUEUED, What.ENQUEUED] == [change.what for change in of_a]
    assert ["a", "b"] == [change.id for change in enqueued]


def test_log_returns_the_whole_archive_in_order(
    client: Client, daemon: DaemonThread, link: Link, redis_client: redis.Redis
) -> None:
    for number in range(230):
        client.schedule(FUNC, id=f"s{number}", after=3600)
    random = Random(7)  # what RQ cannot compress
    for number in range(50):  # 5 MB: more than one answer holds
        client.schedule(FUNC, id=f"large{number}", after=3600, args=(random.randbytes(100_000),))
    expected = [entry.position for entry in Log(link, KEYS).entries()]
    forget_but(redis_client, archived(link))

    everything, source = client.log(from_ms(0))
    newest, _ = client.log(limit=150)

    assert source.archive is not None
    assert expected == [entry.position for entry in everything]
    assert expected[-150:] == [entry.position for entry in newest]


def test_log_without_an_archive_comes_from_redis(client: Client, redis_client: redis.Redis, link: Link) -> None:
    for number in range(5):
        client.schedule(FUNC, id=f"s{number}", after=3600)
    positions = [entry.position for entry in Log(link, KEYS).entries()]
    forget_but(redis_client, positions[1])

    newest, source = client.log(limit=3)
    since, _ = client.log(from_ms(positions[2].t_us // 1000 + 1))

    assert positions[2:] == [entry.position for entry in newest]
    later = [one for one in positions if one.t_us >= (positions[2].t_us // 1000 + 1) * 1000]
    assert later == [entry.position for entry in since]
    problem = "no archive reported within 30 s"
    assert Source(None, positions[1].t_us // 1000, positions[-1].id, problem, place=source.place) == source


def test_log_after_a_loss_includes_the_lost_entries(
    redis_url: str, impatient: Client, client: Client, link: Link, redis_client: redis.Redis
) -> None:
    with leading_daemon(redis_url) as daemon:
        client.schedule(FUNC, id="before", after=3600)
        lost = Log(link, KEYS).first()
        archived(link)
        redis_client.flushall()
        daemon.wait_for("recovery_done")
        eventually(lambda: Archivers(link, KEYS).alive())
        client.schedule(FUNC, id="after", after=3600)
        held = [entry.position for entry in Log(link, KEYS).entries()]

        told, source = client.log(from_ms(0))
        positions = [entry.position for entry in told]
        newest = [entry.position for entry in client.log(limit=len(held) + 1)[0]]
    _, alone = impatient.log(from_ms(0))

    assert lost is not None
    assert (lost.position, held) == (positions[0], positions[-len(held) :])
    assert held[0].seq == 1 < len(positions) - len(held)
    assert positions[-len(held) - 1 :] == newest
    assert (True, None) == (source.archive is not None, source.complete_since_ms)
    assert (None, held[0].t_us // 1000) == (alone.archive, alone.complete_since_ms)


@pytest.mark.usefixtures("present")
def test_log_ignores_an_archive_that_begins_later_than_redis(client: Client, redis_client: redis.Redis) -> None:
    client.schedule(FUNC, id="a", after=3600)
    source = {"archive": "host:/a.db", "complete_since": str(2**60), "as_of": "0-1"}

    with answering(redis_client, json.dumps({"source": source, "entries": []})):
        told, where = client.log(from_ms(0))

    assert (None, "", ["put"]) == (where.archive, where.problem, [entry.kind for entry in told])


def test_log_raises_an_error_if_the_archive_stops_answering(
    redis_url: str, client: Client, link: Link, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leading_daemon(redis_url):
        for number in range(120):
            client.schedule(FUNC, id=f"s{number}", after=3600)
        forget_but(redis_client, archived(link))
        entries, source = client.log(from_ms(0))
        next(entries)
    monkeypatch.setattr("zsched.storage.questions.WAIT_S", 0.05)

    assert source.archive is not None
    with pytest.raises(ArchiveError, match="is missing here"):
        list(entries)


@pytest.mark.parametrize("number", [1, 3, 4, 5, 9])  # of entries in the new history: fewer, as many, and more
def test_following_continues_after_redis_lost_entries(client: Client, redis_client: redis.Redis, number: int) -> None:
    for _ in range(3):
        client.enqueue(FUNC)
    following = client.follow_log()

    client.enqueue(FUNC, id="before")
    before = next(following)
    redis_client.flushall()
    for n in range(number):
        client.enqueue(FUNC, id=f"after{n}")
    after = [next(following).body[2][:6] for _ in range(number)]

    assert b"before" == before.body[2][:6]
    assert [b"after%d" % n for n in range(number)] == after


def test_following_waits_for_more_and_reads_a_page_at_once(
    client: Client, redis_url: str, redis_client: redis.Redis
) -> None:
    class Waiting(Link):
        """A link on which other programs write while it waits."""

        def pause(self, seconds: float) -> None:
            for n in range(5):
                client.enqueue(FUNC, id=f"more{n}")

    following = Client(Waiting.from_url(redis_url, 5)).follow_log(gather_s=60)
    client.enqueue(FUNC, id="first")
    next(following)
    before = redis_client.info("commandstats")["cmdstat_xrange"]["calls"]

    rest = [next(following).body[2][:5] for _ in range(5)]

    assert [b"more%d" % n for n in range(5)] == rest
    assert before == redis_client.info("commandstats")["cmdstat_xrange"]["calls"]


@pytest.mark.usefixtures("present")
def test_why_and_history_use_redis_own_log_if_no_archive_answers(
    impatient: Client, redis_client: redis.Redis, link: Link
) -> None:
    impatient.schedule(FUNC, id="a", after=3600)
    impatient.enqueue(FUNC, id="b")

    story, found = impatient.why("a"), impatient.history()

    assert [What.PUT] == [change.what for change in story.changes]
    assert ["b"] == [change.id for change in found]
    first, problem = Log(link, KEYS).first(), "no archive answered within 0.25 s"
    assert first is not None
    expected = Source(None, first.position.t_us // 1000, "0-2", problem, True, found.source.place)
    assert expected == found.source == story.source
    assert 0 == redis_client.exists(KEYS.ask())  # the question was taken back


@pytest.mark.once
def test_why_and_history_use_redis_own_log_while_redis_is_full(own_redis: EmbeddedRedis) -> None:
    client = Client.from_url(own_redis.url)
    client.enqueue(FUNC, id="a")
    Archivers(Link.from_url(own_redis.url, WITHIN_S), KEYS).report("a", None, ArchiveState.FOLLOWING, {})
    with connect(own_redis.url) as watch:
        watch.config_set("maxmemory", "1mb")

        story, found = client.why("a"), client.history()

    assert [What.ENQUEUED] == [change.what for change in story.changes]
    assert ["a"] == [change.id for change in found]
    assert "Redis refuses writes: it is full (maxmemory)" == story.source.problem == found.source.problem


def test_a_late_put_that_fired_at_once_is_not_late_by_the_log_alone(scene: Scene) -> None:
    schedule(scene, "a", at=from_ms(scene.now_ms - DAY_MS), allow_past=True)
    assert 1 == scene.tick().runs
    put_us = next(entry.position.t_us for entry in scene.log() if entry.kind == "put")

    [fired] = scene.client.history("a", limit=1)
    story = scene.client.why("a")

    assert ((fired.at_us - put_us) / 1000, put_us) == (fired.late_ms, fired.ready_us)
    assert " late: it was put only " in story.lines[-1][1]
    assert " h late" not in story.lines[-1][1]


def test_a_long_story_is_cut_in_the_middle(client: Client, link: Link) -> None:
    for number in range(10):
        client.schedule(FUNC, id="a", after=3600 + number)

    chronicle = HistoryReader(link, KEYS).chronicle("a", newest=4)

    assert (5, 5) == (len(chronicle.changes), chronicle.left_out)


@pytest.mark.usefixtures("present")
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("{", "no archive answered"),
        ("[" * 100_000, "no archive answered"),
        ("[]", "no archive answered"),
        ("{}", "this version does not understand"),
        ('{"changes": [{"what": "enchanted"}], "source": {}}', "this version does not understand"),
        ('{"error": "the disk is full"}', "the disk is full"),
    ],
)
def test_an_unreadable_answer_counts_as_no_answer(
    client: Client, redis_client: redis.Redis, answer: str, problem: str
) -> None:
    client.enqueue(FUNC, id="a")

    with answering(redis_client, answer):
        found = client.history()

    assert ["a"] == [change.id for change in found]
    assert problem in found.source.problem


def test_a_run_that_failed_during_a_search_counts_as_found(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, history = [["failed-meanwhile"], ["b", "c"]], HistoryReader(link, KEYS)

    def ask(*_: object, **__: object) -> tuple[dict[str, object], Source]:
        found = [SimpleNamespace(run_id=id, cursor=f"at {id}") for id in parts.pop(0)]
        return {"occurrences": found, "after": None, "reached_us": None}, Source("here", 0, "1-1")

    monkeypatch.setattr(HistoryQuery, "ask", ask)
    monkeypatch.setattr(history, "_now", lambda found, _: found)

    [part] = history.search(Wanted(frozenset(), frozenset({RunStatus.FAILED}), limit=2))

    assert (["failed-meanwhile", "b"], "at b") == ([one.run_id for one in part.occurrences], part.after)


def test_the_limits_of_history_are_checked(client: Client) -> None:
    for wrong in ({"limit": 0}, {"limit": True}, {"limit": 1001}, {"status": "paused"}, {"id": "no id"}):
        with pytest.raises(ValueError, match="give"):
            client.history(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="aware"):
        client.log(from_ms(0).replace(tzinfo=None) + timedelta(days=1))
