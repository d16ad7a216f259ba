"""``zsched users``: people, and their passwords, which no command line has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis

from tests.builders.web import PASSWORD, Web
from tests.integration.terminals import PseudoTerminal
from tests.integration.web.routes import LIMITS, WITHIN
from tests.waiting import WITHIN_S
from zsched.cli.program import DONE, FAILED, NOT_FOUND, USAGE
from zsched.embedded.guard import Guard

ADD = ("users", "add", "ann", "--role", "scheduler")
STDIN = ("--password-file", "-")
KINDS = pytest.mark.parametrize("kind", ["tokens", "users"])
SHORT_DIGEST = (
    '{"sha256": "x", "name": "eve", "role": "viewer", "arguments": false, "funcs": [], "queues": [], '
    '"tags": [], "created_ms": 1, "created_by": "ann", "expires_ms": null}'
)


def test_people_are_added_listed_and_removed(web: Web) -> None:
    limits = ("--func", "app.mail.*", "--queue", "mail", "--tag", "shop", "--arguments", "--expires", "90d")
    added = web.zsched(*ADD, *limits, *STDIN, "--json", input=PASSWORD)
    [shown] = web.zsched.json("users", "list")

    assert 0 == added.exit_code, added.stderr
    assert ("ann", "scheduler", ["app.mail.*"], ["mail"], ["shop"], True) == (
        shown["name"], shown["role"], shown["funcs"], shown["queues"], shown["tags"], shown["arguments"],
    )  # fmt: skip
    assert shown["expires_at"] > shown["created_at"]
    assert "ann   scheduler" in web.zsched("users", "list").stdout
    assert "removed" == web.zsched.json("users", "remove", "ann")["result"]
    assert [] == web.zsched.json("users", "list")


@pytest.mark.parametrize(
    ("password", "problem"),
    [("sesame", "it is too short; give 8"), ("x" * 1001, "it is too long"), ("", "it is too short")],
)
def test_a_bad_password_is_refused_unrepeated(web: Web, redis_client: redis.Redis, password: str, problem: str) -> None:
    refused = web.zsched(*ADD, *STDIN, input=f"{password}\n")

    assert (USAGE, True) == (refused.exit_code, problem in refused.stderr)
    assert not password or password not in refused.stderr
    assert not redis_client.exists("zsched-web:{default}:people")


def test_a_password_comes_from_a_file_and_what_is_missing_or_there_gets_the_remedy(web: Web, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")

    assert 0 == web.zsched(*ADD, "--password-file", str(file)).exit_code
    with web.stranger() as browser:
        assert 303 == browser.post("/login", data={"name": "ann", "password": PASSWORD}).status_code
    refused = web.zsched(*ADD, "--password-file", str(tmp_path / "gone"))
    assert (USAGE, True) == (refused.exit_code, "No such file" in refused.stderr)

    refused = web.zsched(*ADD)

    assert USAGE == refused.exit_code
    assert "give --password-file FILE, or - for stdin" in refused.stderr

    gone = web.zsched("users", "remove", "bob"), web.zsched("users", "password", "bob", *STDIN, input=PASSWORD)

    assert [NOT_FOUND, NOT_FOUND] == [each.exit_code for each in gone]

    second = web.zsched(*ADD, *STDIN, input=PASSWORD)

    assert USAGE == second.exit_code
    assert "name='ann': a person has this name; give another" in second.stderr


@pytest.mark.true_start
def test_a_terminal_is_asked_twice_and_shows_no_password(web: Web, redis_client: redis.Redis, guard: Guard) -> None:
    terminal = PseudoTerminal(100, 20)
    asked = web.spawn(guard, *ADD, stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave)

    for question in ("Password: ", "The same again: "):
        terminal.wait_for(question)
        terminal.type(f"{PASSWORD}\n")
    terminal.wait_for("ann has the role scheduler")

    assert 0 == asked.wait(WITHIN_S)
    assert PASSWORD not in terminal.everything
    assert b'"n": 32768' in redis_client.hget("zsched-web:{default}:people", "ann")  # the true cost, in its process
    terminal.close()
    with web.stranger() as browser:
        assert 303 == browser.post("/login", data={"name": "ann", "password": PASSWORD}).status_code


def add(web: Web, kind: str, name: str) -> None:
    """Add an account: a token, or a person."""
    (web.token if kind == "tokens" else web.person)(name)


def export(web: Web, kind: str) -> list[str]:
    """Return the lines of a backup."""
    done = web.zsched(kind, "export")
    assert DONE == done.exit_code, done.stderr
    return list(done.stdout.splitlines())


def stored(redis_client: redis.Redis, kind: str) -> dict[bytes, bytes]:
    return redis_client.hgetall(f"zsched-web:{{default}}:{'tokens' if kind == 'tokens' else 'people'}")  # type: ignore[no-any-return]


def test_accounts_of_a_lost_redis_admit_after_an_import(web: Web, redis_client: redis.Redis, tmp_path: Path) -> None:
    secret = web.token("shop", "scheduler", sees_arguments=True, **LIMITS)
    web.zsched.json("tokens", "add", "ann", "--role", "viewer", "--expires", "90d")
    web.person("ann", "viewer", queues=("mail",))
    web.person("bob")
    before = {kind: (web.zsched.json(kind, "list"), export(web, kind)) for kind in ("tokens", "users")}
    redis_client.flushall()

    for (kind, (listed, lines)), names in zip(before.items(), (("ann", "shop"), ("ann", "bob")), strict=True):
        (tmp_path / kind).write_text("\n".join(lines))
        restored = web.zsched.json(kind, "import", str(tmp_path / kind))
        assert [{"name": name, "result": "added"} for name in names] == restored
        assert listed == web.zsched.json(kind, "list")

    assert PASSWORD not in "".join(before["users"][1])
    with web.client_of(secret) as shop, web.stranger() as browser:
        assert 201 == shop.put("/schedules/a", json=WITHIN).status_code
        assert 403 == shop.put("/schedules/b", json={**WITHIN, "queue": "pay"}).status_code
        assert 303 == browser.post("/login", data={"name": "ann", "password": PASSWORD}).status_code


def test_an_export_of_tokens_has_digests_and_no_secret(web: Web) -> None:
    secret = web.token("ann")

    [line] = export(web, "tokens")

    assert secret.removeprefix("zs_") not in line
    assert ("ann", 64) == (json.loads(line)["name"], len(json.loads(line)["sha256"]))


@KINDS
def test_an_import_reads_stdin_and_changes_nothing_there(web: Web, redis_client: redis.Redis, kind: str) -> None:
    for name in ("ann", "shop"):
        add(web, kind, name)
    backup, before = "\n".join(export(web, kind)), stored(redis_client, kind)

    done = web.zsched(kind, "import", "-", input=backup)

    assert (DONE, f"0 {kind} added, 2 there already\n") == (done.exit_code, done.stdout)
    assert before == stored(redis_client, kind)


def test_a_name_that_another_token_has_is_refused_and_the_others_are_added(web: Web) -> None:
    old = web.token("ann")
    web.token("shop")
    backup = "\n".join(export(web, "tokens"))
    web.zsched.json("tokens", "revoke", "ann")
    web.zsched.json("tokens", "revoke", "shop")
    new = web.token("ann", "viewer")

    done = web.zsched("tokens", "import", "-", input=backup)

    assert (FAILED, "1 token added, 0 there already\n") == (done.exit_code, done.stdout)
    assert "ann is refused: another token has this name" in done.stderr
    with web.client_of(old) as before, web.client_of(new) as now:
        assert [401, 200] == [each.get("/schedules").status_code for each in (before, now)]


@KINDS
def test_an_account_that_differs_from_the_backup_stays_as_it_is(web: Web, redis_client: redis.Redis, kind: str) -> None:
    for name in ("ann", "bob"):
        add(web, kind, name)
    ann, bob = sorted(export(web, kind), key=lambda line: str(json.loads(line)["name"]))
    if kind == "users":
        web.zsched("users", "password", "ann", "--password-file", "-", input="another one")
    else:
        ann = json.dumps(json.loads(ann) | {"role": "viewer"})
    before = stored(redis_client, kind)

    done = web.zsched(kind, "import", "-", input=f"{ann}\n{bob}")

    assert (FAILED, f"0 {kind} added, 1 there already\n") == (done.exit_code, done.stdout)
    assert "ann is refused: it is there with another name" in done.stderr
    assert before == stored(redis_client, kind)


@pytest.mark.parametrize(
    ("kind", "line", "reason"),
    [
        ("tokens", "no json", ""),
        ("tokens", "[]", ""),
        ("tokens", '{"name": "eve"}', "'sha256' is missing"),
        ("tokens", SHORT_DIGEST, "sha256 is not 64 hexadecimal digits"),
        ("users", "x", ""),
        ("users", "[]", ""),
        ("users", '{"name": "eve"}', ""),
        ("users", "TOKEN", ""),
    ],
)
def test_a_backup_with_a_mistake_adds_nothing(
    web: Web, redis_client: redis.Redis, tmp_path: Path, kind: str, line: str, reason: str
) -> None:
    add(web, kind, "ann")
    web.token("eve")
    lines, [*_, token] = export(web, kind)[:1], export(web, "tokens")
    redis_client.flushall()
    file = tmp_path / "backup"
    file.write_text("\n".join([*lines, line.replace("TOKEN", token)]))

    done = web.zsched(kind, "import", str(file))

    assert (USAGE, []) == (done.exit_code, web.zsched.json(kind, "list"))
    assert f"{file}:2: not a {kind.rstrip('s')}: " in done.stderr
    assert reason in done.stderr
