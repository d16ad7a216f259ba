"""The doctor's check of files with passwords that other users of the machine may read."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from tests.faults.processes import ENDS_S
from zsched.cli import program
from zsched.config.settings import RedisSettings, Settings
from zsched.embedded import EmbeddedRedis
from zsched.health.check import Severity
from zsched.health.doctor import examine
from zsched.storage.connection import Link
from zsched.storage.rights import Role

Look = Callable[..., dict[str, str]]
SECRET = "t0p-Secret"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that every user may enter."""
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture
def user_url(sound_server: EmbeddedRedis, sound: redis.Redis) -> Iterator[str]:
    """The URL of a user with a password, which the URL does not contain."""
    sound.execute_command("ACL", "SETUSER", "me", "reset", "on", f">{SECRET}", "~*", "&*", "+@all")
    yield sound_server.tcp_url.replace("://", "://me@")
    sound.acl_deluser("me")


@pytest.fixture
def look(url: str) -> Look:
    """A function that returns the doctor's finding, with settings in the environment."""

    def look(*options: str, **env: str) -> dict[str, str]:
        named = {f"ZSCHED_{name}": value for name, value in env.items()}
        result = CliRunner().invoke(program, ["doctor", "--json", *options], env={"ZSCHED_REDIS_URL": url} | named)
        assert SECRET not in result.output
        [found] = [one for one in json.loads(result.stdout) if one["check"] == "passwords"]
        return dict(found)

    return look


def write(file: Path, text: str, mode: int) -> Path:
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.mark.parametrize(
    ("mode", "readers"), [(0o644, "its group and every user"), (0o640, "its group may"), (0o604, "every user of this")]
)
def test_a_password_file_readable_by_others_is_a_warning_until_it_is_fixed(
    look: Look, user_url: str, folder: Path, mode: int, readers: str
) -> None:
    file = write(folder / "a password", SECRET, mode)
    env = {"REDIS_URL": user_url, "REDIS_PASSWORD_FILE": str(file)}

    found = look(**env)

    assert ("warning", True, True) == (
        found["verdict"],
        "[redis] password_file" in found["said"],
        readers in found["said"],
    )
    subprocess.run(shlex.split(found["remedy"]), check=True, timeout=ENDS_S)
    assert "1 file with a password: nobody but its owner may read it" == look(**env)["said"]


def test_a_configuration_file_with_a_password_that_others_may_read_is_a_warning(
    look: Look, user_url: str, folder: Path
) -> None:
    text = f"[redis]\nurl = {json.dumps(user_url.replace('me@', f'me:{SECRET}@'))}\n"
    file = str(write(folder / "zsched.toml", text, 0o644))

    for found in (look("-c", file, REDIS_URL=user_url.replace("me@", f"me:{SECRET}@")), look("-c", file)):
        assert "warning" == found["verdict"]
        assert "the configuration file" in found["said"]
        assert "[redis] password_file, with mode 600" in found["remedy"]

    Path(file).chmod(0o600)
    assert "ok" == look(CONFIG=file)["verdict"]


def test_a_configuration_file_without_a_password_may_be_read_by_all(look: Look, url: str, folder: Path) -> None:
    file = write(folder / "zsched.toml", f"[redis]\nurl = {json.dumps(url)}\n", 0o644)

    assert "no file with a password is named" == look("-c", str(file))["said"]


def test_a_password_file_in_a_private_folder_is_ok(look: Look, user_url: str, tmp_path: Path) -> None:
    """Systemd hands over credentials in such a folder."""
    tmp_path.chmod(0o500)
    file = write(tmp_path / "redis-password", SECRET, 0o440)

    assert "ok" == look(REDIS_URL=user_url, REDIS_PASSWORD_FILE=str(file))["verdict"]


def test_the_doctor_checks_the_target_of_a_linked_password_file(look: Look, user_url: str, folder: Path) -> None:
    (folder / "link").symlink_to(write(folder / "password", SECRET, 0o600))

    assert "ok" == look(REDIS_URL=user_url, REDIS_PASSWORD_FILE=str(folder / "link"))["verdict"]


def test_a_missing_password_file_is_reported_as_skipped(url: str, folder: Path) -> None:
    """The connection has read the password before."""
    settings, link = Settings(redis=RedisSettings(password_file=str(folder / "gone"))), Link.from_url(url, 5.0)

    [found] = [each for each in examine(settings, link, (Role.DAEMON,)) if each.group == "passwords"]

    link.pool.disconnect()
    assert (Severity.SKIPPED, True) == (found.severity, "No such file" in found.text)
