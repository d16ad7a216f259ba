"""Links behind Sentinels without real ones: their parts, and refused settings."""

from itertools import repeat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import redis
from redis.sentinel import Sentinel, SentinelManagedConnection, SentinelManagedSSLConnection

from tests.unit.test_cluster import FakeConnection
from zsched import Client, ConfigError, RedisUnavailable
from zsched.storage.connection import Link, Wire
from zsched.storage.found import Unfound
from zsched.storage.sentinel import Discovery, Pool

HOSTS = [("h1", 26379), ("::1", 7)]
URL = "redis+sentinel://me:secret@h1,[::1]:7/mymaster/3"


def state(port: int, *, is_down: bool = False) -> dict[str, Any]:
    flags = {"is_master": True, "is_sdown": is_down, "is_odown": False, "num-other-sentinels": 2}
    return {"mymaster": {"ip": "10.0.0.1", "port": port, **flags}}


def discovery(*answers: dict[str, Any] | Exception) -> Discovery:
    manager = made([])
    for port, answer in enumerate(answers, 1):
        pool = redis.ConnectionPool(host="h", port=port)
        manager.sentinels.append(Mock(connection_pool=pool, sentinel_masters=Mock(side_effect=repeat(answer))))
    return Discovery(manager)


def made(hosts: list[tuple[str, int]], **options: Any) -> Sentinel:
    return Sentinel(hosts, **options)  # type: ignore[no-untyped-call]  # redis-py's


def options_of(link: Link) -> dict[str, Any]:
    return dict(link.pool.connection_kwargs)


def sentinel_options_of(link: Link) -> list[dict[str, Any]]:
    assert isinstance(link.pool, Pool)
    return [one.connection_pool.connection_kwargs for one in link.pool.sentinel_manager.sentinels]


def assert_sends_nothing_twice(options: dict[str, Any]) -> None:
    assert (0, [], 2) == (options["retry"].get_retries(), options["retry_on_error"], options["protocol"])


def test_a_link_made_from_a_url_names_sentinels_and_master_without_the_password() -> None:
    link = Link.from_url(URL + "?sentinel_password=s3cret", 5.0)

    assert "redis+sentinel://h1:26379,[::1]:7/mymaster/3" == link.where
    assert link.finds_master
    assert (SentinelManagedConnection, "me", "secret", 3) == (
        link.pool.connection_class, options_of(link)["username"], options_of(link)["password"], options_of(link)["db"]
    )  # fmt: skip


def test_connections_to_master_and_sentinels_never_resend_and_sentinels_time_out_sooner() -> None:
    link = Link.from_url(URL + "?sentinel_username=su&sentinel_password=sp", 5.0)

    assert_sends_nothing_twice(options_of(link))
    assert 5.0 == options_of(link)["socket_timeout"]
    for each in sentinel_options_of(link):
        assert_sends_nothing_twice(each)
        assert ("su", "sp", 1.0, 1.0) == tuple(
            each[name] for name in ("username", "password", "socket_timeout", "socket_connect_timeout")
        )


def test_options_in_the_url_take_precedence_except_over_fixed_options() -> None:
    link = Link.from_url(URL + "?socket_timeout=2&health_check_interval=9&protocol=3", 5.0)

    names = ("socket_timeout", "health_check_interval", "protocol")
    assert (2.0, 0, 2) == tuple(options_of(link)[name] for name in names)


@pytest.mark.parametrize(("option", "to_sentinels"), [("", False), ("&sentinel_ssl=true", True)])
def test_tls_is_used_for_the_master_and_on_request_for_the_sentinels(option: str, to_sentinels: bool) -> None:
    link = Link.from_url(f"rediss+sentinel://h1/m?ssl_ca_certs=/ca{option}", 5.0)

    assert isinstance(link.pool, Pool)
    assert ("rediss+sentinel://h1:26379/m/0", SentinelManagedSSLConnection) == (link.where, link.pool.connection_class)
    assert "/ca" == options_of(link)["ssl_ca_certs"]
    [sentinel] = link.pool.sentinel_manager.sentinels
    assert to_sentinels == issubclass(sentinel.connection_pool.connection_class, redis.SSLConnection)
    assert ("/ca" if to_sentinels else None) == sentinel.connection_pool.connection_kwargs.get("ssl_ca_certs")


