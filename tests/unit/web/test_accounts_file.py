"""The file of accounts: who may read it, its writers, and where it is by default."""

import os
import threading
from errno import EACCES
from pathlib import Path

import pytest

from zsched.config.settings import Settings, WebSettings
from zsched.errors import ConfigError, InvalidSchedule
from zsched.web.accounts import Account, AccountRole, Accounts, digest_of
from zsched.web.accounts_file import AccountsFile, accounts_file


def account(name: str) -> Account:
    return Account(name, AccountRole.VIEWER)


@pytest.fixture
def file(tmp_path: Path) -> AccountsFile:
    return AccountsFile(tmp_path / "made" / "accounts.toml")


def names(accounts: Accounts) -> list[str]:
    return sorted(each.name for each in accounts.by_digest.values())


def test_an_added_account_has_a_token_that_no_file_has(file: AccountsFile) -> None:
    secret = file.add(account("ann"))

    assert {digest_of(secret): account("ann")} == dict(file.read().by_digest)
    assert [0o700, 0o600] == [path.stat().st_mode & 0o777 for path in (file.path.parent, file.path)]
    assert secret.startswith("zs_")
    for path in file.path.parent.iterdir():
        assert secret.removeprefix("zs_") not in path.read_text()


def test_a_change_keeps_the_key_of_cookies_and_the_other_accounts(file: AccountsFile) -> None:
    file.add(account("ann"))
    key = file.read().cookie_key
    file.add(account("bob"))

    assert [True, False] == [file.revoke("ann") for _ in range(2)]
    assert (["bob"], key) == (names(file.read()), file.read().cookie_key)


def test_a_name_that_an_account_has_is_refused(file: AccountsFile) -> None:
    file.add(account("ann"))
    before = file.path.read_bytes()

    with pytest.raises(InvalidSchedule, match="name='ann': an account has this name; give another, or revoke"):
        file.add(account("ann"))

    assert before == file.path.read_bytes()


def test_a_file_that_a_server_would_refuse_is_not_written(file: AccountsFile) -> None:
    with pytest.raises(ConfigError, match="not a usable name"):
        file.add(account("a" * 201))

    assert not file.path.exists()


def test_a_file_that_cannot_be_used_is_not_replaced(file: AccountsFile) -> None:
    file.add(account("ann"))
    file.path.write_text("accounts = 1")

    with pytest.raises(ConfigError, match="accounts is a heading"):
        file.add(account("bob"))

    assert "accounts = 1" == file.path.read_text()


def test_the_file_of_a_killed_writer_is_replaced(file: AccountsFile) -> None:
    file.add(account("ann"))
    Path(f"{file.path}.new").write_text("half")

    file.add(account("bob"))

    assert ["ann", "bob"] == names(file.read())
    assert ["accounts.toml", "accounts.toml.lock"] == sorted(path.name for path in file.path.parent.iterdir())


def test_a_folder_that_cannot_be_written_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no folder")

    with pytest.raises(ConfigError, match=r"nothing was changed; write it as its owner, or give another \[web\]"):
        AccountsFile(tmp_path / "a" / "accounts.toml").add(account("ann"))


