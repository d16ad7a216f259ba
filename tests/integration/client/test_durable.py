"""``durable=True``: acknowledged when an archive has the change on its disk, and the errors when none has."""

import resource
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.daemons import DaemonProcess, archive_of_its_own, leading_daemon
from tests.builders.leaders import know
from tests.integration.client.calls import KEYS, SOON, ids
from tests.waiting import WITHIN_S, eventually
from zsched import Client, NotArchived, RedisUnavailable
from zsched.archive import History
from zsched.core.entry import Position
from zsched.core.log.kinds import changes
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.log import Log
from zsched.storage.meta import server_now_ms
from zsched.storage.puts import Answer, PutScripts

FUNC = "app.tasks.run"
SHORT_S = 0.1  # a durable client's patience, where it is to run out


@pytest.fixture
def client(link: Link) -> Client:
    return Client(link, durable_timeout_s=WITHIN_S)


@pytest.fixture
def archivers(link: Link) -> Archivers:
    return Archivers(link, KEYS)


@pytest.fixture
def log(link: Link) -> Log:
    return Log(link, KEYS)


@pytest.fixture
def path() -> Path:
    return Path(archive_of_its_own())


@pytest.fixture
def archive(redis_client: redis.Redis, redis_url: str, path: Path) -> Iterator[Path]:
    """The file of a daemon's archive that follows."""
    know(redis_client)
    with leading_daemon(redis_url, path):
        yield path


@pytest.fixture
def stuck(archivers: Archivers) -> None:
    """Report an archive that follows and never continues."""
    archivers.report("stuck", None, ArchiveState.FOLLOWING, {})


@pytest.fixture
def short(link: Link) -> Client:
    """A client that soon stops waiting for an archive."""
    return Client(link, durable_timeout_s=SHORT_S)  # timing: it runs out, however fast the machine is


def on_disk(path: Path) -> Position:
    with History(path) as history:
        assert history.position is not None
        return history.position


def entry_of(log: Log, id: str) -> Position:
    """Return the position of the newest entry about *id*."""
    return next(one.position for one in log.read_back("+", 100) if id in {change.id for change in changes(one)})


CALLS: list[tuple[str, Callable[[Client], Any]]] = [
    ("one-shot", lambda client: client.schedule(FUNC, id="a", after=3600, durable=True)),
    ("recurring", lambda client: client.schedule(FUNC, id="a", every=3600, durable=True)),
    ("enqueue", lambda client: client.enqueue(FUNC, id="a", durable=True)),
    ("many", lambda client: client.schedule_many([{"func": FUNC, "id": "a", "after": 3600, "durable": True}])),
    ("many recurring", lambda client: client.schedule_many([{"func": FUNC, "id": "a", "every": 60, "durable": True}])),
]


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
def test_a_durable_call_is_on_an_archives_disk_when_it_returns(
    client: Client, archive: Path, log: Log, call: Callable[[Client], Any]
) -> None:
    call(client)

    assert entry_of(log, "a").order <= on_disk(archive).order


@pytest.mark.parametrize("when", [{"after": 3600}, {"every": 3600}])
def test_a_durable_update_is_on_an_archives_disk_when_it_returns(
    client: Client, archive: Path, log: Log, when: dict[str, Any]
) -> None:
    client.schedule(FUNC, id="a", **when)
    client.update("a", queue="email", durable=True)

    assert entry_of(log, "a").order <= on_disk(archive).order
    assert "email" == client.get("a").queue


def test_a_durable_put_that_changes_nothing_waits_too(client: Client, archive: Path, log: Log) -> None:
    client.schedule(FUNC, id="a", at=SOON)

    unchanged = client.schedule(FUNC, id="a", at=SOON, durable=True)
    kept = client.schedule(FUNC, id="a", after=5, if_exists="keep", durable=True)

    assert ("unchanged", "kept") == (unchanged.outcome, kept.outcome)
    assert entry_of(log, "a").order <= on_disk(archive).order


