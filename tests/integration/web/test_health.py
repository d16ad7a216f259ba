"""Status, daemons, queues and occurrences over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import redis

from tests.faults.processes import eventually
from tests.faults.threads import DaemonThread
from tests.integration.client.ground import HOUR, pass_time
from tests.integration.web.ground import Web
from zsched import Client


def test_the_status_is_that_of_the_command(web: Web, http: httpx.Client, daemon: DaemonThread) -> None:
    eventually(lambda: http.get("/status").json()["leader"])

    told, command = http.get("/status").json(), web.zsched.json("status")

    assert told.keys() == command.keys()
    assert (told["namespace"], told["leader"], told["redis"]) == (
        command["namespace"], command["leader"], command["redis"],
    )  # fmt: skip


def test_a_namespace_without_a_daemon_is_not_healthy(http: httpx.Client) -> None:
    told = http.get("/status").json()

    assert not told["healthy"]
    assert told["alarms"][0]["remedy"]


def test_the_daemons_are_listed_with_their_roles(http: httpx.Client, daemon: DaemonThread) -> None:
    eventually(lambda: http.get("/daemons").json()["daemons"])

    [one] = http.get("/daemons").json()["daemons"]

    assert ("leader", daemon.daemon.id) == (one["role"], one["id"])


def test_the_queues_in_use_tell_what_waits_and_who_listens(
    http: httpx.Client, client: Client, redis_client: redis.Redis
) -> None:
    client.enqueue("app.x", queue="mail")
    client.schedule("app.x", id="a", after=30, queue="soon")

    found = {each["queue"]: each for each in http.get("/queues").json()["queues"]}

    assert {"mail", "soon"} == found.keys()
    assert (1, []) == (found["mail"]["waiting"], found["mail"]["workers"])
    assert (0, {"1m": 1, "10m": 1, "60m": 1}) == (found["soon"]["waiting"], found["soon"]["due_within"])


def test_a_limited_caller_sees_its_queues_only(web: Web, client: Client) -> None:
    client.enqueue("app.x", queue="mail")
    client.enqueue("app.x", queue="pay")
    with web.client("shop", "scheduler", queues=("mail",)) as shop:
        assert ["mail"] == [each["queue"] for each in shop.get("/queues").json()["queues"]]
        assert 403 == shop.get("/status").status_code
        assert 200 == shop.get("/daemons").status_code


def test_occurrences_are_past_ones_with_outcomes_and_the_next_times(
    http: httpx.Client, client: Client, redis_client: redis.Redis, daemon: DaemonThread
) -> None:
    client.schedule("app.x", id="a", every=HOUR)
    pass_time(redis_client, HOUR)
    eventually(lambda: http.get("/schedules/a/occurrences").json()["past"])

    told = http.get("/schedules/a/occurrences", params={"coming": 3}).json()

    assert ["fired"] == [each["what"] for each in told["past"]]
    assert "queued" == told["past"][0]["run"]["status"]
    times = [datetime.fromisoformat(each) for each in told["coming"]]
    assert [HOUR, HOUR] == [times[1] - times[0], times[2] - times[1]]


def test_a_fired_one_shot_has_only_past_occurrences(http: httpx.Client, client: Client, daemon: DaemonThread) -> None:
    client.schedule("app.x", id="a", after=0)
    eventually(lambda: http.get("/schedules/a/occurrences").json()["past"])

    assert [] == http.get("/schedules/a/occurrences").json()["coming"]


def test_the_timeline_counts_what_happened_and_what_is_expected(
    http: httpx.Client, client: Client, redis_client: redis.Redis, daemon: DaemonThread
) -> None:
    client.schedule("app.x", id="past", after=0)
    client.schedule("app.x", id="once", after=30 * 60)
    client.schedule("app.x", id="often", every=HOUR)
    eventually(lambda: http.get("/schedules/past/occurrences").json()["past"])
    now = datetime.fromtimestamp(redis_client.time()[0], UTC)
    span = {"from": (now - HOUR).isoformat(), "to": (now + 3 * HOUR).isoformat(), "bucket": "1h"}

    told = http.get("/occurrences", params=span).json()

    assert 1 == sum(bucket.get("fired", 0) for bucket in told["buckets"])
    assert 1 + 2 <= sum(bucket.get("expected", 0) for bucket in told["buckets"]) <= 1 + 3
    assert (3600, 0) == (told["bucket_s"], told["left_out"])
    assert told["complete_since"] == told["from"]
    for bad, option in (({"to": span["from"]}, "to"), ({"bucket": "1s"}, "bucket"), ({"from": "noon"}, "from")):
        answer = http.get("/occurrences", params=span | bad)
        assert (422, option) == (answer.status_code, answer.json()["option"])
