"""Many schedules in one request: a result for each row of a batch, and changes by filter."""

import http.client
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.builders.proxies import Proxy
from tests.builders.web import Web
from tests.integration.client.calls import KEYS
from tests.integration.web.routes import LIMITS, WITHIN
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

OURS: dict[str, Any] = {"func": "app.mail.send", "every": 60, "queue": "mail", "tags": ["shop", "x"]}
THEIRS: dict[str, Any] = {"func": "app.pay.send", "every": 60, "queue": "pay", "tags": ["x"]}
ALL = {"filter": {"tag": "x"}}


def lines(rows: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def post(http: httpx.Client, content: bytes | Iterator[bytes]) -> list[dict[str, Any]]:
    answer = http.post("/schedules:batch", content=content)
    assert (200, "application/x-ndjson") == (answer.status_code, answer.headers["content-type"])
    return [json.loads(line) for line in answer.text.splitlines()]


def test_every_row_has_a_result_with_its_number(http: httpx.Client, redis_client: redis.Redis) -> None:
    at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    rows = [{**WITHIN, "id": "a", "at": at, "after": None}, {"func": "app.tick", "every": 60, "id": "b"}, WITHIN]

    results = post(http, lines(rows))

    assert [0, 1, 2] == [each["row"] for each in results]
    assert ["created"] * 3 == [each["outcome"] for each in results]
    assert ["a", "b"] == [each["id"] for each in results[:2]]
    assert 1 == redis_client.zcard(KEYS.due_normal()) - 2
    assert "unchanged" == post(http, lines(rows[1:2]))[0]["outcome"]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (b"{", {"type": "urn:zsched:error:not-json"}),
        (b'["a"]', {"type": "urn:zsched:error:not-json"}),
        (b'{"after": 1}', {"option": "func"}),
        (b'{"func": ["app.x"], "after": 1}', {"option": "func"}),
        (b'{"func": "os.system", "after": 1}', {"option": "func"}),
        (b'{"func": "app.x", "after": 1, "on_failure": "os.system"}', {"option": "on_failure"}),
        (b'{"func": "app.x", "after": 1, "queue": "a\\nb"}', {"option": "queue"}),
        (b'{"func": "app.x", "at": "noon"}', {"option": "at"}),
        (b'{"func": "app.x", "cron": "61 * * * *"}', {"option": "cron"}),
        (b'{"func": "app.x", "after": 1, "id": "a/b"}', {"option": "id"}),
    ],
)
def test_a_bad_row_is_refused_by_itself(http: httpx.Client, row: bytes, error: dict[str, str]) -> None:
    good = json.dumps(WITHIN).encode()

    results = post(http, b"\n".join([good, row, good]))

    assert ["created", "created"] == [each["outcome"] for each in (results[0], results[2])]
    assert 1 == results[1]["row"]
    assert error.items() <= results[1]["error"].items()
    assert results[1]["error"]["remedy"]


def test_an_array_that_is_too_large_is_refused_with_the_form_that_has_no_limit(http: httpx.Client) -> None:
    rows = [{"func": "app.tick", "every": 60, "description": "x" * 1000}] * 1100

    answer = http.post("/schedules:batch", json=rows)

    assert (413, True) == (answer.status_code, answer.json()["remedy"].endswith("or NDJSON"))


def test_an_empty_batch_has_an_empty_answer(http: httpx.Client) -> None:
    assert [] == post(http, b"")
    assert [] == post(http, b"\n \n\n")


def test_the_later_one_of_two_rows_with_one_id_wins(web: Web, http: httpx.Client) -> None:
    rows = lines([{**WITHIN, "id": "a", "args": [1]}, {**WITHIN, "id": "a", "args": [2], "tags": ["shop", "late"]}])
    post(http, rows)
    with web.client("shop", "scheduler", **LIMITS) as shop:
        results = post(shop, rows)

    assert ["updated", "updated"] == [each["outcome"] for each in results]
    assert ["late", "shop"] == http.get("/schedules/a").json()["tags"]


