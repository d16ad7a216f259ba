"""Links to a Redis Cluster without a real one: URLs and settings, the nodes that they ask, and the answers."""

from typing import Any

import pytest
import redis
from redis.exceptions import AskError, ClusterDownError, MovedError, TryAgainError
from redis.sentinel import MasterNotFoundError

from tests.prefix import needs_prefix
from zsched import Client, ConfigError, RedisRefused, RedisUnavailable
from zsched.cluster import ClusterRedis
from zsched.config.settings import load_settings
from zsched.config.urls import ClusterUrl, address_of
from zsched.errors import SlotMoves
from zsched.storage.cluster import ClusterPool, Redirected, SlotOwner
from zsched.storage.connection import REST_S, Link, Wire
from zsched.storage.keys import Keys

SLOT = 5718  # of "default"
OWNER, OTHER = ("10.0.0.1", 7001), ("10.0.0.2", 7002)
URL = "redis+cluster://me:secret@h1,[::1]:7?socket_timeout=2&protocol=3"
KEY = "zsched:{default}:meta"

Slots = list[Any]


def slots(owner: tuple[str | None, int] = OWNER) -> Slots:
    """Return a reply to CLUSTER SLOTS: *owner* has the slot, OTHER the rest."""
    host, port = owner
    replica = [b"10.0.0.9", 7009, b"id"]
    other = [OTHER[0].encode(), OTHER[1], b"id", []]
    owned = [None if host is None else host.encode(), port, b"id", []]
    return [[0, 5000, other], [5001, 9000, owned, replica], [9001, 16383, other]]


class Asked(SlotOwner):
    """A slot owner that takes its *answers* by node from the test."""

    def __init__(self, answers: dict[tuple[str, int], Slots | Exception]) -> None:
        super().__init__(answers, KEY, is_tls=False, options={})
        self.answers, self.asked = answers, list[tuple[str, int]]()

    def _ask(self, node: tuple[str, int]) -> Slots:
        self.asked.append(node)
        answer = self.answers.get(node, ConnectionRefusedError("Connection refused"))
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeConnection:
    """A connection to *port* of OWNER that answers *reply*."""

    def __init__(self, reply: Any = 1, port: int = OWNER[1]) -> None:
        self.host, self.port, self._reply = OWNER[0], port, reply
        self.did: list[str] = []

    def on_connect(self) -> None:
        self.did.append("on_connect")

    def send_command(self, *command: str, check_health: bool = True) -> None:
        self.did.append(command[0])

    def send_packed_command(self, packed: list[bytes], check_health: bool = True) -> None:
        self.did.append(packed[0].split(b"\r\n")[2].decode())

    def read_response(self) -> Any:
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply

    def disconnect(self) -> None:
        self.did.append("disconnect")


@pytest.mark.parametrize(
    ("url", "nodes", "plain"),
    [
        ("redis+cluster://h", [("h", 6379)], "redis:///0"),
        ("redis+cluster://h1:1,h2/", [("h1", 1), ("h2", 6379)], "redis:///0"),
        ("redis+cluster://[::1]:7,h/0", [("::1", 7), ("h", 6379)], "redis:///0"),
        ("rediss+cluster://u:p%40w@h?ssl_ca_certs=/ca", [("h", 6379)], "rediss://u:p%40w@/0?ssl_ca_certs=/ca"),
    ],
)
def test_a_cluster_url_is_parsed_into_its_nodes(url: str, nodes: list[tuple[str, int]], plain: str) -> None:
    parsed = ClusterUrl.parse(url)

    assert (tuple(nodes), plain) == (parsed.nodes, parsed.plain)


def test_nodes_in_the_settings_become_a_url_and_an_address_without_order() -> None:
    env = {"ZSCHED_REDIS_CLUSTER": "B:1,a", "ZSCHED_REDIS_URL": "rediss://u:p@/0"}

    url = load_settings(env=env).redis.url

    assert "rediss+cluster://u:p@B:1,a" == url
    assert "cluster:a:6379,b:1/0" == address_of(url) == address_of("redis+cluster://a,b:1/0")


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"URL": "redis://h/0"}, "ZSCHED_REDIS_URL, ZSCHED_REDIS_CLUSTER: it says where Redis is, and so does cluster"),
        ({"URL": "redis:///3"}, "a Redis Cluster has only database 0"),
        ({"SENTINELS": "s", "MASTER": "m"}, "ZSCHED_REDIS_CLUSTER: a Cluster has no Sentinels"),
    ],
)
def test_settings_that_contradict_the_nodes_are_refused(env: dict[str, str], message: str) -> None:
    given = {f"ZSCHED_REDIS_{name}": value for name, value in (env | {"CLUSTER": "a,b"}).items()}

    with pytest.raises(ConfigError, match=message):
        load_settings(env=given)


