"""A running ``zsched web`` tells of the scheduler and of itself: status, daemons, queues, times, metrics, probes."""

from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from shlex import quote

import httpx
import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families
from rq import Queue

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.builders.workers import work_off
from tests.clocks import pass_time
from tests.integration.client.calls import HOUR
from tests.waiting import eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.redis
Start = Callable[..., Web]
SCHEDULE, LIST = "/api/v1/schedules/{id}", "/api/v1/schedules"


def test_the_status_is_that_of_the_command_and_names_a_missing_daemon(
    web: Web, http: httpx.Client, client: Client, redis_url: str
) -> None:
    alone = http.get("/status").json()
    with DaemonThread(redis_url) as daemon:
        eventually(lambda: http.get("/status").json()["leader"])
        told, command = http.get("/status").json(), web.zsched.json("status")
        [one] = eventually(lambda: http.get("/daemons").json()["daemons"])

    assert not alone["healthy"]
    assert alone["alarms"][0]["remedy"]
    assert told.keys() == command.keys()
    assert [command[name] for name in ("namespace", "leader", "redis")] == [
        told[name] for name in ("namespace", "leader", "redis")
    ]
    assert ("leader", daemon.daemon.id) == (one["role"], one["id"])


def test_the_remedy_of_a_story_is_the_same_at_every_door_and_reaches_its_redis(
    web: Web, http: httpx.Client, client: Client, redis_url: str
) -> None:
    pushed = client.enqueue("app.x", queue="mail")
    with web.browser("eve") as eve:
        pages = [unescape(eve.get(path).text) for path in (f"/schedules/{pushed.id}", f"/runs/{pushed.run_id}")]
    over_http, command = http.get(f"/schedules/{pushed.id}/story").json(), web.zsched.json("why", pushed.id)

    remedy = client.why(pushed.id).verdict.remedy
    assert f"RQ_REDIS_URL={quote(redis_url)} rq worker mail" in remedy
    assert [remedy] * 2 == [told["verdict"]["remedy"] for told in (over_http, command)]
    assert all(remedy in page for page in pages)


def test_queues_in_use_tell_what_waits_and_who_listens(http: httpx.Client, client: Client) -> None:
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
    client.schedule("app.x", id="once", after=0)
    pass_time(redis_client, HOUR)
    for id in ("a", "once"):
        eventually(lambda id=id: http.get(f"/schedules/{id}/occurrences").json()["past"])

    told = http.get("/schedules/a/occurrences", params={"coming": 3}).json()

    assert ["fired"] == [each["what"] for each in told["past"]]
    assert "queued" == told["past"][0]["run"]["status"]
    times = [datetime.fromisoformat(each) for each in told["coming"]]
    assert [HOUR, HOUR] == [times[1] - times[0], times[2] - times[1]]
    assert [] == http.get("/schedules/once/occurrences").json()["coming"]


def test_a_failed_run_has_what_became_of_its_retry_in_every_list(
    http: httpx.Client, client: Client, redis_client: redis.Redis, daemon: DaemonThread
) -> None:
    run_id = client.enqueue("builtins.int", args=["x"], id="a").run_id
    work_off(Queue("default", connection=redis_client), redis_client)
    eventually(lambda: http.get("/runs", params={"status": "failed"}).json()["runs"])
    before = http.get(f"/runs/{run_id}").json()
    retry = client.retry(run_id or "")

    lists = [
        http.get("/runs", params={"status": "failed"}).json()["runs"],
        [http.get(f"/runs/{run_id}").json()],
        [one for one in http.get("/schedules/a/occurrences").json()["past"] if one["what"] == "enqueued"],
    ]

    assert before["retried"] is None
    told = [[(one["retried"]["id"], one["retried"]["status"]) for one in found] for found in lists]
    assert [[(retry, "queued")]] * 3 == told


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
    [row] = http.get("/occurrences", params=span | {"by": "schedule", "match": "often"}).json()["rows"]
    assert ("often", {"expected"}) == (row["name"], {word for each in row["buckets"] for word in each} - {"at"})
    for bad, option in (({"to": span["from"]}, "to"), ({"bucket": "1s"}, "bucket"), ({"from": "noon"}, "from")):
        answer = http.get("/occurrences", params=span | bad)
        assert (422, option) == (answer.status_code, answer.json().get("option")), answer.text


