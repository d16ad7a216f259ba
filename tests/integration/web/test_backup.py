"""``zsched tokens export`` and ``import``: a backup of the tokens, for a Redis that was lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis

from tests.integration.web.ground import Web

pytestmark = pytest.mark.redis
WITHIN = {"func": "app.mail.send", "after": 60, "queue": "mail", "tags": ["shop"]}
LIMITS = {"funcs": ("app.mail.*",), "queues": ("mail",), "tags": ("shop",)}


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return tmp_path / "tokens.jsonl"


def export(web: Web, file: Path) -> list[str]:
    """Export the tokens into *file*; return its lines."""
    done = web.zsched("tokens", "export")
    assert 0 == done.exit_code, done.stderr
    file.write_text(done.stdout)
    return done.stdout.splitlines()


def test_tokens_of_a_lost_redis_admit_again_after_an_import(web: Web, backup: Path, redis_client: redis.Redis) -> None:
    secret = web.token("shop", "scheduler", sees_arguments=True, **LIMITS)
    web.zsched.json("tokens", "add", "ann", "--role", "viewer", "--expires", "90d")
    before = web.zsched.json("tokens", "list")
    export(web, backup)
    redis_client.flushall()

    restored = web.zsched.json("tokens", "import", str(backup))

    assert [{"name": "ann", "result": "added"}, {"name": "shop", "result": "added"}] == restored
    assert before == web.zsched.json("tokens", "list")
    with web.client_of(secret) as shop:
        assert 201 == shop.put("/schedules/a", json=WITHIN).status_code
        assert 403 == shop.put("/schedules/b", json={**WITHIN, "queue": "pay"}).status_code


def test_an_export_has_digests_and_no_secret(web: Web, backup: Path) -> None:
    secret = web.token("ann")

    [line] = export(web, backup)

    assert secret.removeprefix("zs_") not in line
    assert ("ann", 64) == (json.loads(line)["name"], len(json.loads(line)["sha256"]))


def test_an_import_changes_nothing_that_is_there(web: Web, backup: Path, redis_client: redis.Redis) -> None:
    for name in ("ann", "shop"):
        web.token(name)
    export(web, backup)
    before = redis_client.hgetall("zsched-web:{default}:tokens")

    done = web.zsched("tokens", "import", str(backup))

    assert (0, "0 tokens added, 2 there already\n") == (done.exit_code, done.stdout)
    assert before == redis_client.hgetall("zsched-web:{default}:tokens")


def test_a_name_that_another_token_has_is_refused_and_the_others_are_added(web: Web, backup: Path) -> None:
    old = web.token("ann")
    web.token("shop")
    export(web, backup)
    web.zsched.json("tokens", "revoke", "ann")
    web.zsched.json("tokens", "revoke", "shop")
    new = web.token("ann", "viewer")

    done = web.zsched("tokens", "import", str(backup))

    assert 1 == done.exit_code
    assert "1 token added, 0 there already\n" == done.stdout
    assert "ann is refused: another token has this name" in done.stderr
    with web.client_of(old) as before, web.client_of(new) as now:
        assert [401, 200] == [each.get("/schedules").status_code for each in (before, now)]


def test_a_token_with_other_rights_than_in_the_backup_stays_as_it_is(web: Web, backup: Path) -> None:
    web.token("ann", "viewer")
    [line] = export(web, backup)
    backup.write_text(json.dumps(json.loads(line) | {"role": "operator"}))

    done = web.zsched("tokens", "import", str(backup))

    assert 1 == done.exit_code
    assert "ann is refused: it is there with another name" in done.stderr
    assert ["viewer"] == [each["role"] for each in web.zsched.json("tokens", "list")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no json", "not a token"),
        ("[]", "not a token"),
        ('{"name": "eve"}', "'sha256' is missing"),
        (
            '{"sha256": "x", "name": "eve", "role": "viewer", "arguments": false, "funcs": [], "queues": [], '
            '"tags": [], "created_ms": 1, "created_by": "ann", "expires_ms": null}',
            "sha256 is not 64 hexadecimal digits",
        ),
    ],
)
def test_a_file_with_a_mistake_adds_nothing(
    web: Web, backup: Path, redis_client: redis.Redis, line: str, reason: str
) -> None:
    web.token("ann")
    export(web, backup)
    redis_client.flushall()
    backup.write_text(f"{backup.read_text()}{line}\n")

    done = web.zsched("tokens", "import", str(backup))

    assert 2 == done.exit_code
    assert f"{backup}:2: not a token: " in done.stderr
    assert reason in done.stderr
    assert [] == web.zsched.json("tokens", "list")


def test_an_import_reads_standard_input(web: Web, backup: Path, redis_client: redis.Redis) -> None:
    web.token("ann")
    export(web, backup)
    redis_client.flushall()

    assert 0 == web.zsched("tokens", "import", "-", input=backup.read_text()).exit_code
    assert ["ann"] == [each["name"] for each in web.zsched.json("tokens", "list")]