def test_a_limited_caller_replaces_nothing_outside_of_its_limits(web: Web, http: httpx.Client) -> None:
    http.put("/schedules/theirs", json={**WITHIN, "queue": "pay"})
    replacing = {**WITHIN, "if_exists": "replace"}
    with web.client("shop", "scheduler", **LIMITS) as shop:
        results = post(
            shop,
            lines([{**WITHIN, "id": "theirs"}, {**replacing, "id": "theirs"}, {**replacing, "id": "own"},
                   {**WITHIN, "id": "new", "queue": "pay"}]),
        )  # fmt: skip
        put = shop.put("/schedules/theirs", json=replacing)

    assert ["error", "error", "outcome", "error"] == [sorted(each.keys() - {"row", "id"})[0] for each in results]
    assert "urn:zsched:error:outside-limits" == results[0]["error"]["type"] == put.json()["type"]
    assert "pay" == http.get("/schedules/theirs").json()["queue"]


class Sending:
    """A batch whose rows are sent one after another."""

    def __init__(self, web: Web) -> None:
        self._connection = http.client.HTTPConnection(web.url.removeprefix("http://"), timeout=WITHIN_S)
        self._connection.putrequest("POST", "/api/v1/schedules:batch")
        self._connection.putheader("Authorization", f"Bearer {web.token('ann')}")
        self._connection.putheader("Transfer-Encoding", "chunked")
        self._connection.endheaders()
        self._answer: http.client.HTTPResponse | None = None

    def send(self, content: bytes) -> None:
        self._connection.send(b"%x\r\n%b\r\n" % (len(content), content))

    def result(self) -> dict[str, Any]:
        """Wait for the next result."""
        self._answer = self._answer or self._connection.getresponse()
        found: dict[str, Any] = json.loads(self._answer.readline())
        return found

    def end(self) -> bytes:
        """End the body, and return the rest of the answer."""
        self._connection.send(b"0\r\n\r\n")
        rest = b"" if self._answer is None else self._answer.read()
        self.close()
        return rest

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._connection.close()


def test_results_come_while_the_body_is_sent(web: Web) -> None:
    batch, told = Sending(web), []
    for number in range(3):
        batch.send(lines([{**WITHIN, "id": f"a{number}"}]))
        told.append(batch.result())

    assert b"" == batch.end()
    assert [(0, "a0"), (1, "a1"), (2, "a2")] == [(each["row"], each["id"]) for each in told]


def test_a_caller_may_send_the_whole_body_before_it_reads(http: httpx.Client, redis_client: redis.Redis) -> None:
    count = 60_000  # results of 3.5 MB, more than the buffers of sockets hold

    results = post(
        http, (lines({**WITHIN, "id": f"a{n}"} for n in range(at, at + 1000)) for at in range(0, count, 1000))
    )

    assert list(range(count)) == [each["row"] for each in results]
    assert count == redis_client.zcard(KEYS.due_normal())


def test_a_batch_whose_caller_goes_away_keeps_the_rows_that_came(web: Web, redis_client: redis.Redis) -> None:
    batch = Sending(web)
    batch.send(lines([{**WITHIN, "id": "a"}, {**WITHIN, "id": "b"}]) + b'{"func": "app.ma')
    eventually(lambda: redis_client.zcard(KEYS.due_normal()) == 2)
    batch.close()

    with web.client("bea") as after:
        assert ["created"] == [each["outcome"] for each in post(after, lines([WITHIN]))]
    assert 3 == redis_client.zcard(KEYS.due_normal())


def test_a_lost_redis_ends_the_answer_with_the_error(
    guard: Guard, redis_server: EmbeddedRedis, redis_client: redis.Redis, tmp_path: Path
) -> None:
    with Proxy(redis_server.port or 0) as proxy:
        batch = Sending(Web(guard, proxy.url, tmp_path))
        batch.send(lines([{**WITHIN, "id": "a"}]))
        assert "created" == batch.result()["outcome"]
        proxy.cut_replies = 1.0
        batch.send(lines([{**WITHIN, "id": "b"}]))
        failed = batch.result()

    assert "row" not in failed
    assert "urn:zsched:error:redis-unavailable" == failed["error"]["type"]
    assert "may_have_been_applied" in failed["error"]
    assert b"" == batch.end()


@pytest.fixture
def stocked(client: Client) -> Client:
    """A client; there are three schedules of ours, and three of theirs."""
    for number in range(3):
        client.schedule(id=f"ours-{number}", **OURS)
        client.schedule(id=f"theirs-{number}", **THEIRS)
    return client


