"""Access to the API, and that nobody else has it: tokens, roles, limits, and a trusted proxy."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.builders.web import Web
from tests.integration.client.calls import KEYS
from tests.integration.web.routes import LIMITS, WITHIN, write_routes
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.cli.program import USAGE
from zsched.core.runs.attempts import Attempt, attempts_text
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

WRITES = [(method, path.format(id="a", run_id="a-1795650943297", name="kr")) for method, path in write_routes()]
OUTSIDE = [{"func": "app.pay.send"}, {"queue": "pay"}, {"tags": ["other"]}, {"tags": []}]
BEHIND = {
    "ZSCHED_WEB_PROXY_HEADER": "X-Forwarded-User",
    "ZSCHED_WEB_PROXY_ROLE_HEADER": "X-Forwarded-Role",
    "ZSCHED_WEB_PROXY_ADDRESSES": "192.0.2.0/24,127.0.0.1",
}
ANN = {"X-Forwarded-User": "ann", "X-Forwarded-Role": "operator"}


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer"}, {"Authorization": "Basic eDp4"}])
def test_a_request_without_a_token_is_refused(web: Web, header: dict[str, str]) -> None:
    for path in ("/schedules", "/schedules/a", "/runs", "/log", "/events"):
        answer = web.get(f"/api/v1{path}", headers=header)
        assert (401, "Bearer") == (answer.status_code, answer.headers["www-authenticate"])
        assert "zsched tokens add" in answer.json()["remedy"]


@pytest.mark.parametrize("outside", OUTSIDE)
def test_a_scheduler_changes_nothing_outside_of_its_limits(
    web: Web, http: httpx.Client, redis_client: redis.Redis, outside: dict[str, Any]
) -> None:
    http.put("/schedules/theirs", json={**WITHIN, **outside})
    with web.client("shop", "scheduler", **LIMITS) as shop:
        assert 201 == shop.put("/schedules/a", json=WITHIN).status_code
        before = redis_client.xlen(KEYS.log())
        key = {"Idempotency-Key": "k"}
        answers = [
            shop.put("/schedules/b", json={**WITHIN, **outside}),  # it would be outside
            shop.put("/schedules/a", json={**WITHIN, **outside}),
            shop.post("/schedules", json={**WITHIN, **outside}, headers=key),
            shop.patch("/schedules/a", json=outside),
        ]  # fmt: skip
        listed = [one["id"] for one in shop.get("/schedules").json()["schedules"]]

    assert [403] * len(answers) == [each.status_code for each in answers]
    assert {"urn:zsched:error:outside-limits"} == {each.json()["type"] for each in answers}
    assert before == redis_client.xlen(KEYS.log())
    assert ["a"] == listed


def test_a_scheduler_works_within_its_limits(web: Web) -> None:
    with web.client("shop", "scheduler", **LIMITS) as shop:
        made = [shop.put("/schedules/a", json=WITHIN), shop.put("/schedules/a", json={**WITHIN, "timeout": 60})]
        patched = shop.patch("/schedules/a", json={"timeout": 90})
        paused, resumed = shop.post("/schedules/a:pause"), shop.post("/schedules/a:resume")
        gone = shop.delete("/schedules/a")

    assert [201, 200, 200, 200, 200, 200] == [each.status_code for each in (*made, patched, paused, resumed, gone)]


RULED = {name: value for name, value in WITHIN.items() if name != "after"}
OFTEN = [
    {"every": 0.001}, {"every": "999ms"}, {"every": 0.5, "starts": "2099-01-01T00:00:00Z"}, {"every": 0.5, "count": 2},
]  # fmt: skip
RARELY = [
    {"every": 1}, {"every": "1s", "jitter": 0.5}, {"every": 0.5, "count": 1}, {"every": "20d"}, {"cron": "* * * * *"},
    {"rrule": "FREQ=DAILY;BYSECOND=0,1,2"}, {"cron": "0 0 29 2 *", "tz": "Asia/Seoul"},
]  # fmt: skip
DOORS: list[Callable[[httpx.Client, dict[str, Any]], tuple[int, dict[str, Any]]]] = [
    lambda http, rule: told(http.put("/schedules/new", json=RULED | rule)),
    lambda http, rule: told(http.put("/schedules/there", json=RULED | rule)),
    lambda http, rule: told(http.post("/schedules", json=RULED | rule, headers={"Idempotency-Key": "k"})),
    lambda http, rule: told(http.patch("/schedules/there", json={"every": None, "after": None} | rule)),
    lambda http, rule: told(http.post("/schedules:batch", content=json.dumps({"id": "new"} | RULED | rule))),
]


def told(answer: httpx.Response) -> tuple[int, dict[str, Any]]:
    """Return the status and the problem of an answer, or of the row of a batch."""
    body = answer.json()
    return (answer.status_code, body) if "error" not in body else (422, body["error"])


@pytest.mark.parametrize("door", DOORS, ids=["new", "replaced", "made", "patched", "batch"])
@pytest.mark.parametrize("rule", OFTEN, ids=str)
def test_a_limited_caller_schedules_nothing_more_often_than_the_least_interval(
    web: Web, http: httpx.Client, redis_client: redis.Redis, door: Any, rule: dict[str, Any]
) -> None:
    http.put("/schedules/there", json={**RULED, "every": 3600})
    before = redis_client.xlen(KEYS.log())
    with web.client("shop", "scheduler", **LIMITS) as shop:
        status, problem = door(shop, rule)

    assert (422, "every", "give 1 s or more between two") == (status, problem["option"], problem["remedy"])
    assert rule["every"] == problem["value"]
    assert before == redis_client.xlen(KEYS.log())


@pytest.mark.parametrize("rule", RARELY, ids=str)
def test_a_limited_caller_schedules_as_often_as_the_least_interval(web: Web, rule: dict[str, Any]) -> None:
    with web.client("shop", "scheduler", **LIMITS) as shop:
        assert 201 == shop.put("/schedules/a", json={**RULED, **rule}).status_code
        assert 200 == shop.patch("/schedules/a", json={"timeout": 60}).status_code


def test_the_least_interval_is_a_setting_and_binds_nobody_without_limits(start_web: Callable[..., Web]) -> None:
    web = start_web(ZSCHED_WEB_LEAST_EVERY_S="60")
    rules = [{"every": 59}, {"rrule": "FREQ=WEEKLY;BYDAY=MO;BYSECOND=0,30"}, {"every": 60}, {"cron": "* * * * *"}]
    with web.client("shop", "scheduler", **LIMITS) as shop, web.client() as free:
        limited = [shop.put(f"/schedules/{n}", json={**RULED, **rule}).status_code for n, rule in enumerate(rules)]
        fast = free.put("/schedules/fast", json={**RULED, "every": 0.01})
        kept = shop.patch("/schedules/fast", json={"timeout": 60})

    assert [422, 422, 201, 201] == limited
    assert (201, 200) == (fast.status_code, kept.status_code)


def test_a_limited_person_changes_no_schedule_to_run_more_often_than_the_least_interval(
    web: Web, http: httpx.Client
) -> None:
    made = http.put("/schedules/a", json={**RULED, "every": 3600}).json()
    with web.browser("joe", "scheduler", **LIMITS) as browser:
        page = browser.get("/schedules/a/edit").text
        [version], [opened] = re.findall(r'name="version" value="([^"]*)"', page), re.findall(r"\bevery:\S+", page)
        given = {"version": version, "opened": opened, "every": "500ms"}
        saved = browser.post("/schedules/a/edit", data=given)

    assert 422 == saved.status_code
    assert "give 1 s or more between two" in saved.text
    assert made["version"] == http.get("/schedules/a").json()["version"]


@pytest.mark.parametrize("limits", [{}, LIMITS], ids=["unlimited", "limited"])
def test_a_version_in_the_body_of_a_patch_is_a_condition(web: Web, limits: dict[str, Any]) -> None:
    with web.client("shop", "scheduler", **limits) as shop:
        first = shop.put("/schedules/a", json=WITHIN).json()["version"]
        second = shop.put("/schedules/a", json={**WITHIN, "timeout": 60}).json()["version"]

        outdated = shop.patch("/schedules/a", json={"timeout": 70, "if_version": first})
        both = [
            shop.request(method, "/schedules/a", headers={"If-Match": f'"{second}"'}, json=body)
            for method, body in [
                ("PATCH", {"timeout": 70, "if_version": first}),
                ("PUT", {**WITHIN, "timeout": 70, "if_version": first}),
            ]
        ]
        assert second == shop.get("/schedules/a").json()["version"]
        done = shop.patch("/schedules/a", json={"timeout": 70, "if_version": second})

    assert (412, first, second) == (outdated.status_code, outdated.json()["given"], outdated.json()["present"])
    assert [400, 400] == [answer.status_code for answer in both]
    assert 200 == done.status_code


def test_arguments_need_a_right_of_their_own(start_web: Callable[..., Web]) -> None:
    web = start_web(ZSCHED_RQ_SERIALIZER="json")
    with web.client("ann") as plain, web.client("eve", "viewer", sees_arguments=True) as seeing:
        plain.put("/schedules/a", json={**WITHIN, "args": ["secret"]})

        assert (None, ["secret"]) == (
            plain.get("/schedules/a").json()["args"],
            seeing.get("/schedules/a").json()["args"],
        )
        assert [None] == [one["args"] for one in plain.get("/schedules").json()["schedules"]]


def test_tracebacks_need_the_right_to_see_arguments(web: Web, http: httpx.Client, redis_client: redis.Redis) -> None:
    run_id = Client(redis_client).enqueue("app.x", id="a", retry=1).run_id or ""
    attempt = Attempt(1, "w", 1, 2, 3, "ValueError: no", 4, "Traceback:\n  secret\nValueError: no")
    redis_client.hset(KEYS.rq.job(run_id), mapping={"zs_attempts": attempts_text([attempt])})
    with web.client("eve", "viewer", sees_arguments=True) as seeing:
        shown = [client.get(f"/runs/{run_id}").json()["attempts"][0] for client in (http, seeing)]
    with web.browser("bob") as bob, web.browser("zoe", sees_arguments=True) as zoe:
        pages = [browser.get(f"/runs/{run_id}").text for browser in (bob, zoe)]

    assert ["ValueError: no"] * 2 == [one["error"] for one in shown]
    assert [None, attempt.traceback] == [one["traceback"] for one in shown]
    assert [False, True] == ["secret" in page for page in pages]


def test_a_revoked_or_expired_token_is_rejected(web: Web) -> None:
    with web.client("ann") as client:
        assert 200 == client.get("/schedules").status_code
        assert {"name": "ann", "result": "revoked"} == web.zsched.json("tokens", "revoke", "ann")

        assert 401 == client.get("/schedules").status_code

    secret = web.zsched.json("tokens", "add", "ann", "--role", "viewer", "--expires", "1s")["token"]
    with web.client_of(secret) as client:
        eventually(lambda: client.get("/schedules").status_code == 401)


def test_a_request_and_a_login_record_the_use_of_a_token(web: Web) -> None:
    for name in ("api", "nobody"):
        web.token(name)
    with web.client("shop") as shop, web.browser("ann"):
        shop.get("/schedules")

    listed = {one["name"]: one["used_at"] is not None for one in web.zsched.json("tokens", "list")}

    assert {"api": False, "nobody": False, "shop": True, "ann": True} == listed


BROKEN: list[tuple[str, Callable[[Path], object]]] = [
    ("Invalid value", lambda file: file.write_text("cookie_key =")),
    (
        "[accounts.ann] role='boss': write one of",
        lambda file: file.write_text(file.read_text().replace("operator", "boss")),
    ),
    ("its mode is 0644: other users of this machine can read it; chmod 600", lambda file: file.chmod(0o644)),
    ("No such file or directory; make one with: zsched tokens add", lambda file: file.unlink()),
]


@pytest.mark.parametrize(("reason", "break_it"), BROKEN, ids=["no TOML", "a wrong line", "open to others", "missing"])
def test_a_file_of_accounts_that_breaks_changes_nothing_until_it_is_good_again(
    web: Web, reason: str, break_it: Callable[[Path], object]
) -> None:
    file, told = web.accounts.path, len(web.events("accounts_refused"))
    with web.client("ann") as ann, web.browser("bob") as bob:
        good = file.read_text()
        assert 200 == ann.get("/schedules").status_code
        break_it(file)

        assert [200] * 4 == [each.get(path).status_code for each, path in [(ann, "/schedules"), (bob, "/")] * 2]
        [event] = web.events("accounts_refused")[told:]
        assert (2, True) == (event["accounts"], reason in event["problem"])
        assert str(file) in event["problem"]

        file.write_text(good.replace("accounts.ann", "accounts.joe"))
        file.chmod(0o600)
        bob.put("/api/v1/schedules/a", json=WITHIN)
        ann.put("/schedules/a", json=WITHIN | {"timeout": 60})
        assert "joe" in bob.get("/log").text


def test_a_server_without_accounts_says_so_and_admits_an_account_when_it_is_added(
    start_web: Callable[..., Web], tmp_path: Path
) -> None:
    web = start_web()
    [event] = web.events("accounts_refused")

    assert 0 == event["accounts"]
    assert f"{tmp_path}/accounts.toml: No such file" in event["problem"]
    assert event["problem"].endswith("; make one with: zsched tokens add NAME --role operator")
    with web.client("ann") as ann:
        assert 200 == ann.get("/schedules").status_code


@pytest.mark.parametrize(("text", "mode", "problem"), [
    ("[accounts.ann]\nrole = 'boss'\n", 0o600, "[accounts.ann] role='boss': write one of: viewer, scheduler, operator"),
    ("", 0o640, "its mode is 0640: other users of this machine can read it; chmod 600"),
])  # fmt: skip
def test_a_server_does_not_start_on_a_file_of_accounts_that_it_cannot_use(
    guard: Guard, redis_url: str, tmp_path: Path, text: str, mode: int, problem: str
) -> None:
    file = tmp_path / "accounts.toml"
    file.write_text(text)
    file.chmod(mode)
    ended = guard.spawn(
        [sys.executable, "-m", "zsched.cli", "web", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE,
        env=os.environ | {"ZSCHED_REDIS_URL": redis_url, "ZSCHED_WEB_ACCOUNTS_FILE": str(file)},
    )  # fmt: skip
    _, said = ended.communicate(timeout=WITHIN_S)

    assert (USAGE, True) == (ended.returncode, f"{file}: {problem}" in said.decode())


@pytest.fixture(scope="module")
def behind_server(redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Guard() as guard:
        yield Web(guard, redis_server.url, tmp_path_factory.mktemp("behind"), **BEHIND)


@pytest.fixture
def behind(behind_server: Web, redis_client: redis.Redis) -> Web:
    return behind_server


def ask(web: Web, headers: Any, method: str = "GET", path: str = "/schedules") -> httpx.Response:
    return web.request(method, f"/api/v1{path}", headers=headers, json=WITHIN)


def test_a_proxy_names_the_person_and_their_role(behind: Web, redis_url: str) -> None:
    made = ask(behind, ANN | {"Origin": behind.url}, "PUT", "/schedules/a")

    assert 201 == made.status_code
    assert {b"ann"} == {entry.by for entry in Client.from_url(redis_url).log()[0]}


def test_a_person_whom_a_proxy_names_is_a_viewer_by_default_and_sees_no_arguments(behind: Web) -> None:
    named = {"X-Forwarded-User": "ann", "Origin": behind.url}

    assert 200 == ask(behind, named).status_code
    for method, path in WRITES:
        assert "urn:zsched:error:read-only" == ask(behind, named, method, path).json()["type"]

    assert 403 == behind.get("/rq/", headers=ANN).status_code


@pytest.mark.parametrize("role", ["root", "Operator", "viewer,operator"])
def test_an_unknown_role_is_refused(behind: Web, role: str) -> None:
    answer = ask(behind, ANN | {"X-Forwarded-Role": role})

    assert (403, "urn:zsched:error:bad-proxy-header") == (answer.status_code, answer.json()["type"])
    assert "send one of viewer, scheduler, operator" in answer.json()["remedy"]


@pytest.mark.parametrize("name", ["a\tb", "x" * 300])
def test_a_name_that_the_log_cannot_have_is_refused(behind: Web, name: str) -> None:
    assert 403 == ask(behind, ANN | {"X-Forwarded-User": name}).status_code


def test_a_name_may_have_any_letters(behind: Web, redis_url: str) -> None:
    named = {"X-Forwarded-User": "Zoë 김".encode(), "X-Forwarded-Role": b"operator", "Origin": behind.url.encode()}

    assert 201 == ask(behind, named, "PUT", "/schedules/a").status_code
    assert {"Zoë 김".encode()} == {entry.by for entry in Client.from_url(redis_url).log()[0]}


def test_a_header_of_a_proxy_that_is_missing_or_came_twice_is_refused(behind: Web) -> None:
    assert 401 == ask(behind, {"X-Forwarded-Role": "operator"}).status_code
    assert 401 == ask(behind, {"X-Forwarded-User": "", "X-Forwarded-Role": "operator"}).status_code

    for twice in ("X-Forwarded-User", "X-Forwarded-Role"):
        answer = ask(behind, [*ANN.items(), (twice, "viewer")])
        assert (403, "urn:zsched:error:bad-proxy-header") == (answer.status_code, answer.json()["type"])


@pytest.mark.parametrize("more", [{}, {"X-Forwarded-For": "192.0.2.1"}, {"Forwarded": "for=192.0.2.1"}])
def test_a_header_from_another_address_counts_as_absent(start_web: Callable[..., Web], more: dict[str, str]) -> None:
    web = start_web(**BEHIND | {"ZSCHED_WEB_PROXY_ADDRESSES": "192.0.2.0/24"})

    assert 401 == ask(web, ANN | more).status_code


def test_a_proxy_is_not_trusted_by_default(web: Web) -> None:
    assert 401 == ask(web, ANN).status_code


@pytest.mark.parametrize("origin", [{}, {"Origin": "https://evil.example"}])
def test_a_write_through_the_proxy_from_another_sites_page_is_refused(behind: Web, origin: dict[str, str]) -> None:
    for method, path in WRITES:
        assert "urn:zsched:error:cross-origin" == ask(behind, ANN | origin, method, path).json()["type"]


def test_a_login_goes_before_the_name_of_the_proxy(behind: Web) -> None:
    with behind.browser("bob", "viewer", sees_arguments=True) as bob:
        assert "<strong>bob</strong>, viewer" in bob.get("/login", headers=ANN).text
        assert 200 == bob.get("/rq/", headers=ANN).status_code
