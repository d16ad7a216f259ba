"""The notifier of a real daemon, with real receivers: webhook, Slack, mail, Sentry, a dead-man's switch, monitors."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import Queue
from sentry_sdk.envelope import Envelope

from tests.builders.daemons import DaemonThread
from tests.builders.receivers import Receiver, Request, mail_server
from tests.builders.workers import work_off
from tests.waiting import eventually
from zsched import Client
from zsched.daemon import notifier, teller
from zsched.health.status import StatusView
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.overview import read_overview

Notified = Callable[..., DaemonThread]
Fail = Callable[..., None]
FAILS = "os.remove"  # of a file that is not there
SECRET = "whsec_c2VjcmV0"
KEYS = Keys("default")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teller, "LOOK_S", 0.05)
    monkeypatch.setattr(notifier, "_HEALTH_S", 0.05)
    monkeypatch.setattr(notifier, "_NOTED_MS", 0.0)


@pytest.fixture
def notified(redis_url: str, client: Client) -> Iterator[Notified]:
    """A function that starts a daemon with sinks, and returns when it leads."""
    with ExitStack() as stack:

        def started(**sinks: dict[str, Any]) -> DaemonThread:
            tables = {name: {"every_s": 0.2, "on": ("failed",)} | table for name, table in sinks.items()}
            daemon = stack.enter_context(DaemonThread(redis_url, notify=tables))
            daemon.wait_for("term_began")
            return daemon

        yield started


@pytest.fixture
def fail(client: Client, redis_client: redis.Redis) -> Fail:
    """A function that lets runs fail, each of a schedule of its own, and waits until RQ has executed them."""

    def let_fail(*ids: str, queue: str = "default", func: str = FAILS, **options: Any) -> None:
        for id in ids:
            client.schedule(func, args=(f"/nowhere/<{len(id)}>&",), id=id, after=0, queue=queue, **options)
        waiting = Queue(queue, connection=redis_client)
        eventually(lambda: len(waiting) == len(ids))
        work_off(waiting, redis_client)

    return let_fail


def test_a_webhook_gets_one_signed_message_for_equal_failures(
    notified: Notified, receiver: Receiver, fail: Fail, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    notified(ops={"kind": "webhook", "url": f"{receiver.url}/hook", "secret_file": str(secret), "every_s": 3.0})

    fail(*(f"job-{number}" for number in range(12)))

    eventually(lambda: sum(one["count"] for one in receiver.messages) == 12)
    [message] = receiver.messages
    assert receiver.taken[0].is_signed_with(SECRET)
    assert ("failed", FAILS, 12) == (message["kind"], message["func"], message["count"])
    assert message["text"].startswith("os.remove failed 12 times: FileNotFoundError")
    assert 10 == len({event["run_id"] for event in message["events"]})
    assert "and 2 more" == message["details"][-1]


def test_a_message_that_is_refused_comes_again_with_the_same_id_and_status_names_the_sink(
    notified: Notified, receiver: Receiver, fail: Fail, link: Link
) -> None:
    receiver.answer = lambda request: (503, b"no room")
    notified(ops={"kind": "webhook", "url": receiver.url})

    fail("job")

    eventually(lambda: any(sink.error for sink in read_overview(link, KEYS).sinks))
    [sink] = read_overview(link, KEYS).sinks
    assert ("ops", f"{receiver.url} answered 503: no room") == (sink.name, sink.error)
    receiver.answer = lambda request: (200, b"")
    eventually(lambda: receiver.taken)
    assert 1 == len({request.json["id"] for request in receiver.seen})
    eventually(lambda: read_overview(link, KEYS).sinks[0].last and not read_overview(link, KEYS).sinks[0].error)


def test_a_sink_that_hangs_delays_no_other_sink(notified: Notified, receiver: Receiver, fail: Fail) -> None:
    free = threading.Event()

    def answer(request: Request) -> tuple[int, bytes]:
        if request.path == "/slow":
            free.wait()
        return 200, b""

    receiver.answer = answer
    notified(slow={"kind": "webhook", "url": f"{receiver.url}/slow"}, quick={"kind": "slack", "url": receiver.url})

    fail("first")
    eventually(lambda: [one for one in receiver.taken if one.path == "/"])
    fail("second")
    eventually(lambda: len([one for one in receiver.taken if one.path == "/"]) == 2)

    assert not [one for one in receiver.taken if one.path == "/slow"]
    free.set()
    eventually(lambda: [one for one in receiver.taken if one.path == "/slow"])


def test_a_sink_gets_only_the_schedules_of_its_filters(notified: Notified, receiver: Receiver, fail: Fail) -> None:
    filters = {"tags": ("billing*",), "queues": ("email",), "funcs": ("os.*",), "owners": ("shop",)}
    notified(
        **{name: {"kind": "webhook", "url": f"{receiver.url}/{name}", name: globs} for name, globs in filters.items()},
        all={"kind": "webhook", "url": f"{receiver.url}/all", **filters},
    )

    fail("tagged", tags=["billing-eu"])
    fail("queued", queue="email")
    fail("every", queue="email", tags=["billing"], owner="shop")

    eventually(lambda: {one.path for one in receiver.taken} >= {"/all", "/owners"})
    eventually(lambda: 3 == sum(one.json["count"] for one in receiver.taken if one.path == "/funcs"))
    eventually(lambda: 2 == sum(one.json["count"] for one in receiver.taken if one.path == "/tags"))
    eventually(lambda: 2 == sum(one.json["count"] for one in receiver.taken if one.path == "/queues"))
    got = {
        name: {event["id"] for one in receiver.taken if one.path == f"/{name}" for event in one.json["events"]}
        for name in (*filters, "all")
    }
    assert {"every"} == got["owners"] == got["all"]
    assert ({"tagged", "every"}, {"queued", "every"}) == (got["tags"], got["queues"])


def test_a_known_failure_is_not_sent(notified: Notified, receiver: Receiver, fail: Fail, client: Client) -> None:
    client.ack(func=FAILS, error="FileNotFoundError*", for_="1h", note="moves next week")
    notified(ops={"kind": "webhook", "url": receiver.url})

    fail("known", "KNOWN")
    fail("other", queue="email", func="os.rmdir")

    eventually(lambda: receiver.messages)
    assert ["os.rmdir"] == [message["func"] for message in receiver.messages]


def test_a_missed_deadline_is_sent_with_the_state_of_its_run(
    notified: Notified, receiver: Receiver, client: Client
) -> None:
    notified(ops={"kind": "webhook", "url": receiver.url, "on": ("deadline",)})

    client.schedule("app.tasks.report", id="report", after=0, done_by=1, queue="nobody")

    eventually(lambda: receiver.messages)
    [message] = receiver.messages
    assert ("deadline", 1) == (message["kind"], message["count"])
    assert message["text"].startswith("app.tasks.report was not done by its deadline: ")


def test_slack_and_mails_get_the_text_and_a_repeat_of_a_mail_has_the_same_id(
    notified: Notified, receiver: Receiver, fail: Fail
) -> None:
    with mail_server() as (url, mails):
        notified(
            chat={"kind": "slack", "url": receiver.url},
            mail={"kind": "email", "url": url, "to": ("ann@example.com", "bob@example.com"), "from": "z@example.com"},
        )

        fail("job")

        eventually(lambda: mails and receiver.taken)
    assert "os.remove failed: FileNotFoundError" in receiver.taken[0].json["text"]
    assert "/nowhere/&lt;3&gt;&amp;" in receiver.taken[0].json["text"]
    [mail] = mails
    assert ("z@example.com", "ann@example.com, bob@example.com") == (mail["From"], mail["To"])
    assert mail["Subject"].startswith("os.remove failed: FileNotFoundError")
    assert mail["Message-ID"].endswith("@zsched>")


def test_sentry_gets_an_event_that_its_own_library_reads(notified: Notified, receiver: Receiver, fail: Fail) -> None:
    notified(sentry={"kind": "sentry", "url": receiver.url.replace("//", "//key@") + "/42"})

    fail("job")

    eventually(lambda: receiver.taken)
    [request] = receiver.taken
    event = Envelope.deserialize(request.body).get_event()
    assert event is not None
    assert ("/api/42/envelope/", "error") == (request.path, event["level"])
    assert "sentry_key=key" in request.headers["x-sentry-auth"]
    assert event["logentry"]["formatted"].startswith("os.remove failed: FileNotFoundError")  # type: ignore[index]


def test_a_sink_gets_the_problems_of_status_when_they_change(
    notified: Notified, receiver: Receiver, client: Client, redis_client: redis.Redis
) -> None:
    notified(ops={"kind": "webhook", "url": receiver.url, "on": ("unhealthy",)})

    redis_client.hset(KEYS.quarantine(), "broken", "normal 1 1 a test")
    eventually(lambda: receiver.messages)
    redis_client.delete(KEYS.quarantine())
    eventually(lambda: len(receiver.messages) == 2)

    ill, well = receiver.messages
    assert ("unhealthy", "quarantined") == (ill["kind"], ill["reason"])
    assert "1 schedule in quarantine" in ill["text"]
    assert "zsched default is healthy again" == well["text"]


def pings(receiver: Receiver) -> int:
    return len([one for one in receiver.taken if one.method == "GET"])


def test_a_ping_comes_while_the_daemons_are_healthy_and_none_while_redis_takes_no_writes(
    notified: Notified, receiver: Receiver, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_well, when_ill = notifier._is_well, list[int]()

    def watched(view: StatusView) -> bool:
        found = is_well(view)
        if not found:
            when_ill.append(pings(receiver))
        return found

    monkeypatch.setattr(notifier, "_is_well", watched)
    notified(alive={"kind": "ping", "url": receiver.url})
    eventually(lambda: pings(receiver) > 2)

    redis_client.config_set("min-replicas-to-write", 1)
    try:
        eventually(lambda: len(when_ill) > 2)
    finally:
        redis_client.config_set("min-replicas-to-write", 0)

    assert 1 == len(set(when_ill)), "a ping came between two looks"
    eventually(lambda: pings(receiver) > when_ill[-1])


def test_monitors_of_sentry_check_in_at_each_end_with_trigger_and_zone(
    notified: Notified, receiver: Receiver, client: Client, redis_client: redis.Redis, tmp_path: Path
) -> None:
    token, dsn = tmp_path / "token", receiver.url.replace("//", "//key@") + "/42"
    token.write_text("api-token")
    notified(
        sentry={"kind": "sentry", "url": dsn, "monitors": f"{receiver.url}/org", "secret_file": str(token)},
    )
    client.schedule(FAILS, args=("/nowhere",), id="Nightly_Report", cron="0 6 * * *", tz="Asia/Seoul", timeout=600)

    client.run_now("Nightly_Report")
    waiting = Queue(connection=redis_client)
    eventually(lambda: len(waiting) == 1)
    work_off(waiting, redis_client)

    eventually(lambda: [one for one in items(receiver) if "monitor_slug" in one])
    [check_in] = [one for one in items(receiver) if "monitor_slug" in one]
    config = check_in["monitor_config"]
    assert "error" == check_in["status"]
    assert check_in["monitor_slug"].startswith("default-nightly_report-")
    assert ({"type": "crontab", "value": "0 6 * * *"}, "Asia/Seoul", 10) == (
        config["schedule"], config["timezone"], config["max_runtime"],
    )  # fmt: skip
    client.cancel("Nightly_Report")
    eventually(lambda: [one for one in receiver.taken if one.method == "DELETE"])
    assert f"/org/monitors/{check_in['monitor_slug']}/" == receiver.taken[-1].path
    assert "Bearer api-token" == receiver.taken[-1].headers["authorization"]


def items(receiver: Receiver) -> list[Any]:
    found = []
    for request in receiver.taken:
        if request.path.endswith("/envelope/"):
            found += [json.loads(item.get_bytes()) for item in Envelope.deserialize(request.body).items]
    return found


def test_monitors_of_healthchecks_are_made_with_the_rule_and_removed_with_it(
    notified: Notified, receiver: Receiver, client: Client, redis_client: redis.Redis, tmp_path: Path
) -> None:
    def answer(request: Request) -> tuple[int, bytes]:
        check = {"ping_url": f"{receiver.url}/ping/uuid-1"}
        return 200, json.dumps({"checks": [check]} if request.method == "GET" else check).encode()

    receiver.answer, key = answer, tmp_path / "key"
    key.write_text("api-key")
    alive = {"kind": "ping", "url": f"{receiver.url}/alive", "monitors": receiver.url, "secret_file": str(key)}
    notified(alive=alive)

    client.schedule("os.getpid", id="hourly", every="1h")
    eventually(lambda: of_api(receiver))
    client.run_now("hourly")
    waiting = Queue(connection=redis_client)
    eventually(lambda: len(waiting) == 1)
    work_off(waiting, redis_client)
    eventually(lambda: "/ping/uuid-1" in [one.path for one in receiver.taken])
    client.schedule("os.getpid", id="hourly", rrule="FREQ=MONTHLY")  # which it does not understand
    eventually(lambda: [one for one in receiver.taken if one.method == "DELETE"])

    [made] = [one for one in of_api(receiver) if one.method == "POST"]
    assert ("api-key", "default-hourly", 3600) == (made.headers["x-api-key"], made.json["slug"], made.json["timeout"])
    assert "/api/v3/checks/uuid-1" == of_api(receiver)[-1].path


def of_api(receiver: Receiver) -> list[Request]:
    return [one for one in receiver.taken if one.path.startswith("/api/v3/")]