@needs_prefix
def test_a_link_names_the_nodes_without_the_password_and_sends_nothing_twice() -> None:
    link = Link.from_url(URL, 5.0, keys=Keys("default", "{default}:rq"))

    options = link.pool.connection_kwargs
    assert "redis+cluster://h1:6379,[::1]:7" == link.where
    assert link.finds_master
    assert link.is_to_cluster
    assert (2.0, 2, 0, "secret") == (
        options["socket_timeout"], options["protocol"], options["retry"].get_retries(), options["password"]
    )  # fmt: skip
    assert "db" not in options


@needs_prefix
def test_keys_in_two_slots_are_refused_with_both_named() -> None:
    with pytest.raises(ConfigError, match=r"'default' is in slot 5718 .* prefix 'rq' spreads .* '\{default\}:rq'"):
        Client.from_url("redis+cluster://h", rq_prefix="rq")
    with pytest.raises(ConfigError, match=r"prefix '\{x\}:rq' puts RQ's keys in slot 16287"):
        Client.from_url("redis+cluster://h", rq_prefix="{x}:rq")


def test_the_cluster_client_of_redis_py_is_refused_with_the_alternative() -> None:
    says = r"redis=RedisCluster: it may send a command twice; use Client\.from_url\('redis\+cluster"
    with pytest.raises(ConfigError, match=says):
        Client(object.__new__(redis.RedisCluster))


@needs_prefix
def test_the_cluster_client_of_rq_can_be_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQ_KEY_PREFIX", "{default}:rq")
    theirs = ClusterRedis.from_url("redis+cluster://h1,h2")

    link = Link.adopt(theirs)

    assert theirs.connection_pool.connection_kwargs["retry"].get_retries() > 0
    assert 0 == link.pool.connection_kwargs["retry"].get_retries()
    assert ("redis+cluster://h1:6379,h2:6379", True) == (link.where, link.is_to_cluster)


@pytest.mark.parametrize(("said", "owner"), [(OWNER, OWNER), ((None, 7001), ("seed", 7001)), (("", 1), ("seed", 1))])
def test_the_owner_of_the_slot_is_found_and_without_a_host_is_on_the_asked_host(
    said: tuple[str | None, int], owner: tuple[str, int]
) -> None:
    found = Asked({("seed", 1): slots(said)})

    assert owner == found.discover_master("")


def test_silent_nodes_are_skipped_and_the_node_that_answered_is_asked_first_and_nodes_named_by_it_last() -> None:
    found = Asked({("dead", 1): ConnectionRefusedError("no"), ("seed", 2): slots()})

    assert OWNER == found.discover_master("")
    assert OWNER == found.discover_master("")
    assert [("dead", 1), ("seed", 2), ("seed", 2)] == found.asked

    found.answers = {OTHER: slots(OTHER)}  # all seeds are dead
    assert OTHER == found.discover_master("")


def test_a_slot_without_an_owner_is_an_error_with_the_answer_of_every_node() -> None:
    disabled = redis.ResponseError("This instance has cluster support disabled")

    with pytest.raises(MasterNotFoundError) as caught:
        Asked({("a", 1): disabled, ("b", 2): [[0, 1, [b"h", 1]]]}).discover_master("")

    answers = "who owns slot 5718 (a:1: This instance has cluster support disabled; b:2: no node has slot"
    assert answers in str(caught.value)


def test_a_wrong_password_is_reported_unless_a_node_has_another_problem() -> None:
    refused, gone = redis.AuthenticationError("WRONGPASS"), ConnectionRefusedError("Connection refused")

    with pytest.raises(redis.AuthenticationError, match="WRONGPASS"):
        Asked({("a", 1): refused, ("b", 2): refused}).discover_master("")
    for other in (gone, [[0, 1, [b"h", 1]]]):
        with pytest.raises(MasterNotFoundError, match="WRONGPASS"):
            Asked({("a", 1): refused, ("b", 2): other}).discover_master("")


