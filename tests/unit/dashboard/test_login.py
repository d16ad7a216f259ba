"""The login of the dashboard: the source of its password, and admitted users."""

from __future__ import annotations

from pathlib import Path

import pytest

from zsched.config import PASSWORD_VARIABLE, DashboardSettings
from zsched.dashboard.login import CREDENTIAL, Login, is_private, login_for
from zsched.errors import ConfigError

LOOPBACK, ANYWHERE = "127.0.0.1", "0.0.0.0"


def password_file(folder: Path, password: str = "from file") -> DashboardSettings:
    file = folder / "password"
    file.write_text(password + "\n")
    return DashboardSettings(password_file=str(file))


def credentials(folder: Path, password: str) -> dict[str, str]:
    (folder / CREDENTIAL).write_text(password)
    return {"CREDENTIALS_DIRECTORY": str(folder)}


@pytest.mark.parametrize("host", [LOOPBACK, ANYWHERE])
def test_the_password_is_read_from_a_file_the_environment_or_a_credential(host: str, tmp_path: Path) -> None:
    of_file = login_for(password_file(tmp_path), {}, host)
    of_environment = login_for(DashboardSettings(user="alice"), {PASSWORD_VARIABLE: "from env"}, host)
    of_service = login_for(DashboardSettings(), credentials(tmp_path, "from systemd\n"), host)

    assert Login("zsched", "from file") == of_file
    assert Login("alice", "from env") == of_environment
    assert Login("zsched", "from systemd") == of_service


def test_a_configured_password_takes_precedence_over_a_credential(tmp_path: Path) -> None:
    env = credentials(tmp_path, "from systemd")

    assert "from file" == login_for(password_file(tmp_path), env, LOOPBACK).password
    assert "from env" == login_for(DashboardSettings(), env | {PASSWORD_VARIABLE: "from env"}, LOOPBACK).password


def test_two_passwords_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two passwords; take one away"):
        login_for(password_file(tmp_path), {PASSWORD_VARIABLE: "other"}, LOOPBACK)


def test_a_password_is_generated_if_none_is_set() -> None:
    first, second = login_for(DashboardSettings(), {}, LOOPBACK), login_for(DashboardSettings(), {}, "::1")

    assert first.was_made
    assert first.password != second.password
    assert len(first.password) >= 16


def test_an_empty_credential_counts_as_missing(tmp_path: Path) -> None:
    assert login_for(DashboardSettings(), credentials(tmp_path, ""), LOOPBACK).was_made


@pytest.mark.parametrize("host", [ANYWHERE, "::", "192.0.2.7", "fe80::1%eth0"])
def test_a_generated_password_does_not_allow_other_machines(host: str) -> None:
    with pytest.raises(ConfigError, match="no password is configured; name a file in") as refused:
        login_for(DashboardSettings(listen=f"{host}:9181"), {}, host)

    assert host in str(refused.value)
    assert not is_private(host)


def test_an_empty_password_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is empty"):
        login_for(password_file(tmp_path, ""), {}, LOOPBACK)


@pytest.mark.parametrize(
    ("user", "password", "admitted"),
    [
        ("zsched", "geheim-ö", True),
        ("zsched", "geheim", False),
        ("zsched", "", False),
        ("zsched", None, False),
        ("Zsched", "geheim-ö", False),
        (None, "geheim-ö", False),
        ("", "", False),
    ],
)
def test_a_login_needs_both_user_and_password(user: str | None, password: str | None, admitted: bool) -> None:
    assert admitted == Login("zsched", "geheim-ö").admits(user, password)


def test_a_login_does_not_show_its_password() -> None:
    assert "secret" not in repr(Login("zsched", "secret"))