def scraped(web: Web, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by the values of *labels*."""
    text = web.get("/metrics").raise_for_status().text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {tuple(each.labels[label] for label in labels): each.value for each in samples if each.name == name}


def test_requests_count_by_route_and_never_by_path(start_web: Start) -> None:
    web = start_web()
    with web.client() as http:
        for name in ("a", "b"):
            http.put(f"/schedules/{name}", json={"func": "app.x", "every": 60})
        http.get("/schedules/missing")
        http.get("/schedules")
        http.get("/made/up")

    counted = scraped(web, "zsched_web_requests_total", "route", "method", "status")
    timed = scraped(web, "zsched_web_request_seconds_count", "route", "method")

    assert {
        (SCHEDULE, "PUT", "2xx"): 2, (SCHEDULE, "GET", "4xx"): 1, (LIST, "GET", "2xx"): 1, ("other", "GET", "4xx"): 1,
    } == counted  # fmt: skip
    assert {(SCHEDULE, "PUT"): 2, (SCHEDULE, "GET"): 1, (LIST, "GET"): 1, ("other", "GET"): 1} == timed


def test_refused_requests_count_by_their_reason(start_web: Start) -> None:
    web = start_web()
    web.get(f"{LIST}")
    web.get(f"{LIST}", headers={"Authorization": "Bearer zs_made_up"})
    with web.client("viewer", "viewer") as viewer, web.client("shop", "scheduler", queues=("shop",)) as shop:
        viewer.put("/schedules/a", json={"func": "app.x", "every": 60})
        shop.put("/schedules/a", json={"func": "app.x", "every": 60, "queue": "other"})
        shop.put("/schedules/a", json={"func": "app.x", "every": "often", "queue": "shop"})
        shop.get("/schedules/a")

    reasons = scraped(web, "zsched_web_refused_total", "reason")

    assert {
        ("no-token",), ("wrong-token",), ("read-only",), ("outside-limits",), ("invalid-schedule",),
        ("schedule-not-found",),
    } == set(reasons)  # fmt: skip


def test_open_streams_are_counted(web: Web, http: httpx.Client) -> None:
    with http.stream("GET", "/events") as stream:
        assert 200 == stream.status_code, stream.read()
        lines = stream.iter_lines()
        next(lines)
        assert {(): 1} == scraped(web, "zsched_web_event_streams")

    eventually(lambda: scraped(web, "zsched_web_event_streams") == {(): 0})


def test_probes_need_no_token_and_do_not_count(web: Web) -> None:
    before = scraped(web, "zsched_web_requests_total", "route", "method", "status")

    answers = [web.get(f"/{probe}") for probe in ("healthz", "readyz", "metrics")]

    assert [200] * 3 == [each.status_code for each in answers]
    assert before == scraped(web, "zsched_web_requests_total", "route", "method", "status")


def test_a_readiness_probe_is_one_ping(start_web: Start, redis_client: redis.Redis) -> None:
    web = start_web()
    web.get("/readyz")  # a connection is there
    redis_client.config_resetstat()

    assert ["ok\n"] * 20 == [web.get("/readyz").text for _ in range(20)]

    calls = {name: row["calls"] for name, row in redis_client.info("commandstats").items()}
    assert 20 == calls.pop("cmdstat_ping")
    assert max(calls.values()) < 20  # of the thread that follows the log, whatever is asked


def test_a_web_without_redis_is_alive_and_not_ready(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> None:
    with EmbeddedRedis() as server:
        web = Web(guard, server.url, tmp_path_factory.mktemp("web"))
        assert 200 == web.get("/readyz").status_code

        server.stop()
        away = web.get("/readyz")
        assert (503, 200) == (away.status_code, web.get("/healthz").status_code)
        assert "cannot reach Redis" in away.text

        server.start()
        eventually(lambda: web.get("/readyz").status_code == 200)


def test_a_forecast_answers_as_the_command_does(web: Web, http: httpx.Client, client: Client) -> None:
    client.schedule("app.send", id="mail", every=60, queue="email")
    client.schedule("app.page", id="page", every=60, queue="web")

    told = http.get("/forecast", params={"to": "1h", "by": "queue", "workers": ["email=2", "web=1"]}).json()

    assert web.zsched.json("forecast", "--to", "1h", "--by", "queue").keys() == told.keys()
    assert {"email", "web"} == {one["key"] for one in told["loads"]} == {one["queue"] for one in told["backlogs"]}


def test_a_forecast_knows_how_long_the_runs_of_a_function_took(
    client: Client, redis_client: redis.Redis, daemon: DaemonThread
) -> None:
    for number in range(3):
        client.enqueue("time.sleep", args=[0.01 * number], id=f"slept-{number}")
    work_off(Queue("default", connection=redis_client), redis_client)
    client.schedule("time.sleep", args=[1], id="sleeps", every=60)
    eventually(lambda: 3 == len(client.runs(status="succeeded")))

    found = client.forecast("1h", workers={"default": 1})

    took = sorted(run.duration_ms or 0 for run in client.runs(status="succeeded"))
    assert {"time.sleep": took[1]} == found.durations_ms
    assert [] == found.backlogs[0].unknown
    assert {} == client.forecast("1h").durations_ms


@pytest.mark.parametrize("bad", [{"workers": "x"}, {"by": "tag"}, {"to": ""}, {"from": "noon"}, {"limit": 0}])
def test_a_forecast_with_a_bad_parameter_is_refused(http: httpx.Client, bad: dict[str, str]) -> None:
    assert 422 == http.get("/forecast", params={"to": "1h"} | bad).status_code
