"""Passwords that systemd hands over: ``$CREDENTIALS_DIRECTORY/redis-password``."""

from __future__ import annotations

from pathlib import Path

import pytest

from zsched.config.settings import load_settings


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "redis-password").write_text("of systemd\n")
    return {"CREDENTIALS_DIRECTORY": str(tmp_path)}


@pytest.mark.parametrize(
    "url",
    [
        "redis://host:6379/0",
        "redis://zsched@host:6379/0",  # a user without its password
        "unix:///run/redis.sock?db=0",
        "redis+sentinel://zsched@h1,h2/mymaster/0?sentinel_password=theirs",
    ],
)
def test_a_credential_is_the_password_of_redis(env: dict[str, str], url: str) -> None:
    settings = load_settings(env=env | {"ZSCHED_REDIS_URL": url})

    assert "of systemd" == settings.redis.read_password()
    assert url == settings.redis.url


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@host:6379/0",
        "redis://me:secret@host",
        "unix:///run/redis.sock?password=secret",
        "redis+sentinel://:secret@h1,h2/mymaster/0",
    ],
)
def test_a_password_in_the_url_takes_precedence_over_a_credential(env: dict[str, str], url: str) -> None:
    assert load_settings(env=env | {"ZSCHED_REDIS_URL": url}).redis.read_password() is None


def test_a_configured_file_takes_precedence_over_a_credential(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    settings = load_settings(env=env | {"ZSCHED_REDIS_PASSWORD_FILE": str(tmp_path / "mine")})

    assert "mine" == settings.redis.read_password()


@pytest.mark.parametrize("text", ["", "\n"])  # no unit can give an empty one
def test_a_blank_credential_means_a_redis_without_a_password(env: dict[str, str], tmp_path: Path, text: str) -> None:
    (tmp_path / "redis-password").write_text(text)

    assert load_settings(env=env).redis.read_password() is None


@pytest.mark.parametrize("folder", ["", "/nowhere", "/dev/null"])
def test_settings_without_credentials_have_no_password(folder: str) -> None:
    assert load_settings(env={"CREDENTIALS_DIRECTORY": folder}).redis.read_password() is None


def test_a_user_in_the_url_is_combined_with_a_password_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    env = {"ZSCHED_REDIS_URL": "redis://zsched@host/0", "ZSCHED_REDIS_PASSWORD_FILE": str(tmp_path / "password")}

    assert "secret" == load_settings(env=env).redis.read_password()
