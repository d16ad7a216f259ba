"""Namespaces, serializers, and wrong or missing servers."""

import gc
import socket
import subprocess
import sys
import threading
import weakref
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

import zsched
from tests.documents import PROJECT
from tests.integration.client.calls import SOON, ids
from tests.prefix import RQ
from tests.waiting import ENDS_S, WITHIN_S
from zsched import Client, InvalidSchedule, RedisRefused, RedisUnavailable
from zsched.core.clock import to_ms
from zsched.core.options.choices import Priority
from zsched.embedded import EmbeddedRedis


def test_two_namespaces_with_the_same_ids_do_not_collide(redis_url: str) -> None:
    default, email = Client.from_url(redis_url), Client.from_url(redis_url, "email")

    made = [
        default.schedule("app.task", id="email-welcome", at=SOON),
        email.schedule("app.task", id="welcome", at=SOON),
    ]

    runs = [one.run_id for one in made]
    assert [f"email-welcome-{to_ms(SOON)}", f"welcome-{to_ms(SOON)}-nemail"] == runs
    assert (["email-welcome"], ["welcome"]) == (ids(default.list()), ids(email.list()))
    assert "cancelled" == email.cancel("welcome")
    assert ["email-welcome"] == ids(default.list())
    assert runs[0] == default.run_now("email-welcome")