def states(client: Client) -> dict[str, str]:
    return {each.id: each.state.value for each in client.list()}


def test_a_dry_run_counts_and_changes_nothing(http: httpx.Client, stocked: Client) -> None:
    for verb, found in (("pause", 6), ("cancel", 6), ("resume", 0)):
        plan = http.post(f"/schedules:{verb}", json={**ALL, "dry_run": True}).json()
        assert (found, 0, True) == (plan["found"], plan["done"], plan["dry_run"])
        assert found == len(plan["sample"])
    assert {"active"} == set(states(stocked).values())


def test_schedules_that_a_filter_finds_are_paused_resumed_and_cancelled(http: httpx.Client, stocked: Client) -> None:
    paused = http.post("/schedules:pause", json={"filter": {"queue": "mail"}, "note": "no provider"}).json()
    assert (3, 3, 0) == (paused["found"], paused["done"], paused["refused_count"])
    assert "no provider" == stocked.get("ours-0").note
    assert {"active": 3, "paused": 3} == {
        state: list(states(stocked).values()).count(state) for state in ("active", "paused")
    }

    resumed = http.post("/schedules:resume", json={"filter": {"match": "ours-*"}, "limit": 2}).json()
    assert (2, 2) == (resumed["found"], resumed["done"])
    cancelled = http.post("/schedules:cancel", json={"filter": {"match": "*"}}).json()
    assert (6, 6) == (cancelled["found"], cancelled["done"])
    assert {} == states(stocked)


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_limited_caller_changes_its_own_schedules_only(web: Web, stocked: Client, verb: str) -> None:
    with web.client("shop", "scheduler", **LIMITS) as shop:
        plan = shop.post(f"/schedules:{verb}", json={**ALL, "dry_run": True}).json()
        done = shop.post(f"/schedules:{verb}", json=ALL).json()
        again = shop.post(f"/schedules:{verb}", json=ALL).json()

    assert (3, ["ours-0", "ours-1", "ours-2"], True) == (plan["found"], sorted(plan["sample"]), plan["dry_run"])
    assert (3, 3, 0) == (done["found"], done["done"], done["skipped"])
    assert 0 == again["found"]
    left = states(stocked)
    assert {"active"} == {left[f"theirs-{number}"] for number in range(3)}
    assert all(left.get(f"ours-{number}") in (None, "paused") for number in range(3))


def test_a_limited_caller_resumes_its_own_schedules_only(web: Web, http: httpx.Client, stocked: Client) -> None:
    http.post("/schedules:pause", json=ALL)
    with web.client("shop", "scheduler", **LIMITS) as shop:
        assert 3 == shop.post("/schedules:resume", json={**ALL, "missed": "skip"}).json()["done"]

    assert {"ours": "active", "theirs": "paused"} == {id.split("-")[0]: state for id, state in states(stocked).items()}


@pytest.mark.parametrize(
    ("body", "option"),
    [
        ({}, "filter"),
        ({"filter": {}}, "match"),
        ({"filter": []}, "filter"),
        ({"filter": {"tags": "x"}}, "tags"),
        ({"filter": {"tag": 1}}, "tag"),
        ({"filter": {"state": "asleep"}}, "state"),
        ({"filter": {"due_before": "noon"}}, "due_before"),
        ({**ALL, "dry_run": "no"}, "dry_run"),
        ({**ALL, "limit": 0}, "limit"),
        ({**ALL, "limit": True}, "limit"),
        ({**ALL, "dryrun": True}, "dryrun"),
    ],
)
@pytest.mark.parametrize("limits", [{}, LIMITS], ids=["unlimited", "limited"])
def test_a_bad_filter_or_option_changes_nothing(
    web: Web, stocked: Client, body: dict[str, Any], option: str, limits: dict[str, Any]
) -> None:
    with web.client("shop", "scheduler", **limits) as shop:
        for verb in ("pause", "resume", "cancel"):
            answer = shop.post(f"/schedules:{verb}", json=body)
            assert (422, option) == (answer.status_code, answer.json()["option"])
            assert answer.json()["remedy"]
    assert {"active"} == set(states(stocked).values())
