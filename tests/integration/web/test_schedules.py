"""Schedules over HTTP: put, read, change, cancel, list; conditions, and problems that name option and remedy."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import redis

from tests.integration.client.ground import KEYS, queued
from tests.integration.web.ground import Web
from zsched import Client

ONCE: dict[str, Any] = {"func": "app.remind", "after": 3600, "args": [42], "queue": "mail"}
RULE: dict[str, Any] = {"func": "app.digest", "cron": "0 9 * * *", "tz": "Asia/Seoul"}


@pytest.mark.parametrize("body", [ONCE, RULE])
def test_a_put_creates_then_changes_nothing_then_updates(http: httpx.Client, body: dict[str, Any]) -> None:
    body = {**body, "after": "1h"} if "after" in body else body
    created = http.put("/schedules/a", json=body)
    read = http.get("/schedules/a")
    again = http.put("/schedules/a", json=body)
    updated = http.put("/schedules/a", json={**body, "queue": "other"})

    assert (201, "created") == (created.status_code, created.json()["outcome"])
    assert created.headers["etag"] == read.headers["etag"] == f'"{created.json()["version"]}"'
    assert "/api/v1/schedules/a" == created.headers["location"]
    assert "after" in body or (200, "unchanged", created.headers["etag"]) == (
        again.status_code, again.json()["outcome"], again.headers["etag"],
    )  # fmt: skip
    assert (200, "updated") == (updated.status_code, updated.json()["outcome"])
    assert created.headers["etag"] != updated.headers["etag"]
    assert "other" == http.get("/schedules/a").json()["queue"]


def test_conditions_decide_whether_a_put_is_made(http: httpx.Client) -> None:
    first = http.put("/schedules/a", json=RULE, headers={"If-None-Match": "*"})
    taken = http.put("/schedules/a", json=RULE, headers={"If-None-Match": "*"})
    changed = http.put("/schedules/a", json={**RULE, "queue": "x"}, headers={"If-Match": first.headers["etag"]})
    stale = http.put("/schedules/a", json=RULE, headers={"If-Match": first.headers["etag"]})

    assert [201, 412, 200, 412] == [each.status_code for each in (first, taken, changed, stale)]
    body = stale.json()
    assert ("urn:zsched:error:version-conflict", first.json()["version"], changed.json()["version"]) == (
        body["type"], body["given"], body["present"],
    )  # fmt: skip
    assert "x" == http.get("/schedules/a").json()["queue"]


def test_a_stale_version_stops_every_change(http: httpx.Client) -> None:
    stale = {"If-Match": http.put("/schedules/a", json=RULE).headers["etag"]}
    http.patch("/schedules/a", json={"queue": "x"})

    answers = [
        *(http.post(f"/schedules/a:{verb}", headers=stale) for verb in ("pause", "resume")),
        http.delete("/schedules/a", headers=stale),
        http.patch("/schedules/a", json={"queue": "y"}, headers=stale),
    ]

    assert [412] * 4 == [each.status_code for each in answers]
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


def test_the_log_and_the_story_name_the_token_that_asked(web: Web, http: httpx.Client, redis_url: str) -> None:
    http.put("/schedules/a", json=RULE)
    http.post("/schedules/a:pause")

    entries, _ = Client.from_url(redis_url).log()
    assert ["ann", "ann"] == [(entry.by or b"").decode() for entry in entries]
    assert "ann" in http.get("/schedules/a/story").text


def test_a_posted_schedule_is_made_once_per_idempotency_key(http: httpx.Client, redis_client: redis.Redis) -> None:
    key = {"Idempotency-Key": "order-77"}

    first, again = (http.post("/schedules", json=ONCE, headers=key) for _ in range(2))
    other = http.post("/schedules", json={**ONCE, "after": 60}, headers=key)
    without = http.post("/schedules", json=ONCE)

    assert (201, first.json()["id"], 201) == (first.status_code, again.json()["id"], again.status_code)
    assert [(422, "idempotency-key-used"), (428, "no-idempotency-key")] == [
        (each.status_code, each.json()["type"].rpartition(":")[2]) for each in (other, without)
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


def test_a_preview_needs_no_schedule(http: httpx.Client) -> None:
    rule = {"cron": "0 9 * * *", "tz": "Asia/Seoul", "n": 2, "start": "2026-12-24T00:00:00Z"}

    times = http.post("/preview", json=rule).json()["times"]

    assert ["2026-12-25T09:00:00+09:00", "2026-12-26T09:00:00+09:00"] == times


def test_a_backfill_with_dry_run_only_plans(http: httpx.Client) -> None:
    http.put("/schedules/a", json={"func": "app.x", "every": 3600, "starts": "2026-01-01T00:00:00Z"})
    body = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T03:00:00Z", "dry_run": True, "again": True}

    plan = http.post("/schedules/a:backfill", json=body)

    assert (200, 3) == (plan.status_code, len(plan.json()["runs"])), plan.text


def test_the_description_is_openapi_3_1_and_has_every_option(web: Web) -> None:
    document = web.get("/api/v1/openapi.json").json()

    assert document["openapi"].startswith("3.1")
    assert {"func", "cron", "if_version"} <= document["components"]["schemas"]["ScheduleOptions"]["properties"].keys()
    assert "/api/v1/schedules/{id}" in document["paths"]
