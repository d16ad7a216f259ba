"""Changes by filter over HTTP: counted first, then made; a limited caller changes its own schedules only."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.integration.web.ground import Web
from zsched import Client

OURS: dict[str, Any] = {"func": "app.mail.send", "every": 60, "queue": "mail", "tags": ["shop", "x"]}
THEIRS: dict[str, Any] = {"func": "app.pay.send", "every": 60, "queue": "pay", "tags": ["x"]}
LIMITS = {"funcs": ("app.mail.*",), "queues": ("mail",), "tags": ("shop",)}
ALL = {"filter": {"tag": "x"}}


@pytest.fixture(autouse=True)
def schedules(client: Client) -> None:
    for number in range(3):
        client.schedule(id=f"ours-{number}", **OURS)
        client.schedule(id=f"theirs-{number}", **THEIRS)


def states(client: Client) -> dict[str, str]:
    return {each.id: each.state.value for each in client.list()}


def test_a_dry_run_counts_and_changes_nothing(http: httpx.Client, client: Client) -> None:
    for verb, found in (("pause", 6), ("cancel", 6), ("resume", 0)):
        plan = http.post(f"/schedules:{verb}", json={**ALL, "dry_run": True}).json()
        assert (found, 0, True) == (plan["found"], plan["done"], plan["dry_run"])
        assert found == len(plan["sample"])
    assert {"active"} == set(states(client).values())


def test_schedules_that_a_filter_finds_are_paused_resumed_and_cancelled(http: httpx.Client, client: Client) -> None:
    paused = http.post("/schedules:pause", json={"filter": {"queue": "mail"}, "note": "no provider"}).json()
    assert (3, 3, 0) == (paused["found"], paused["done"], paused["refused_count"])
    assert "no provider" == client.get("ours-0").note
    assert {"active": 3, "paused": 3} == {
        state: list(states(client).values()).count(state) for state in ("active", "paused")
    }

    resumed = http.post("/schedules:resume", json={"filter": {"match": "ours-*"}, "limit": 2}).json()
    assert (2, 2) == (resumed["found"], resumed["done"])
    cancelled = http.post("/schedules:cancel", json={"filter": {"match": "*"}}).json()
    assert (6, 6) == (cancelled["found"], cancelled["done"])
    assert {} == states(client)


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_limited_caller_changes_its_own_schedules_only(web: Web, client: Client, verb: str) -> None:
    with web.client("shop", "scheduler", **LIMITS) as shop:
        plan = shop.post(f"/schedules:{verb}", json={**ALL, "dry_run": True}).json()
        done = shop.post(f"/schedules:{verb}", json=ALL).json()
        again = shop.post(f"/schedules:{verb}", json=ALL).json()

    assert (3, ["ours-0", "ours-1", "ours-2"], True) == (plan["found"], sorted(plan["sample"]), plan["dry_run"])
    assert (3, 3, 0) == (done["found"], done["done"], done["skipped"])
    assert 0 == again["found"]
    left = states(client)
    assert {"active"} == {left[f"theirs-{number}"] for number in range(3)}
    assert all(left.get(f"ours-{number}") in (None, "paused") for number in range(3))


def test_a_limited_caller_resumes_its_own_schedules_only(web: Web, http: httpx.Client, client: Client) -> None:
    http.post("/schedules:pause", json=ALL)
    with web.client("shop", "scheduler", **LIMITS) as shop:
        assert 3 == shop.post("/schedules:resume", json={**ALL, "missed": "skip"}).json()["done"]

    assert {"ours": "active", "theirs": "paused"} == {id.split("-")[0]: state for id, state in states(client).items()}


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
    web: Web, client: Client, body: dict[str, Any], option: str, limits: dict[str, Any]
) -> None:
    with web.client("shop", "scheduler", **limits) as shop:
        for verb in ("pause", "resume", "cancel"):
            answer = shop.post(f"/schedules:{verb}", json=body)
            assert (422, option) == (answer.status_code, answer.json()["option"])
            assert answer.json()["remedy"]
    assert {"active"} == set(states(client).values())