@pytest.mark.parametrize("namespace", ["", "A", "a-b", "a:b", "x" * 33, "ä", None, "a\n"])
def test_a_bad_namespace_is_refused(redis_url: str, namespace: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^namespace="):
        Client.from_url(redis_url, namespace)


def test_a_namespace_has_one_serializer(redis_url: str) -> None:
    Client.from_url(redis_url).schedule("app.task", id="a", at=SOON, args=(1,), meta={"m": 1})
    other = Client.from_url(redis_url, serializer="json")

    for call in (
        lambda: other.schedule("app.task", at=SOON), lambda: other.schedule("app.task", every=60),
        lambda: other.enqueue("app.task"), lambda: other.schedule_many([{"func": "app.task", "at": SOON}]),
        lambda: other.update("a", args=(2,)),
    ):  # fmt: skip
        with pytest.raises(InvalidSchedule, match=r"^serializer='json': namespace 'default' uses pickle"):
            call()
    assert "a" == other.get("a").id
    assert "cancelled" == other.cancel("a")


def test_a_json_namespace_refuses_what_json_would_reshape(redis_url: str, redis_client: redis.Redis) -> None:
    client = Client.from_url(redis_url, serializer="json")

    for args in (((1,),), ({1: 2},), (float("nan"),), (b"x",)):
        with pytest.raises(InvalidSchedule, match=r"^args="):
            client.schedule("app.task", after=5, args=args)
    assert [] == redis_client.keys("*")


def test_an_unreachable_redis_is_reported_without_the_password() -> None:
    client = Client.from_url("redis://user:s3cr%40t@127.0.0.1:1/0")

    with pytest.raises(RedisUnavailable) as caught:
        client.schedule("app.task", id="a", after=5)

    text = str(caught.value)
    assert "127.0.0.1" in text
    assert "id 'a': nothing was applied; repeating the call with this id is safe" in text
    assert "s3cr" not in text + repr(caught.value.__cause__)
    assert not caught.value.may_have_been_applied


def test_a_silent_redis_is_given_up_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client.from_url(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", timeout_s=0.1)  # timing: it runs out

        for call in (
            lambda: client.schedule("app.task", id="a", after=5),
            lambda: list(client.list()),
            lambda: client.schedule_many([{"func": "app.task", "after": 5}]),
        ):
            with pytest.raises(RedisUnavailable):
                call()


def test_a_wrong_or_missing_password_or_database_is_refused(
    redis_server: EmbeddedRedis, redis_client: redis.Redis
) -> None:
    redis_client.config_set("requirepass", "right")
    try:
        for password in (None, "wr0ng"):
            with pytest.raises(RedisRefused, match=r"check the URL") as caught:
                Client.from_url(redis_server.tcp_url, password=password).schedule("app.task", after=5)
            assert "wr0ng" not in str(caught.value)
        assert (
            "created" == Client.from_url(redis_server.tcp_url, password="right").schedule("app.task", after=5).outcome
        )
    finally:
        redis_client.execute_command("AUTH", "right")
        redis_client.config_set("requirepass", "")

    with pytest.raises(RedisRefused, match="DB index is out of range"):
        Client.from_url(redis_server.tcp_url.replace("/0", "/99")).schedule("app.task", after=5)


def test_a_call_is_refused_with_the_remedy_when_redis_is_out_of_memory(
    client: Client, redis_client: redis.Redis
) -> None:
    client.schedule("app.task", id="a", after=60)
    redis_client.config_set("maxmemory", 1)
    try:
        with pytest.raises(RedisRefused, match=r"it is full \(maxmemory\); free memory"):
            client.schedule("app.task", id="b", after=60)
        assert ["a"] == ids(client.list())
    finally:
        redis_client.config_set("maxmemory", 0)


def test_a_key_of_another_type_raises_redis_refused(client: Client, redis_client: redis.Redis) -> None:
    redis_client.set(f"{RQ}:job:a-{to_ms(SOON)}", "x")
    redis_client.set(f"{RQ}:queue:broken", "x")

    with pytest.raises(RedisRefused, match=r"schedule 'a'.*another type"):
        client.schedule("app.task", id="a", at=SOON)
    with pytest.raises(RedisRefused, match="another type"):
        client.enqueue("app.task", queue="broken")


def test_a_client_reconnects_after_a_restart_of_redis(tmp_path: Path) -> None:
    with EmbeddedRedis() as server:
        client = Client.from_url(server.url, timeout_s=WITHIN_S)
        client.schedule("app.task", id="a", at=SOON)
        server.restart()

        assert client.schedule("app.task", id="b", at=SOON).outcome in ("created", "unchanged", "already_fired")


def test_the_clients_own_settings_of_a_redis_client_are_kept(redis_client: redis.Redis) -> None:
    redis_client.set("theirs", "x")

    Client(redis_client).schedule("app.task", id="a", at=SOON)

    assert b"x" == redis_client.get("theirs")
    assert ["a"] == ids(Client(redis_client).list())


@pytest.mark.parametrize("zone", ["Pacific/Chatham", "America/New_York", "Nonsense/Zone"])
def test_the_zone_of_the_machine_changes_nothing(redis_url: str, zone: str) -> None:
    code = """
import sys
from datetime import datetime, UTC
from zsched import Client
client = Client.from_url(sys.argv[1])
client.schedule("app.task", id="a", at=datetime(2031, 7, 1, 9), tz="Asia/Seoul")
client.schedule("app.task", id="b", at=datetime(2031, 7, 1, 9, tzinfo=UTC))
client.schedule("app.task", id="c", cron="0 9 1 7 *", tz="Europe/London")
client.schedule("app.task", id="d", rrule="FREQ=YEARLY;BYMONTH=7;BYMONTHDAY=1", starts=datetime(2031, 1, 1), tz="UTC")
start = datetime(2031, 1, 1, tzinfo=UTC)
print(*(client.preview(id, n=1, start=start)[0].astimezone(UTC).isoformat() for id in "abcd"))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, redis_url],
        capture_output=True, text=True, timeout=ENDS_S, check=False,
        env={"TZ": zone, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(PROJECT), "LC_ALL": "C"},
    )  # fmt: skip

    assert ("", 0) == (done.stderr, done.returncode)
    expected = ["2031-06-30T00:00", "2031-07-01T09:00", "2031-07-01T08:00", "2031-07-01T00:00"]
    assert expected[1:] == [text[:16] for text in done.stdout.split()][1:]
    assert "2031-07-01T00:00" == done.stdout.split()[0][:16]


def test_threads_can_share_a_client(client: Client) -> None:
    def put(first: int) -> None:
        for n in range(first, first + 25):
            client.schedule("app.task", id=f"i-{n}", at=SOON)

    threads = [threading.Thread(target=put, args=(first,)) for first in range(0, 100, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)

    assert 100 == len(list(client.list()))


def test_an_overview_has_the_counts_of_schedules(client: Client) -> None:
    client.schedule("app.task", id="a", at=SOON, priority="high")
    client.schedule("app.task", id="r", every=60)
    client.schedule("app.task", id="p", at=SOON)
    client.pause("p")
    client.schedule("app.task", id="late", at=SOON - timedelta(days=3), allow_past=True)

    told = client._overview()

    assert {Priority.HIGH: 1, Priority.NORMAL: 2, Priority.LOW: 0} == told.waiting
    assert {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 0} == told.overdue
    assert (1, 1, 0, None, 5) == (told.recurring, told.paused, told.quarantined, told.leader, told.log_length)
    assert to_ms(SOON - timedelta(days=3)) == told.oldest_due_ms


def test_an_unreferenced_client_is_freed_at_once(redis_url: str) -> None:
    """Its connections end with it. In a cycle of references, both would wait for the garbage collector."""
    client = zsched.Client.from_url(redis_url)  # not the one of the event loop, which a thread holds
    client.schedule("app.task", id="a", after=60)
    client.schedule("app.task", id="b", every=60)
    held = weakref.ref(client)
    gc.disable()
    try:
        del client
        assert held() is None
    finally:
        gc.enable()