def test_a_node_named_by_moved_is_connected_and_then_asked_first() -> None:
    found = Asked({("seed", 2): slots(), OTHER: slots(OTHER)})

    with pytest.raises(Redirected, match=r"10\.0\.0\.1:7001 no longer owns slot 5718, but 10\.0\.0\.2:7002"):
        found.greet(FakeConnection(MovedError(f"{SLOT} 10.0.0.2:7002")))

    assert OTHER == found.discover_master("")
    assert [] == found.asked
    assert OTHER == found.discover_master("")
    assert [OTHER] == found.asked


def test_the_owner_of_a_slot_that_is_moved_or_whose_acl_lacks_exists_is_the_owner() -> None:
    for reply in (0, AskError(f"{SLOT} 10.0.0.2:7002"), redis.exceptions.NoPermissionError("NOPERM")):
        Asked({}).greet(FakeConnection(reply))


def test_another_node_is_asked_first_after_a_node_without_majority() -> None:
    found = Asked({("a", 1): slots(), ("b", 2): slots(OTHER)})

    with pytest.raises(redis.ConnectionError, match="The cluster is down"):
        found.greet(FakeConnection(ClusterDownError("The cluster is down")))

    assert OTHER == found.discover_master("")


def wire_to(reply: Any) -> tuple[Wire, FakeConnection, ClusterPool]:
    connection, pool = FakeConnection(reply), ClusterPool(Asked({("seed", 2): slots()}))
    return Wire(connection, "x", pool), connection, pool


def test_a_moved_reply_breaks_all_connections_of_the_link_and_nothing_was_applied() -> None:
    wire, connection, pool = wire_to(MovedError(f"{SLOT} 10.0.0.2:7002"))
    idle = Wire(FakeConnection(), "x", pool)

    with pytest.raises(RedisUnavailable, match=r"slot 5718 .* moved to 10\.0\.0\.2:7002") as caught:
        wire.execute("GET", KEY)

    assert not caught.value.may_have_been_applied
    assert wire.is_broken
    assert ["GET", "disconnect"] == connection.did
    with pytest.raises(RedisUnavailable, match="has another master now"):
        idle.send("GET", KEY)


def test_commands_sent_behind_a_refused_command_may_have_been_applied() -> None:
    wire, _, _ = wire_to(TryAgainError("Multiple keys request during rehashing of slot"))
    wire.send("GET", KEY)
    wire.send("GET", KEY)

    with pytest.raises(SlotMoves) as caught:
        wire.receive()

    assert caught.value.may_have_been_applied


@pytest.mark.parametrize("reply", [AskError(f"{SLOT} 10.0.0.2:7002"), TryAgainError("Multiple keys request")])
def test_a_moving_slot_raises_slot_moves_and_nothing_was_applied(reply: Exception) -> None:
    wire, _, _ = wire_to(reply)

    with pytest.raises(SlotMoves, match="is being moved to another node; it is used again") as caught:
        wire.execute("EVALSHA")

    assert not caught.value.may_have_been_applied
    assert wire.is_broken


def test_a_command_rests_before_it_is_sent_again_while_a_slot_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    link, errors, rests = Link.from_url("redis://h", 5.0), [SlotMoves("it moves"), SlotMoves("it moves")], list[float]()

    def attempt(*_: Any) -> str:
        if errors:
            raise errors.pop()
        return "done"

    monkeypatch.setattr(link, "_attempt", attempt)
    monkeypatch.setattr(link, "pause", rests.append)

    assert ("done", [REST_S] * 2) == (link.execute("GET", KEY), rests)


def test_a_key_of_another_slot_is_refused_and_the_connection_stays() -> None:
    wire, _, pool = wire_to(MovedError("1 10.0.0.2:7002"))

    with pytest.raises(RedisRefused, match="a key is in slot 1, which is elsewhere; other slots are not asked"):
        wire.execute("GET", "other")

    assert not wire.is_broken
    assert pool.master_address is None


def test_a_plain_connection_to_a_node_is_refused_with_the_url_to_write() -> None:
    wire = Wire(FakeConnection(MovedError(f"{SLOT} 10.0.0.2:7002")), "x")

    with pytest.raises(RedisRefused, match=r"\[redis\] url = redis\+cluster://host:6379,host2:6379"):
        wire.execute("GET", KEY)
