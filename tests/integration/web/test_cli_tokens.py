"""``zsched tokens``: the accounts of a server, without Redis."""

import os
from pathlib import Path

import pytest

from tests.builders.command_line import Zsched
from zsched.cli.program import DONE, NOT_FOUND, USAGE
from zsched.web.accounts_file import AccountsFile

ADD = ("tokens", "add", "shop", "--role", "scheduler", "--func", "app.mail.*", "--queue", "mail", "--tag", "shop")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "accounts.toml"


@pytest.fixture
def zsched(file: Path) -> Zsched:
    """The command line, without a Redis."""
    return Zsched("redis://127.0.0.1:1/0", ZSCHED_WEB_ACCOUNTS_FILE=str(file))


def test_accounts_are_added_listed_and_revoked(zsched: Zsched) -> None:
    added = zsched.json(*ADD, "--arguments", "--expires", "90d")
    [shown] = zsched.json("tokens", "list")

    assert {**shown, "token": added["token"]} == {**added, "used_at": None}
    assert ("shop", "scheduler", ["app.mail.*"], ["mail"], ["shop"], True) == (
        shown["name"], shown["role"], shown["funcs"], shown["queues"], shown["tags"], shown["arguments"],
    )  # fmt: skip
    assert shown["expires_at"] > shown["created_at"]
    assert "shop  scheduler" in zsched("tokens", "list").stdout
    assert "revoked" == zsched.json("tokens", "revoke", "shop")["result"]
    assert [] == zsched.json("tokens", "list")
    assert NOT_FOUND == zsched("tokens", "revoke", "shop").exit_code


def test_the_expiry_of_an_account_is_set_to_a_time_a_duration_and_never(zsched: Zsched) -> None:
    added = zsched.json(*ADD, "--expires", "90d")
    ends = [
        zsched.json("tokens", "set", "shop", "--expires", when)["expires_at"]
        for when in ("2099-01-01T00:00Z", "1d", "never")
    ]
    [shown] = zsched.json("tokens", "list")

    assert ("2099-01-01T00:00:00.000Z", None) == (ends[0], ends[2])
    assert added["created_at"] < ends[1] < added["expires_at"]
    assert {**shown, "token": added["token"]} == {**added, "expires_at": None, "used_at": None}
    assert "shop: set" in zsched("tokens", "set", "shop", "--expires", "1d").stdout
    assert NOT_FOUND == zsched("tokens", "set", "nobody", "--expires", "1d").exit_code
    assert "neither a duration nor a time" in zsched("tokens", "set", "shop", "--expires", "soon").stderr


def test_a_token_is_printed_alone_and_the_file_is_named_beside_it(zsched: Zsched, file: Path) -> None:
    added = zsched("tokens", "add", "ann", "--role", "operator")

    assert (DONE, "zs_") == (added.exit_code, added.stdout[:3])
    assert 1 == len(added.stdout.split())
    assert f"ann has the role operator, in {file}" in added.stderr
    assert added.stdout.strip().removeprefix("zs_") not in file.read_text()


def test_a_name_that_is_taken_and_a_bad_file_are_refused_with_the_remedy(zsched: Zsched, file: Path) -> None:
    zsched(*ADD)

    taken = zsched(*ADD)
    file.chmod(0o644)
    others = [zsched(*ADD), zsched("tokens", "list"), zsched("tokens", "revoke", "shop")]

    assert (USAGE, True) == (taken.exit_code, "name='shop': an account has this name; give another" in taken.stderr)
    assert [USAGE] * 3 == [each.exit_code for each in others]
    assert all(f"{file}: its mode is 0644" in each.stderr and "chmod 600" in each.stderr for each in others)


def test_the_list_without_accounts_says_how_to_add_one(zsched: Zsched, file: Path) -> None:
    listed = zsched("tokens", "list")

    assert DONE == listed.exit_code
    assert f"no account in {file}; zsched tokens add NAME --role operator adds one" in listed.stdout


def test_the_command_alone_shows_its_help(zsched: Zsched) -> None:
    shown = zsched("tokens")

    assert USAGE == shown.exit_code
    for command in ("add", "list", "revoke", "set"):
        assert f"\n  {command} " in shown.stderr


def test_the_last_use_of_a_token_is_listed(zsched: Zsched, file: Path) -> None:
    zsched(*ADD)
    accounts = AccountsFile(file)
    [digest] = accounts.read().by_digest
    accounts.note_use(digest, 1_000_000)
    os.utime(f"{file}.used/{digest}", ns=(1_700_000_000_000_000_000,) * 2)

    assert "2023-11-14T22:13:20.000Z" == zsched.json("tokens", "list")[0]["used_at"]
    assert "2023-11-14" in zsched("tokens", "list").stdout
