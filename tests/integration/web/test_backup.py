"""``zsched tokens`` and ``users``, ``export`` and ``import``: a backup of accounts, for a Redis that was lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis

from tests.integration.web.ground import PASSWORD, Web
from zsched.cli.program import DONE, FAILED, USAGE

WITHIN = {"func": "app.mail.send", "after": 60, "queue": "mail", "tags": ["shop"]}
LIMITS = {"funcs": ("app.mail.*",), "queues": ("mail",), "tags": ("shop",)}
KINDS = pytest.mark.parametrize("kind", ["tokens", "users"])


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


def test_accounts_of_a_lost_redis_admit_again_after_an_import(
    web: Web, redis_client: redis.Redis, tmp_path: Path
) -> None:
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
def test_an_import_reads_standard_input_and_changes_nothing_that_is_there(
    web: Web, redis_client: redis.Redis, kind: str
) -> None:
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


SHORT_DIGEST = (
    '{"sha256": "x", "name": "eve", "role": "viewer", "arguments": false, "funcs": [], "queues": [], '
    '"tags": [], "created_ms": 1, "created_by": "ann", "expires_ms": null}'
)


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
