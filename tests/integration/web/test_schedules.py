"""Schedules over HTTP: put, read, change, cancel, list; conditions, and PUT requests that are cut and sent again."""

import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import redis

from tests.breadth import everything
from tests.builders.web import Web
from tests.integration.client.calls import KEYS
from tests.integration.web.raw import Answer, Api, connected, cut, put_bytes, status_of
from tests.ledger import queued
from tests.waiting import WITHIN_S
from zsched import Client

ONCE: dict[str, Any] = {"func": "app.remind", "after": 3600, "args": [42], "queue": "mail"}
RULE: dict[str, Any] = {"func": "app.digest", "cron": "0 9 * * *", "tz": "Asia/Seoul"}
KILLS = 1000
SCHEDULES = 200
WRITERS, EDITS = (50, 2000) if everything() else (10, 100)
EDITED = [f"e{number}" for number in range(WRITERS // 2)]  # one alone would mean a hundred thousand requests
KINDS: tuple[dict[str, Any], ...] = (
    {"at": "2040-01-01T00:00:00Z", "args": [1]},
    {"after": 3600, "args": [2]},
    {"every": 3600, "args": [3]},
    {"cron": "0 9 * * *", "tz": "Asia/Seoul", "args": [4]},
)


@pytest.mark.parametrize("body", [ONCE, RULE])
def test_a_put_creates_then_changes_nothing_then_updates(http: httpx.Client, body: dict[str, Any]) -> None:
    body = {**body, "after": "1h"} if "after" in body else body
    created = http.put("/schedules/a", json=body)
    read = http.get("/schedules/a")
    again = http.put("/schedules/a", json=body)
    updated = http.put("/schedules/a", json={**body, "queue": "other"})

    assert (201, "created") == (created.status_code, created.json()["outcome"])
    assert created.headers["etag"] == f'"{created.json()["version"]}"'
    assert re.fullmatch(rf'"{re.escape(created.json()["version"])}\.[0-9a-f]{{8}}"', read.headers["etag"])
    assert "/api/v1/schedules/a" == created.headers["location"]
    assert "after" in body or (200, "unchanged", created.headers["etag"]) == (
        again.status_code, again.json()["outcome"], again.headers["etag"],
    )  # fmt: skip
    assert (200, "updated") == (updated.status_code, updated.json()["outcome"])
    assert created.headers["etag"] != updated.headers["etag"]
    assert "other" == http.get("/schedules/a").json()["queue"]


def test_conditions_decide_whether_a_change_is_made(http: httpx.Client) -> None:
    first = http.put("/schedules/a", json=RULE, headers={"If-None-Match": "*"})
    taken = http.put("/schedules/a", json=RULE, headers={"If-None-Match": "*"})
    changed = http.put("/schedules/a", json={**RULE, "queue": "x"}, headers={"If-Match": first.headers["etag"]})
    stale = http.put("/schedules/a", json=RULE, headers={"If-Match": first.headers["etag"]})

    assert [201, 412, 200, 412] == [each.status_code for each in (first, taken, changed, stale)]
    body = stale.json()
    assert ("urn:zsched:error:version-conflict", first.json()["version"], changed.json()["version"]) == (
        body["type"], body["given"], body["present"],
    )  # fmt: skip
    for method, path in (("POST", ":pause"), ("POST", ":resume"), ("DELETE", ""), ("PATCH", "")):
        given = {"json": {"queue": "y"}} if method == "PATCH" else {}
        answer = http.request(method, f"/schedules/a{path}", headers={"If-Match": first.headers["etag"]}, **given)
        assert 412 == answer.status_code, method
    assert "x" == http.get("/schedules/a").json()["queue"]


def test_a_patch_changes_only_what_it_names(http: httpx.Client) -> None:
    http.put("/schedules/a", json={**RULE, "tags": ["t"], "timeout": "5m"})

    patched = http.patch("/schedules/a", json={"timeout": None, "cron": "0 10 * * *"})
    found = http.get("/schedules/a").json()

    assert (200, "updated") == (patched.status_code, patched.json()["outcome"])
    assert (["t"], "0 10 * * *", 180) == (found["tags"], found["trigger"]["expr"], found["timeout_s"])


def test_pause_resume_run_and_cancel(http: httpx.Client, redis_client: redis.Redis) -> None:
    http.put("/schedules/a", json={**RULE, "queue": "mail"})

    paused = http.post("/schedules/a:pause", json={"note": "provider is down"})
    resumed = http.post("/schedules/a:resume", json={"missed": "skip"})
    run = http.post("/schedules/a:run")
    gone = [http.delete("/schedules/a"), http.delete("/schedules/nobody")]

    assert ("paused", "provider is down") == (paused.json()["state"], paused.json()["note"])
    assert "active" == resumed.json()["state"]
    assert [run.json()["run_id"]] == queued(redis_client, "mail")
    assert [200, 404] == [each.status_code for each in gone]


def test_skips_and_a_pause_with_an_end(http: httpx.Client) -> None:
    http.put("/schedules/a", json={"func": "app.tasks.digest", "cron": "0 9 * * *"})
    first, second, third = http.post("/preview", json={"id": "a", "n": 3}).json()["times"]

    skipped = http.post("/schedules/a:skip", json={"next": 2, "note": "holidays"}).json()
    back = http.post("/schedules/a:unskip", json={"at": second}).json()
    refused = http.post("/schedules/a:skip", json={"at": "2099-01-01T09:01:00Z"})
    paused = http.post("/schedules/a:pause", json={"until": "2099-01-01T00:00:00Z"}).json()

    assert [2, 1] == [len(one["skipped"]) for one in (skipped, back)]
    assert [third[:10], second[:10]] == [one["next_at"][:10] for one in (skipped, back)]
    assert (422, "at") == (refused.status_code, refused.json()["option"])
    assert ("paused", "2099-01-01T00:00:00.000Z") == (paused["state"], paused["resumes_at"])
    assert first[:10] == paused["skipped"][0][:10]


def test_the_log_and_the_story_name_the_token_that_asked(web: Web, http: httpx.Client, redis_url: str) -> None:
    http.put("/schedules/a", json=RULE)
    http.post("/schedules/a:pause")

    entries, _ = Client.from_url(redis_url).log()
    assert ["ann", "ann"] == [(entry.by or b"").decode() for entry in entries]
    assert "ann" in http.get("/schedules/a/story").text


def test_a_posted_schedule_is_made_once_per_idempotency_key(http: httpx.Client, redis_client: redis.Redis) -> None:
    key = {"Idempotency-Key": "order-77"}

    first, again = (http.post("/schedules", json=ONCE, headers=key) for _ in range(2))
    others = [{**ONCE, "after": 60}, {**ONCE, "func": "app.mail.send"}]
    refused = [http.post("/schedules", json=other, headers=key) for other in others]
    refused.append(http.post("/schedules", json=ONCE))

    assert (201, first.json()["id"], 201) == (first.status_code, again.json()["id"], again.status_code)
    assert [(422, "idempotency-key-used")] * 2 + [(428, "no-idempotency-key")] == [
        (each.status_code, each.json()["type"].rpartition(":")[2]) for each in refused
    ]
    assert 1 == redis_client.zcard(KEYS.due_normal())


def test_pages_list_all_schedules_once(http: httpx.Client) -> None:
    for number in range(25):
        http.put(f"/schedules/s{number:02}", json={**ONCE, "after": 1000 + number, "tags": [f"t{number % 2}"]})

    seen, token = list[str](), None
    while True:
        query = {"page_size": 4, "tag": "t1"} | ({"page_token": token} if token else {})
        page = http.get("/schedules", params=query).json()
        seen += [one["id"] for one in page["schedules"]]
        token = page["next_page_token"]
        if token is None:
            break

    assert [f"s{number:02}" for number in range(1, 25, 2)] == seen


def test_a_preview_and_the_dry_run_of_a_backfill_only_plan(http: httpx.Client) -> None:
    rule = {"cron": "0 9 * * *", "tz": "Asia/Seoul", "n": 2, "start": "2026-12-24T00:00:00Z"}

    times = http.post("/preview", json=rule).json()["times"]

    assert ["2026-12-25T09:00:00+09:00", "2026-12-26T09:00:00+09:00"] == times

    http.put("/schedules/a", json={"func": "app.x", "every": 3600, "starts": "2026-01-01T00:00:00Z"})
    body = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T03:00:00Z", "dry_run": True, "again": True}

    plan = http.post("/schedules/a:backfill", json=body)

    assert (200, 3) == (plan.status_code, len(plan.json()["runs"])), plan.text


def test_the_description_is_openapi_3_1_and_has_every_option(web: Web) -> None:
    document = web.get("/api/v1/openapi.json").json()

    assert document["openapi"].startswith("3.1")
    assert {"func", "cron", "if_version"} <= document["components"]["schemas"]["ScheduleOptions"]["properties"].keys()
    assert "/api/v1/schedules/{id}" in document["paths"]


def test_a_put_that_is_killed_and_sent_again_a_thousand_times_makes_one_schedule_and_one_entry(
    start_web: Callable[..., Web], redis_url: str, redis_client: redis.Redis
) -> None:
    web, chosen = start_web(), random.Random(19)
    secret = web.token("shop")
    sent = {f"s{number}": put_of(f"s{number}", KINDS[number % len(KINDS)], secret) for number in range(SCHEDULES)}

    for kill in range(KILLS):
        kill_within(web, sent[f"s{kill % SCHEDULES}"], chosen)
    for text in sent.values():
        with connected(web) as one:
            one.sendall(text)
            assert status_of(one) in (200, 201)
    assert 0 == web.stop()  # it has finished what it had begun

    client = Client.from_url(redis_url)
    entries, _ = client.log(limit=KILLS)
    assert dict.fromkeys(["put", "put_recurring"], SCHEDULES // 2) == Counter(entry.kind for entry in entries)
    assert sorted(sent) == sorted(schedule.id for schedule in client.list())
    assert SCHEDULES == redis_client.xlen(KEYS.log())
    assert "Traceback" not in web.log.read_text()


def put_of(id: str, body: dict[str, Any], secret: str) -> bytes:
    """Return a PUT. A relative time counts from its arrival, so such a request has a key, too."""
    key = [f"Idempotency-Key: {id}"] if "after" in body else []
    return put_bytes(f"/schedules/{id}", secret, {"func": "app.x", **body}, *key)


def kill_within(web: Web, text: bytes, chosen: random.Random) -> None:
    """Send a part of *text*, maybe all of it, and end the connection without reading an answer."""
    body_at = text.index(b"\r\n\r\n") + 4
    size = chosen.choice([chosen.randrange(body_at), chosen.randrange(body_at, len(text)), len(text), len(text)])
    one = connected(web)
    one.sendall(text[:size])
    if chosen.random() < 0.5:
        cut(one)
    else:
        one.close()


def test_a_relative_put_with_its_key_is_answered_again(web: Web, http: httpx.Client, redis_client: redis.Redis) -> None:
    body, key = {"func": "app.x", "after": 3600}, {"Idempotency-Key": "k"}

    first, again = (http.put("/schedules/a", json=body, headers=key) for _ in range(2))
    entries = redis_client.xlen(KEYS.log())
    others = [{**body, "after": 7200}, {**body, "func": "app.mail.send"}]
    changed = [http.put("/schedules/a", json=other, headers=key) for other in others]
    with web.client("eve") as eve:
        changed.append(eve.put("/schedules/a", json=body, headers=key))

    assert (201, 1, first.json()) == (first.status_code, entries, again.json())
    assert ["updated"] * 3 == [each.json()["outcome"] for each in changed]


@pytest.mark.parametrize("key", ["", "k" * 129, "a\tb"])
def test_a_bad_idempotency_key_is_refused(http: httpx.Client, redis_client: redis.Redis, key: str) -> None:
    body, headers = {"func": "app.x", "after": 60}, {"Idempotency-Key": key}

    answers = [
        http.put("/schedules/a", json=body, headers=headers),
        http.post("/schedules", json=body, headers=headers),
    ]

    assert [400, 400] == [each.status_code for each in answers]
    assert 0 == redis_client.xlen(KEYS.log())


def test_many_writers_with_if_match_lose_no_update(start_web: Callable[..., Web]) -> None:
    web = start_web(ZSCHED_RQ_SERIALIZER="json")
    secret, conflicts, failed = web.token("ann", sees_arguments=True), Counter[str](), list[BaseException]()
    all_have_read = threading.Barrier(WRITERS)
    with Api(web, secret) as api:
        for number, id in enumerate(EDITED):
            api.ask("PUT", f"/schedules/{id}", {"func": "app.x", **KINDS[number % len(KINDS)], "kwargs": {"n": 0}})

    def write(writer: int) -> None:
        try:
            with Api(web, secret) as mine:
                found = mine.ask("GET", f"/schedules/{EDITED[writer % len(EDITED)]}")
                all_have_read.wait(WITHIN_S)
                for edit in range(EDITS // WRITERS):
                    id = EDITED[(writer + edit) % len(EDITED)]
                    while not edited(mine, id, found):
                        conflicts[id] += 1
                        found = mine.ask("GET", f"/schedules/{id}")
                    found = mine.ask("GET", f"/schedules/{EDITED[(writer + edit + 1) % len(EDITED)]}")
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()

    with Api(web, secret) as api:
        numbers = [api.ask("GET", f"/schedules/{id}").json()["kwargs"]["n"] for id in EDITED]
    assert ([], EDITS) == (failed, sum(numbers))
    assert conflicts  # else nobody has tried to overwrite anything


def edited(api: Api, id: str, found: Answer) -> bool:
    """Increment the number of schedule *id*, as it was *found*; False: somebody else was faster."""
    change = {"kwargs": {"n": found.json()["kwargs"]["n"] + 1}}
    answer = api.ask("PATCH", f"/schedules/{id}", change, If_Match=found.headers["etag"])
    assert answer.status in (200, 412), answer.text
    return answer.status == 200


def test_a_dry_run_of_a_patch_returns_the_difference_in_times_and_changes_nothing(
    http: httpx.Client, client: Client
) -> None:
    client.schedule("app.send", id="daily", cron="0 9 * * *", tz="Asia/Seoul")
    before = client.get("daily")

    told = http.patch("/schedules/daily", params={"dry_run": True}, json={"cron": "0 9 * * 1-5"})
    stale = http.patch("/schedules/daily", params={"dry_run": True}, json={}, headers={"If-Match": '"1-1"'})
    bad = http.patch("/schedules/daily", params={"dry_run": True}, json={"cron": "61 * * * *"})

    assert (200, [7, 5], []) == (told.status_code, told.json()["per_week"], told.json()["come"])
    assert (412, 422) == (stale.status_code, bad.status_code)
    assert before.version == client.get("daily").version