def test_the_password_of_the_sentinels_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("sp\n")

    link = Link.from_url(f"{URL}?sentinel_password_file={tmp_path / 'password'}", 5.0)

    assert {"sp"} == {each["password"] for each in sentinel_options_of(link)}
    with pytest.raises(ConfigError, match="sentinel_password_file='/nowhere': No such file"):
        Link.from_url(f"{URL}?sentinel_password_file=/nowhere", 5.0)


@pytest.mark.parametrize("url", ["redis+sentinel://:secret@h1", "redis+sentinel://:secret@h1/m?socket_timeout=x"])
def test_a_bad_url_is_a_config_error_without_the_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Client.from_url(url)

    assert "redis+sentinel://***@h1" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_adopted_client_keeps_its_settings_but_not_its_retries() -> None:
    manager = made(HOSTS, socket_timeout=30, sentinel_kwargs={"password": "sp"})
    theirs = manager.master_for("mymaster", db=3, password="p")

    link = Link.adopt(theirs)

    assert ("redis+sentinel://h1:26379,[::1]:7/mymaster/3", 30, True) == (link.where, link.timeout_s, link.finds_master)
    assert "p" == options_of(link)["password"]
    assert_sends_nothing_twice(options_of(link))
    for each in sentinel_options_of(link):
        assert_sends_nothing_twice(each)
        assert ("sp", 1.0) == (each["password"], each["socket_timeout"])


def test_a_client_of_replicas_or_with_another_way_to_find_its_master_is_refused() -> None:
    theirs = made(HOSTS).master_for("mymaster")
    theirs.connection_pool.sentinel_manager = object()

    with pytest.raises(ConfigError, match="a client of replicas, which take no writes: give"):
        Client(made(HOSTS).slave_for("mymaster"))
    with pytest.raises(ConfigError, match=r"by a object, not by a Sentinel: give one by Sentinel\.master_for"):
        Client(theirs)


def test_the_sentinel_that_answered_is_asked_first_the_next_time() -> None:
    found = discovery(redis.ConnectionError("gone"), redis.ResponseError("unknown command"), state(3))

    assert ("10.0.0.1", 3) == found.discover_master("mymaster")
    assert 3 == found.sentinels[0].connection_pool.connection_kwargs["port"]
    assert [1, 2, 3] == sorted(one.connection_pool.connection_kwargs["port"] for one in found.sentinels)


def test_a_worker_uses_the_last_master_while_no_sentinel_answers_until_it_says_that_it_is_none() -> None:
    found = discovery(state(7))
    found.remembers = True
    assert ("10.0.0.1", 7) == found.discover_master("mymaster")
    found.sentinels = discovery(redis.ConnectionError("gone"), redis.TimeoutError("slow")).sentinels

    assert ("10.0.0.1", 7) == found.discover_master("mymaster")
    with pytest.raises(Unfound, match="is a slave now; another master is named soon"):
        found.greet(FakeConnection([b"slave"], 7))
    with pytest.raises(Unfound, match="no Sentinel answers"):
        found.discover_master("mymaster")


def test_a_worker_does_not_use_the_last_master_if_a_sentinel_knows_no_living_one() -> None:
    found = discovery(state(7))
    found.remembers = True
    found.discover_master("mymaster")
    found.sentinels = discovery(redis.ConnectionError("gone"), state(7, is_down=True)).sentinels

    with pytest.raises(Unfound, match="know of no living master"):
        found.discover_master("mymaster")


def test_a_daemon_or_client_does_not_use_the_last_master() -> None:
    found = discovery(state(7))
    found.discover_master("mymaster")
    found.sentinels = discovery(redis.ConnectionError("gone")).sentinels

    with pytest.raises(Unfound, match="no Sentinel answers"):
        found.discover_master("mymaster")


def test_a_client_of_a_worker_of_zsched_is_adopted() -> None:
    workers = redis.Redis(connection_pool=Link.from_url(URL, 5.0).client_pool())

    assert Link.from_url(URL, 5.0).where == Link.adopt(workers).where