def test_durable_rows_are_on_an_archives_disk_when_the_call_returns(client: Client, archive: Path, log: Log) -> None:
    rows = [{"func": FUNC, "id": f"s{number}", "after": 3600} for number in range(1000)]
    rows[500]["durable"] = True

    many = client.schedule_many(rows)

    last = log.last()
    assert last is not None
    assert (1000, []) == (many.created, many.errors)
    assert last.position.order <= on_disk(archive).order


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
def test_a_durable_call_without_an_archive_writes_nothing(
    short: Client, redis_client: redis.Redis, call: Callable[[Client], Any]
) -> None:
    with pytest.raises(NotArchived, match="no daemon with an archive") as caught:
        call(short)

    assert not caught.value.is_in_redis
    assert [] == redis_client.keys("*")


def test_a_durable_call_after_all_daemons_stopped_writes_nothing(
    short: Client,
    redis_url: str,
    redis_client: redis.Redis,
) -> None:
    know(redis_client)
    with leading_daemon(redis_url):
        pass

    with pytest.raises(NotArchived, match="nothing was written") as caught:
        short.schedule(FUNC, id="a", after=3600, durable=True)

    assert not caught.value.is_in_redis
    assert [] == ids(short.list())


def test_durable_updates_and_rows_without_an_archive_are_not_written(short: Client) -> None:
    short.schedule(FUNC, id="a", after=3600)

    with pytest.raises(NotArchived, match="nothing was written"):
        short.update("a", queue="email", durable=True)

    assert "default" == short.get("a").queue

    rows = [{"func": FUNC, "id": f"s{number}", "after": 3600} for number in range(400)]

    with pytest.raises(NotArchived, match="no row with durable=True was written"):
        short.schedule_many([*rows, {"func": FUNC, "id": "last", "after": 3600, "durable": True}])

    assert "last" not in ids(short.list())


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda client, SOON: client.schedule(FUNC, id="a", at=SOON, durable=True), "waits again"),
        (lambda client, SOON: client.schedule(FUNC, id="a", every=3600, durable=True), "waits again"),
        (lambda client, SOON: client.schedule(FUNC, at=SOON, durable=True), "again makes a second one: with an id "),
        (
            lambda client, SOON: client.schedule(FUNC, id="a", after=3600, durable=True),
            "again replaces it, and its delay begins",
        ),
        (lambda client, SOON: client.enqueue(FUNC, id="a", durable=True), "again runs it a second time"),
        (
            lambda client, SOON: client.schedule_many([{"func": FUNC, "id": "a", "at": SOON, "durable": True}]),
            "waits again",
        ),
    ],
)
def test_a_durable_call_that_times_out_says_that_redis_has_it(
    stuck: None, short: Client, log: Log, call: Callable[[Client, datetime], Any], advice: str
) -> None:
    with pytest.raises(NotArchived, match=advice) as caught:
        call(short, SOON)

    assert caught.value.is_in_redis
    assert log.last() is not None


def test_a_durable_put_that_nobody_archives_says_that_redis_has_it(stuck: None, short: Client) -> None:
    short.schedule(FUNC, id="a", at=SOON)

    with pytest.raises(NotArchived) as caught:
        short.schedule(FUNC, id="a", at=SOON, durable=True)

    assert caught.value.is_in_redis


