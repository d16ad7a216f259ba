"""Limits of accounts: what they may name, what they see of the past, and that a refusal tells nothing."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
import redis
from rq import Queue

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.builders.workers import work_off
from tests.integration.web.routes import LIMITS, WITHIN, entries_by
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client, VersionConflict
from zsched.aio import AsyncClient
from zsched.config.settings import RqSettings, Settings
from zsched.core.model import Schedule
from zsched.core.occurrences.outcomes import What
from zsched.core.options.allowed import Limits
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.web import actions
from zsched.web.access import Caller
from zsched.web.accounts import Account, AccountRole

RULE: dict[str, Any] = {**WITHIN, "after": None, "every": 3600}
OUTSIDE: dict[str, Any] = {"func": "app.pay.send", "every": 3600, "queue": "pay", "tags": ["other"], "name": "salaries"}
SETTINGS = Settings(rq=RqSettings(allow_callables=("app.mail.*",)))
CALLBACKS = ("on_success", "on_failure")
NAMINGS = [
    ("func", "app.pay.send"),
    *((name, value) for name in CALLBACKS for value in ("app.pay.ok", {"func": "app.pay.ok"})),
]
LIFE = ("pause", "resume", "release", "skip", "unskip", "run", "backfill")
# What a limited caller can ask about one schedule: in the API, and on pages.
OF_ONE = [
    *(("GET", f"/api/v1/schedules/theirs{what}") for what in ("", "/story", "/occurrences")),
    *(("POST", f"/api/v1/schedules/theirs:{what}") for what in LIFE),
    ("PATCH", "/api/v1/schedules/theirs"), ("DELETE", "/api/v1/schedules/theirs"),
    *(("GET", f"/schedules/theirs{what}") for what in ("", "/edit", "/backfill", "/preview?every=60")),
    *(("POST", f"/schedules/theirs:{what}") for what in (*LIFE, "cancel")),
    ("POST", "/schedules/theirs/edit"),
    ("GET", "/outcomes?id=theirs"), ("GET", "/find?q=theirs"),
]  # fmt: skip
OF_A_RUN = [
    ("GET", "/api/v1/runs/{}"), ("POST", "/api/v1/runs/{}:retry"), ("POST", "/api/v1/runs/{}:cancel"),
    ("GET", "/api/v1/schedules/{}/story"), ("GET", "/runs/{}"), ("POST", "/runs/{}:retry"), ("POST", "/runs/{}:cancel"),
    ("GET", "/find?q={}"),
]  # fmt: skip


@pytest.fixture
def shop(web: Web) -> Iterator[httpx.Client]:
    """A scheduler with limits."""
    with web.client("shop", "scheduler", **LIMITS) as client:
        yield client


@pytest.fixture
def archive(redis_url: str) -> Iterator[DaemonThread]:
    """A daemon, whose archive answers questions about the past."""
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("archive_begins")
        yield daemon


# -- every function that a definition names ---------------------------------------------------------


@pytest.mark.parametrize(("option", "value"), NAMINGS)
def test_a_definition_that_names_a_function_outside_of_the_limits_is_refused_by_its_option(
    shop: httpx.Client, link: Link, option: str, value: Any
) -> None:
    assert 201 == shop.put("/schedules/mine", json=RULE).status_code
    before, bad = entries_by("shop", link), {**RULE, option: value}

    answers = [
        shop.put("/schedules/new", json=bad),
        shop.post("/schedules", json=bad, headers={"Idempotency-Key": "k"}),
        shop.patch("/schedules/mine", json={option: value}),
    ]
    [row] = shop.post("/schedules:batch", json=bad).iter_lines()

    assert [403] * 3 == [each.status_code for each in answers]
    path = value["func"] if isinstance(value, dict) else value
    for problem in (*(each.json() for each in answers), httpx.Response(200, text=row).json()["error"]):
        assert ("urn:zsched:error:outside-limits", option, path) == (
            problem["type"],
            problem["option"],
            problem["value"],
        )
        assert "'shop' is limited to" in problem["detail"]
        assert "app.mail.*" in problem["detail"]
    assert before == entries_by("shop", link)


@pytest.mark.parametrize("option", CALLBACKS)
def test_a_schedule_with_a_callback_outside_of_the_limits_is_beyond_them(
    shop: httpx.Client, http: httpx.Client, link: Link, option: str
) -> None:
    http.put("/schedules/theirs", json={**RULE, option: "app.pay.ok"})
    before = entries_by("shop", link)

    assert [] == shop.get("/schedules").json()["schedules"]
    assert 0 == shop.post("/schedules:cancel", json={"filter": {"match": "*"}}).json()["found"]
    for method, path in OF_ONE:
        if path.startswith("/api/v1"):
            assert 404 == shop.request(method, path.removeprefix("/api/v1"), json={}).status_code, path
    assert before == entries_by("shop", link)


def test_a_schedule_with_callbacks_within_the_limits_is_changed_and_keeps_them(
    shop: httpx.Client, redis_url: str
) -> None:
    given = {"on_success": "app.mail.ok", "on_failure": {"func": "app.mail.bad", "timeout": 5}}
    assert 201 == shop.put("/schedules/mine", json={**RULE, **given}).status_code

    assert 200 == shop.patch("/schedules/mine", json={"every": 7200}).status_code
    assert 200 == shop.post("/schedules/mine:run").status_code

    assert (("on_success", "app.mail.ok"), ("on_failure", "app.mail.bad")) == Client.from_url(redis_url).get(
        "mine"
    ).callbacks


# -- the past ---------------------------------------------------------------------------------------


def failed(run_id: str, client: Client, redis_client: redis.Redis) -> str:
    """Let a run fail, and return its id when the leader has recorded that."""
    for queue in ("pay", "mail"):
        work_off(Queue(queue, connection=redis_client), redis_client)
    eventually(lambda: any(each.what is What.RUN_ENDED for each in client.why(run_id).changes))
    return run_id


@pytest.mark.parametrize("kind", ["every", "after"])
def test_the_past_of_an_id_begins_with_the_first_put_within_the_limits(
    web: Web,
    archive: DaemonThread,
    shop: httpx.Client,
    http: httpx.Client,
    client: Client,
    redis_client: redis.Redis,
    kind: str,
) -> None:
    times = {"every": None, "after": None, kind: 3600}
    assert 201 == http.put("/schedules/emp-7", json={**OUTSIDE, **times}).status_code
    former = failed(http.post("/schedules/emp-7:run").json()["run_id"], client, redis_client)
    http.delete("/schedules/emp-7")
    assert 201 == shop.put("/schedules/emp-7", json={**RULE, **times}).status_code
    again = failed(http.post(f"/runs/{former}:retry").json()["run_id"], client, redis_client)  # after the put

    story = shop.get("/schedules/emp-7/story").json()
    texts = [story, shop.get("/schedules/emp-7/occurrences").json(), shop.get("/schedules/emp-7").json()]
    with web.browser("sam", "scheduler", **LIMITS) as browser:
        pages = [browser.get(path).text for path in ("/schedules/emp-7", "/outcomes?id=emp-7", "/schedules")]
        conflict = browser.post("/schedules/emp-7/edit", data={"version": "another"})

    assert ["put"] == [change["what"] for change in story["changes"]]
    assert ("shop", "shop") == (story["created_by"], story["changed_by"])
    assert (409, True) == (conflict.status_code, "created by shop" in conflict.text)
    told = "".join(map(str, [*texts, *pages, conflict.text]))
    for secret in (former, again, "by ann", "app.pay", "salaries", "Error", "run_ended"):
        assert secret not in told, secret
    assert 0 == len(texts[1]["past"])
    for run_id in (former, again):
        assert [404] * 3 == [
            shop.get(f"/runs/{run_id}").status_code,
            *(shop.post(f"/runs/{run_id}:{what}").status_code for what in ("retry", "cancel")),
        ]


def test_the_past_goes_back_through_all_puts_within_the_limits_and_no_further(
    archive: DaemonThread, shop: httpx.Client, http: httpx.Client, client: Client, redis_client: redis.Redis
) -> None:
    http.put("/schedules/a", json=RULE)  # within, but of another series
    http.patch("/schedules/a", json={"on_failure": "app.pay.bad"})
    http.patch("/schedules/a", json={"on_failure": None, "name": "first"})
    shop.patch("/schedules/a", json={"tags": ["shop", "vip"]})
    run_id = failed(shop.post("/schedules/a:run").json()["run_id"], client, redis_client)
    shop.delete("/schedules/a")
    shop.put("/schedules/a", json={**RULE, "name": "second"})
    retry = shop.post(f"/runs/{run_id}:retry").json()["run_id"]

    story, past = shop.get("/schedules/a/story").json(), shop.get("/schedules/a/occurrences").json()["past"]

    told = [change["what"] for change in story["changes"]]
    assert ["put", "put", "enqueued", "run_ended", "cancelled", "put", "retried"] == told
    assert [[], ['tags: ["shop"] → ["shop", "vip"]']] == [change["changed"] for change in story["changes"][:2]]
    assert ("created by ann for", "changed by shop: tags") == tuple(
        one["text"][:n] for one, n in zip(story["story"], (18, 21), strict=False)
    )
    assert [retry, run_id] == [one["run_id"] for one in past if one["run_id"]]
    assert 200 == shop.get(f"/runs/{retry}").status_code
    assert retry == shop.get(f"/runs/{run_id}").json()["retried"]["id"]


def test_the_past_begins_at_the_same_put_without_an_archive(shop: httpx.Client, http: httpx.Client) -> None:
    http.put("/schedules/a", json=OUTSIDE)
    http.post("/schedules/a:pause", json={"note": "a secret"})
    http.put("/schedules/a", json={**RULE, "enabled": True})
    shop.patch("/schedules/a", json={"every": 7200})

    story = shop.get("/schedules/a/story").json()

    assert [("put", []), ("put", ["every: 1h → 2h"])] == [(each["what"], each["changed"]) for each in story["changes"]]
    assert None is shop.get("/schedules/a").json()["created_at"]


@pytest.mark.parametrize("kept", [5, 4, 3, 1])
def test_a_trimmed_log_tells_a_limited_token_nothing_of_another_owners_past(
    shop: httpx.Client, http: httpx.Client, redis_client: redis.Redis, kept: int
) -> None:
    http.put("/schedules/a", json=OUTSIDE)
    former = http.post("/schedules/a:run").json()["run_id"]
    http.put("/schedules/a", json={**RULE, "enabled": True})
    mine = shop.post("/schedules/a:run").json()["run_id"]
    http.post(f"/runs/{former}:cancel")
    redis_client.xtrim(Keys("default").log(), maxlen=kept, approximate=False)

    story, past = shop.get("/schedules/a/story").json(), shop.get("/schedules/a/occurrences").json()["past"]

    assert former not in str(story) + str(past)
    assert [mine] * (kept > 1) == [one["run_id"] for one in past if one["run_id"]]
    assert story["source"]["complete_since"] is not None


# -- what a refusal tells -----------------------------------------------------------------------------


def same(answer: httpx.Response, id: str) -> tuple[int, str, Any]:
    """Return what an answer tells, with another word for *id*."""
    text = re.sub(r"\b\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00)?", "TIME", answer.text)
    return answer.status_code, text.replace(id, "ID"), answer.headers.get("location", "").replace(id, "ID")


def test_a_schedule_outside_of_the_limits_looks_like_an_unknown_id(web: Web, http: httpx.Client) -> None:
    assert 201 == http.put("/schedules/theirs", json=OUTSIDE).status_code
    run_id = str(http.post("/schedules/theirs:run").json()["run_id"])
    with ExitStack() as stack:
        program = stack.enter_context(web.client("shop", "scheduler", **LIMITS))
        program.base_url = httpx.URL(web.url)
        person = stack.enter_context(web.browser("sam", "scheduler", **LIMITS))
        for method, path in [*OF_ONE, *((method, path.format(run_id)) for method, path in OF_A_RUN)]:
            client = program if path.startswith("/api") else person
            for accept in ("application/json", "text/html"):
                body: dict[str, Any] = {"json": {}} if client is program else {"data": {}}
                given = {"headers": {"Accept": accept}, **(body if method != "GET" else {})}
                there, never = (
                    same(client.request(method, path.replace("theirs", id), **given), id) for id in ("theirs", "nobody")
                )
                assert there == never, (method, path)
                assert "pay" not in there[1]


def test_only_a_put_by_an_id_that_is_taken_tells_so_and_nothing_else(shop: httpx.Client, http: httpx.Client) -> None:
    assert 201 == http.put("/schedules/theirs", json=OUTSIDE).status_code

    plain = shop.put("/schedules/theirs", json=RULE)
    careful = shop.put("/schedules/theirs", json=RULE, headers={"If-None-Match": "*"})
    [row] = shop.post("/schedules:batch", json={**RULE, "id": "theirs"}).iter_lines()

    assert [403, 403] == [plain.status_code, careful.status_code]
    for text in (plain.text, careful.text, row):
        assert "schedule 'theirs' is beyond the limits of 'shop'" in text
        assert not re.search("pay|salaries|value", text), text


# -- while somebody else changes the schedule ---------------------------------------------------------


def test_a_pause_of_before_the_limits_is_not_shown_and_one_of_since_is(shop: httpx.Client, http: httpx.Client) -> None:
    http.put("/schedules/a", json=OUTSIDE)
    http.post("/schedules/a:pause", json={"note": "salaries are late"})
    http.patch("/schedules/a", json={name: WITHIN[name] for name in ("func", "queue", "tags")})

    assert [None, None] == [shop.get("/schedules/a").json()[name] for name in ("note", "paused_by")]

    shop.post("/schedules/a:resume")
    shop.post("/schedules/a:pause", json={"note": "my own"})
    assert "my own" == shop.get("/schedules/a").json()["note"]


@pytest.mark.anyio
async def test_a_run_on_request_of_a_schedule_that_left_the_limits_meanwhile_is_not_pushed(
    redis_client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, look = Limits(queues=("mail",)), actions.found_of
    async with AsyncClient.from_url(redis_url) as client:
        await client.schedule("app.mail.send", id="a", every=3600, queue="mail")

        async def found_before_a_change(call: Caller, id: str) -> Schedule:
            found = await look(call, id)
            await client.update(id, queue="pay")
            return found

        monkeypatch.setattr(actions, "found_of", found_before_a_change)
        call = Caller(Account("shop", AccountRole.SCHEDULER, limits), client.acting_as("shop", limits), SETTINGS)
        with pytest.raises(VersionConflict):
            await actions.run_now(call, "a")

    assert 0 == redis_client.llen(f"{RQ}:queue:pay")