@pytest.mark.parametrize(
    ("answers", "problem", "remedy"),
    [
        ([redis.TimeoutError("slow"), redis.ConnectionError("gone")],
         "no Sentinel answers (h:1: slow; h:2: gone)",
         "start them, or correct their addresses or password: redis-cli -h h -p 1 PING"),
        ([redis.ConnectionError("gone"), {"a": {}, "b": {}}],
         "the Sentinels know no master 'mymaster', but a, b (not asked: h:1: gone)",
         "correct its name in [redis] url; this shows what they know: redis-cli -h h -p 2 SENTINEL MASTERS"),
        ([{}],
         "the Sentinels know no master 'mymaster', but none at all",
         "correct its name in [redis] url; this shows what they know: redis-cli -h h -p 1 SENTINEL MASTERS"),
        ([state(1, is_down=True), {}],
         "the Sentinels know of no living master 'mymaster' now",
         "one is chosen soon; if not, start its servers, which this lists: redis-cli -h h -p 1 "
         "SENTINEL REPLICAS mymaster"),
    ],
)  # fmt: skip
def test_a_master_that_is_not_found_is_explained(answers: list[Any], problem: str, remedy: str) -> None:
    with pytest.raises(Unfound) as caught:
        discovery(*answers).discover_master("mymaster")

    assert (problem, remedy) == (caught.value.problem, caught.value.remedy)


def set_up_by(pool: Pool, connection: Any) -> None:
    """Set up a new *connection* of *pool* like redis-py."""
    pool.connection_kwargs["redis_connect_func"](connection)


def test_a_new_connection_asks_for_the_role_and_accepts_a_user_without_that_right() -> None:
    found, may_not = discovery(state(1)), FakeConnection(redis.exceptions.NoPermissionError("NOPERM"))
    connection = FakeConnection([b"master"])

    set_up_by(Pool("mymaster", found), connection)
    set_up_by(Pool("mymaster", found, redis_connect_func=lambda connection: connection.did.append("theirs")), may_not)

    assert (["on_connect", "ROLE"], ["theirs", "ROLE"]) == (connection.did, may_not.did)


def test_another_sentinel_is_asked_first_after_a_replica_was_named() -> None:
    found = discovery(state(1), state(2))

    with pytest.raises(redis.ConnectionError, match=r"10\.0\.0\.1:1, master by its Sentinel, is a slave now"):
        found.greet(FakeConnection([b"slave"], 1))

    assert ("10.0.0.1", 2) == found.discover_master("mymaster")


def test_connections_to_a_former_master_break_before_the_next_command_but_not_in_the_middle_of_one() -> None:
    pool, connection = Pool("mymaster", discovery(state(2))), FakeConnection([b"master"], 1)
    wire = Wire(connection, "x", pool)
    wire.send("GET")

    pool.find_master()
    wire.send("GET")
    wire.receive()
    wire.receive()

    with pytest.raises(RedisUnavailable, match="x has another master now") as caught:
        wire.send("GET")
    assert not caught.value.may_have_been_applied
    assert wire.is_broken
    assert ["GET", "GET", "disconnect"] == connection.did


def test_a_subscription_leaves_a_former_master_after_any_number_of_messages() -> None:
    pool = Pool("mymaster", discovery(state(2)))
    wire = Wire(FakeConnection([b"message", b"channel", b"lease"], 1), "x", pool)
    wire.hear()
    wire.hear()

    pool.find_master()

    with pytest.raises(RedisUnavailable, match="x has another master now"):
        wire.wait_for_data(1.0)
    assert wire.is_broken


def test_a_readonly_error_of_redis_py_is_known_not_to_have_been_applied() -> None:
    hidden = redis.ConnectionError("The previous master is now a slave")
    hidden.__context__ = redis.ReadOnlyError("You can't write against a read only replica.")
    wire = Wire(FakeConnection(hidden), "x")

    with pytest.raises(RedisUnavailable, match="refuses writes: it is a replica; give ") as caught:
        wire.execute("SET")

    assert not caught.value.may_have_been_applied
    assert wire.is_broken


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("NOREPLICAS Not enough good replicas to write. script: 1, on @user_script:1.", "refuses writes: too few"),
        (
            "Error running script (call to f_1): @user_script:1: -NOREPLICAS Not enough good replicas to write.",
            "refuses writes: too few",
        ),
        (
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            "cannot take writes now: UNBLOCKED",
        ),
    ],
)
def test_a_master_without_required_replicas_or_role_is_reported_as_taking_no_writes(reply: str, reason: str) -> None:
    wire = Wire(FakeConnection(redis.ResponseError(reply)), "x")

    with pytest.raises(RedisUnavailable, match=reason) as caught:
        wire.execute("EVALSHA")

    assert not caught.value.may_have_been_applied
    assert wire.is_broken


def test_links_to_a_single_server_look_for_no_master() -> None:
    link = Link.from_url("redis://127.0.0.1:1/0", 5.0)

    link.look_for_master()

    assert not link.finds_master