def test_an_archive_with_a_full_disk_does_not_acknowledge(
    redis_url: str, client: Client, short: Client, redis_client: redis.Redis, archivers: Archivers, path: Path,
) -> None:  # fmt: skip
    know(redis_client)
    with Guard() as guard:
        daemon = DaemonProcess(guard, redis_url, ARCHIVE_PATH=str(path))
        eventually(archivers.alive)
        client.schedule(FUNC, id="small", at=SOON, durable=True)
        limits = 0, resource.RLIM_INFINITY  # of a process that can write no file
        resource.prlimit(daemon.archivist_pid, resource.RLIMIT_FSIZE, limits)

        with pytest.raises(NotArchived) as on_a_full_disk:
            short.schedule(FUNC, id="on_a_full_disk", at=SOON, durable=True)
        eventually(lambda: not archivers.alive())
        with pytest.raises(NotArchived) as later:
            short.schedule(FUNC, id="next", at=SOON, durable=True)

    assert (True, False) == (on_a_full_disk.value.is_in_redis, later.value.is_in_redis)
    assert {"small", "on_a_full_disk"} == set(ids(client.list()))


@pytest.mark.parametrize("many", [False, True])
def test_a_durable_put_that_redis_loses_before_an_archive_has_it_is_lost(
    stuck: None, client: Client, redis_client: redis.Redis, log: Log, many: bool
) -> None:
    row = {"func": FUNC, "id": "a", "after": 3600, "durable": True}
    errors: list[Exception] = []

    def call() -> None:
        try:
            client.schedule_many([row]) if many else client.schedule(**row)  # type: ignore[arg-type]  # a dict of any
        except Exception as error:
            errors.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    eventually(log.last)
    redis_client.flushall()
    caller.join()

    [error] = errors
    assert isinstance(error, NotArchived)
    assert not error.is_in_redis
    assert "lost" in str(error)
    assert "schedule it again" in str(error)


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "unchanged"])
@pytest.mark.parametrize(("name", "when"), [("put", {"at": SOON}), ("put", {"every": 60}), ("put_many", {"at": SOON})])
def test_a_durable_put_is_lost_when_the_archives_follow_another_history_before_it_waits(
    client: Client, redis_client: redis.Redis, archivers: Archivers, log: Log, monkeypatch: pytest.MonkeyPatch,
    name: str, when: dict[str, Any], is_there: bool,
) -> None:  # fmt: skip
    archivers.report("archive", None, ArchiveState.FOLLOWING, {})
    row: dict[str, Any] = {"func": FUNC, "id": "a", **when}
    if is_there:
        client.schedule(**row)
    put = getattr(PutScripts, name)

    def then_fail_over(self: PutScripts, *given: Any) -> Any:
        answer = put(self, *given)
        answer = answer if isinstance(answer, Answer) else list(answer)  # of put_many
        monkeypatch.undo()
        put_ms = server_now_ms(client._link, KEYS)
        eventually(lambda: server_now_ms(client._link, KEYS) > put_ms)  # entries are told apart by their milliseconds
        redis_client.flushall()
        other = Client(Link.adopt(redis_client))
        for number in range(3):
            other.schedule(FUNC, id=f"other-{number}", after=60)
        last = log.last()
        assert last is not None
        archivers.report("archive", last.position, ArchiveState.FOLLOWING, {})
        return answer

    monkeypatch.setattr(PutScripts, name, then_fail_over)
    durably: dict[str, Any] = row | {"durable": True}
    with pytest.raises(NotArchived, match="schedule it again") as caught:
        client.schedule_many([durably]) if name == "put_many" else client.schedule(**durably)

    assert not caught.value.is_in_redis


@pytest.mark.parametrize("many", [False, True])
def test_a_durable_call_that_loses_redis_says_that_it_was_written(
    stuck: None, client: Client, log: Log, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    def gone(*_: object) -> str:
        raise RedisUnavailable("cannot reach Redis")

    monkeypatch.setattr(Archivers, "archived", gone)
    row: dict[str, Any] = {"func": FUNC, "id": "a", "after": 3600, "durable": True}

    with pytest.raises(RedisUnavailable, match="written, but whether an archive has it is not known") as caught:
        client.schedule_many([row]) if many else client.schedule(**row)

    assert caught.value.may_have_been_applied
    assert "nothing was applied" not in str(caught.value)
    assert log.last() is not None
