"""``zsched users``: people, and their passwords, which no command line has."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from tests.integration.terminals import PseudoTerminal
from tests.integration.web.ground import PASSWORD, Web
from zsched.cli.program import NOT_FOUND, USAGE
from zsched.embedded.guard import Guard

ADD = ("users", "add", "ann", "--role", "scheduler")
STDIN = ("--password-file", "-")


def test_people_are_added_listed_and_removed(web: Web, redis_client: redis.Redis) -> None:
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


def test_an_unknown_person_is_not_found(web: Web, redis_client: redis.Redis) -> None:
    gone = web.zsched("users", "remove", "bob"), web.zsched("users", "password", "bob", *STDIN, input=PASSWORD)

    assert [NOT_FOUND, NOT_FOUND] == [each.exit_code for each in gone]


def test_a_name_is_given_once(web: Web, redis_client: redis.Redis) -> None:
    first, second = web.zsched(*ADD, *STDIN, input=PASSWORD), web.zsched(*ADD, *STDIN, input=PASSWORD)

    assert (0, USAGE) == (first.exit_code, second.exit_code)
    assert "name='ann': a person has this name; give another" in second.stderr


@pytest.mark.parametrize(
    ("password", "problem"),
    [("sesame", "it is too short; give 8"), ("x" * 1001, "it is too long"), ("", "it is too short")],
)
def test_a_bad_password_is_refused_and_not_repeated(
    web: Web, redis_client: redis.Redis, password: str, problem: str
) -> None:
    refused = web.zsched(*ADD, *STDIN, input=f"{password}\n")

    assert (USAGE, True) == (refused.exit_code, problem in refused.stderr)
    assert not password or password not in refused.stderr
    assert not redis_client.exists("zsched-web:{default}:people")


def test_a_password_comes_from_a_file(web: Web, redis_client: redis.Redis, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")

    assert 0 == web.zsched(*ADD, "--password-file", str(file)).exit_code
    with web.stranger() as browser:
        assert 303 == browser.post("/login", data={"name": "ann", "password": PASSWORD}).status_code
    refused = web.zsched(*ADD, "--password-file", str(tmp_path / "gone"))
    assert (USAGE, True) == (refused.exit_code, "No such file" in refused.stderr)


def test_a_missing_terminal_and_file_get_the_remedy(web: Web, redis_client: redis.Redis) -> None:
    refused = web.zsched(*ADD)

    assert USAGE == refused.exit_code
    assert "give --password-file FILE, or - for stdin" in refused.stderr


@pytest.mark.true_start
def test_a_terminal_is_asked_twice_and_shows_no_password(web: Web, redis_client: redis.Redis, guard: Guard) -> None:
    terminal = PseudoTerminal(100, 20)
    asked = web.spawn(guard, *ADD, stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave)

    for question in ("Password: ", "The same again: "):
        terminal.wait_for(question)
        terminal.type(f"{PASSWORD}\n")
    terminal.wait_for("ann has the role scheduler")

    assert 0 == asked.wait(20)
    assert PASSWORD not in terminal.everything
    assert b'"n": 32768' in redis_client.hget("zsched-web:{default}:people", "ann")  # the true cost, in its process
    terminal.close()
    with web.stranger() as browser:
        assert 303 == browser.post("/login", data={"name": "ann", "password": PASSWORD}).status_code
