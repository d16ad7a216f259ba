"""PUT requests that are cut at any moment and sent again: one schedule and one log entry, and no update is lost."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import redis

from tests.breadth import everything
from tests.faults.processes import WITHIN_S
from tests.integration.client.ground import KEYS
from tests.integration.web.ground import Web
from tests.integration.web.raw import Answer, Api, connected, cut, put_bytes, status_of
from zsched import Client

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


def test_a_key_with_another_function_is_refused(http: httpx.Client) -> None:
    answers = [
        http.post("/schedules", json={"func": func, "after": 60}, headers={"Idempotency-Key": "k"})
        for func in ("app.x", "app.mail.send")
    ]

    assert [201, 422] == [each.status_code for each in answers]


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