def test_a_link_in_place_of_the_files_beside_it_is_not_followed(file: AccountsFile, tmp_path: Path) -> None:
    file.path.parent.mkdir()
    Path(f"{file.path}.new").symlink_to(tmp_path / "elsewhere")
    file.add(account("ann"))
    Path(f"{file.path}.lock").unlink()
    Path(f"{file.path}.lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError, match="symbolic link"):
        file.add(account("bob"))

    assert not (tmp_path / "elsewhere").exists()


def test_writers_at_the_same_time_lose_nothing(file: AccountsFile) -> None:
    def add(number: int) -> None:
        for each in range(5):
            AccountsFile(file.path).add(account(f"{number}-{each}"))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 20 == len(file.read().by_digest)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_file_that_others_may_use_is_refused(file: AccountsFile, mode: int) -> None:
    file.add(account("ann"))
    file.path.chmod(mode)

    with pytest.raises(
        ConfigError, match=f"accounts.toml: its mode is {mode:04o}: other users .*; chmod 600 .*accounts"
    ):
        file.read()


def test_a_file_of_a_stranger_is_refused(file: AccountsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.add(account("ann"))
    mine = os.stat(file.path)
    seen = os.stat_result((0o100600, 0, 0, 1, mine.st_uid + 54321, 0, 0, 0, 0, 0))
    monkeypatch.setattr(os, "fstat", lambda _: seen)

    with pytest.raises(ConfigError, match=f"user {mine.st_uid + 54321} owns it, and could write into it"):
        file.read()


def test_a_file_that_this_user_may_not_read_is_refused_with_the_remedy(
    file: AccountsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(EACCES, "Permission denied")

    monkeypatch.setattr("zsched.config.reading.open_file", refuse)

    with pytest.raises(ConfigError, match=r"accounts\.toml: Permission denied; let the user of this process own it"):
        file.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_that_root_writes_belongs_to_the_owner_of_the_folder(file: AccountsFile) -> None:
    file.path.parent.mkdir()
    os.chown(file.path.parent, 12345, 12346)

    file.add(account("ann"))
    file.add(account("bob"))

    for path in file.path.parent.iterdir():
        assert (12345, 12346, 0o600) == (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o777)
    assert ["ann", "bob"] == names(file.read())


def test_a_missing_file_has_no_accounts_and_appears_at_once(file: AccountsFile) -> None:
    before = names(file.current())
    said = file.problem
    AccountsFile(file.path).add(account("ann"))

    assert ([], ["ann"], "") == (before, names(file.current()), file.problem)
    assert said.endswith("No such file or directory; make one with: zsched tokens add NAME --role operator")


def test_a_server_keeps_its_accounts_while_a_changed_file_cannot_be_used(file: AccountsFile) -> None:
    file.add(account("ann"))
    seen = [(names(file.current()), file.problem)]
    good = file.path.read_text()
    for text in ("accounts = 1", good):
        file.path.write_text(text)
        seen.append((names(file.current()), file.problem))

    broken = f"{file.path}: accounts is a heading: write [accounts.<name>] and its keys below"
    assert [(["ann"], ""), (["ann"], broken), (["ann"], "")] == seen


def test_a_use_of_a_token_is_recorded_once_a_minute_until_it_is_revoked(file: AccountsFile) -> None:
    digest = digest_of(file.add(account("ann")))
    never, used = file.with_uses(file.read()), Path(f"{file.path}.used", digest)

    file.note_use(digest, 1_000_000)
    os.utime(used, ns=(5_000_000, 5_000_000))
    file.note_use(digest, 1_059_999)

    assert [(account("ann"), None)] == never
    assert [(account("ann"), 5)] == file.with_uses(file.read())
    file.note_use(digest, 1_060_000)
    assert 5_000_000 < used.stat().st_mtime_ns
    file.revoke("ann")
    assert not used.exists()


def test_a_server_that_may_write_nothing_records_no_use(file: AccountsFile) -> None:
    digest = digest_of(file.add(account("ann")))
    Path(f"{file.path}.used").write_text("no folder")

    file.note_use(digest, 1_000_000)

    assert ([(account("ann"), None)], False) == (file.with_uses(file.read()), file.records_uses)


@pytest.mark.parametrize(("environment", "uid", "expected"), [
    ({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "XDG_STATE_HOME": "/x"}, 0, "/var/lib/a/accounts-mail.toml"),
    ({"STATE_DIRECTORY": "", "XDG_STATE_HOME": "/x"}, 0, "/x/zsched/accounts-mail.toml"),
    ({}, 0, "/var/lib/zsched-web/accounts-mail.toml"),
    ({}, 1000, "/h/.local/state/zsched/accounts-mail.toml"),
])  # fmt: skip
def test_the_default_place_is_the_state_folder_of_the_service_or_user(
    environment: dict[str, str], uid: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setenv("HOME", "/h")

    assert expected == str(accounts_file(Settings(namespace="mail"), environment).path)
    given = Settings(web=WebSettings(accounts_file="/etc/a.toml"))
    assert "/etc/a.toml" == str(accounts_file(given, environment).path)


def test_a_user_without_a_home_gets_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)

    with pytest.raises(ConfigError, match=r"has no home directory; give \[web\] accounts_file"):
        accounts_file(Settings(), {})
