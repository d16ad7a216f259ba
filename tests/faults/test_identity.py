"""Identity of data sets: a daemon restores nothing into another Redis, and finds its archive at any address."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonProcess, Start
from tests.builders.redises import connect
from tests.faults.archives import KEYS, await_caught_up, fact, stop
from tests.faults.identities import BRIEF, begin, copy, fill, gen, ids, path_of
from tests.ledger import queued
from zsched import Client
from zsched.config.urls import address_of
from zsched.embedded import EmbeddedRedis

UNUSABLE = 2


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder, in which daemons keep archives without a configured path."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "zsched"


@pytest.fixture
def other() -> Iterator[EmbeddedRedis]:
    """Another Redis than ``server``."""
    with EmbeddedRedis(tcp=True) as server:
        yield server


def use(start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, **settings: str) -> DaemonProcess:
    """Run a daemon on *server* until its archive has schedules and a run. Return the stopped daemon."""
    daemon = begin(start_daemon, server.url, **settings)
    fill(server.url, watch)
    await_caught_up(server.url, path_of(daemon))
    stop(daemon)
    return daemon


def test_an_archive_restores_nothing_into_another_empty_redis(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, other: EmbeddedRedis, state: Path
) -> None:
    first = use(start_daemon, server, watch)

    second = begin(start_daemon, other.url, **BRIEF)

    with connect(other.url) as client:
        assert (set(), []) == (ids(other.url), queued(client))
        assert gen(watch) != gen(client)
    assert [] == second.of("redis_history_lost") + second.of("archive_refused")
    assert path_of(first).parent != path_of(second).parent
    assert {path_of(first).parent, path_of(second).parent} == set(state.iterdir())
    stop(second)


def test_an_archive_restores_nothing_into_another_redis_with_schedules(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, other: EmbeddedRedis
) -> None:
    use(start_daemon, server, watch)
    Client.from_url(other.url).schedule("app.own", id="own", after=3600)

    second = begin(start_daemon, other.url, **BRIEF)

    assert {"own"} == ids(other.url)
    stop(second)


def test_a_developers_archive_restores_nothing_into_a_production_redis(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, other: EmbeddedRedis, tmp_path: Path
) -> None:
    developers = use(start_daemon, server, watch)
    leader = begin(start_daemon, other.url, ARCHIVE_PATH=str(tmp_path / "production.db"), **BRIEF)
    Client.from_url(other.url).schedule("app.own", id="own", after=3600)

    by_place = begin(start_daemon, other.url)
    by_path = start_daemon(other.url, ARCHIVE_PATH=str(path_of(developers)))

    assert UNUSABLE == by_path.wait()
    said = by_path.of("daemon_failed")[0]["reason"]
    with connect(other.url) as client:
        for name in (gen(watch).decode(), gen(client).decode(), f"zsched archive recover --from {path_of(developers)}"):
            assert name in said
        assert [] == queued(client)
    assert {"own"} == ids(other.url)
    assert not leader.has_ended
    assert [] == by_place.of("redis_history_lost")
    stop(by_place, leader)


def test_a_configured_archive_of_another_data_set_ends_the_daemon_for_good(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    first = use(start_daemon, server, watch)
    before = gen(watch).decode()
    watch.flushall()
    watch.hset(KEYS.meta(), "gen", "another")

    second = start_daemon(server.url, ARCHIVE_PATH="")

    assert UNUSABLE == second.wait()
    said = second.of("daemon_failed")[0]["reason"]
    folder = path_of(first).parent
    for text in (before, "another", f"zsched archive recover --from {path_of(first)}", f"or move {folder} away"):
        assert text in said
    assert set() == ids(server.url)


def test_an_archive_of_another_address_is_refused_for_an_unnamed_redis_until_recover(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, other: EmbeddedRedis, tmp_path: Path
) -> None:
    path = tmp_path / "archive.db"
    use(start_daemon, server, watch, ARCHIVE_PATH=str(path))

    refused = start_daemon(other.url, ARCHIVE_PATH=str(path))

    assert UNUSABLE == refused.wait()
    said = refused.of("daemon_failed")[0]["reason"]
    for text in (address_of(server.url), address_of(other.url), f"zsched archive recover --from {path}"):
        assert text in said
    assert set() == ids(other.url)
    without = Zsched(other.url, ZSCHED_ARCHIVE_PATH=str(path))("archive", "recover")
    assert (1, True) == (without.exit_code, f"zsched archive recover --from {path}" in without.stderr)
    assert 0 == Zsched(other.url)("archive", "recover", "--from", str(path)).exit_code
    again = begin(start_daemon, other.url, ARCHIVE_PATH=str(path))
    assert (address_of(server.url), address_of(other.url)) == (
        again.wait_for("archive_moved")["made_for"],
        fact(path, "address"),
    )
    assert {"mail-bob", "mail-cron"} == ids(other.url)
    stop(again)


def test_a_copied_redis_gets_no_later_changes_of_the_original_until_recover(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, other: EmbeddedRedis
) -> None:
    first = begin(start_daemon, server.url)
    fill(server.url, watch)
    await_caught_up(server.url, path_of(first))
    copy(server, other)
    client = Client.from_url(server.url)
    client.schedule("app.mail", id="campaign", after=3600)
    client.cancel("mail-bob")
    await_caught_up(server.url, path_of(first))
    stop(first)

    refused = start_daemon(other.url, ARCHIVE_PATH="")

    assert UNUSABLE == refused.wait()
    said = refused.of("daemon_failed")[0]["reason"]
    for text in (address_of(server.url), address_of(other.url), f"zsched archive recover --from {path_of(first)}"):
        assert text in said
    assert {"mail-bob", "mail-cron"} == ids(other.url)
    assert address_of(server.url) == fact(path_of(first), "address")
    original = begin(start_daemon, server.url)
    assert [] == original.of("redis_history_lost") + original.of("archive_moved")
    assert {"campaign", "mail-cron"} == ids(server.url)
    stop(original)
    assert 0 == Zsched(other.url)("archive", "recover", "--from", str(path_of(first))).exit_code
    for n in range(50):  # the daemon comes long after
        Client.from_url(other.url).schedule("app.mail", id=f"later{n}", after=3600)
    moved = begin(start_daemon, other.url)
    assert address_of(server.url) == moved.wait_for("archive_moved")["made_for"]
    assert {"campaign", "mail-cron"} == {id for id in ids(other.url) if not id.startswith("later")}
    stop(moved)


def test_a_redis_at_another_address_whose_log_was_trimmed_past_the_archive_is_followed(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    use(start_daemon, server, watch)
    Client.from_url(server.url).cancel("mail-bob")
    watch.xtrim(KEYS.log(), maxlen=1, approximate=False)

    moved = begin(start_daemon, server.tcp_url)

    assert address_of(server.url) == moved.wait_for("archive_moved")["made_for"]
    moved.wait_for("archive_left_behind")
    assert {"mail-cron"} == ids(server.url)
    stop(moved)


def test_a_daemon_finds_its_archive_at_another_address_by_the_data_sets_name(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    first = use(start_daemon, server, watch)

    moved = begin(start_daemon, server.tcp_url)

    assert path_of(first) == path_of(moved)
    told = moved.wait_for("archive_moved")
    assert (address_of(server.url), address_of(server.tcp_url)) == (told["made_for"], told["redis"])
    stop(moved)
    watch.flushall()
    back = begin(start_daemon, server.tcp_url)
    back.wait_for("recovery_done")
    assert path_of(first) == path_of(back)
    assert {"mail-bob", "mail-cron"} <= ids(server.url)
    stop(back)


def test_a_namespace_moves_to_another_redis_with_all_of_its_daemons_by_one_recovery(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, other: EmbeddedRedis, tmp_path: Path
) -> None:
    places = [{"ARCHIVE_PATH": str(tmp_path / f"{name}.db")} for name in ("furthest", "behind", "last")]
    daemons = [begin(start_daemon, server.url, **place, **BRIEF) for place in places]
    fill(server.url, watch)
    for daemon in reversed(daemons):  # each archive goes further than the one before
        await_caught_up(server.url, path_of(daemon))
        stop(daemon)
        Client.from_url(server.url).schedule("app.later", id=f"later-{daemon.pid}", after=3600)
    kept = ids(server.url) - {f"later-{daemons[0].pid}"}
    server.stop()

    recovered = Zsched(other.url)("archive", "recover", "--from", places[0]["ARCHIVE_PATH"])
    moved = [begin(start_daemon, other.url, **place, **BRIEF) for place in places]

    assert 0 == recovered.exit_code, recovered.output
    assert kept == ids(other.url)
    for daemon in moved:
        await_caught_up(other.url, path_of(daemon))
    Client.from_url(other.url).schedule("app.new", id="new", after=3600, durable=True)
    stop(*moved)


def test_two_daemons_of_one_machine_share_the_archive_folder(start_daemon: Start, server: EmbeddedRedis) -> None:
    one, two = begin(start_daemon, server.url), begin(start_daemon, server.url)

    assert ["1.db", "2.db"] == [path_of(daemon).name for daemon in (one, two)]
    assert path_of(one).parent == path_of(two).parent
    stop(two, one)


def test_a_daemon_that_starts_without_redis_opens_its_archive_later(start_daemon: Start, server: EmbeddedRedis) -> None:
    first = begin(start_daemon, server.url)
    stop(first)
    server.stop()
    early = start_daemon(server.url, ARCHIVE_PATH="")
    early.wait_for("redis_lost")
    assert [] == early.of("archive_opened")

    server.start()

    assert path_of(first) == path_of(early)
    await_caught_up(server.url, path_of(early))
    stop(early)


def test_a_state_folder_that_cannot_be_created_ends_the_daemon_at_once(
    start_daemon: Start, server: EmbeddedRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    server.stop()

    daemon = start_daemon(server.url, ARCHIVE_PATH="")

    assert 1 == daemon.wait()
    assert "give [archive] path where this user may write" in daemon.of("daemon_failed")[0]["reason"]
