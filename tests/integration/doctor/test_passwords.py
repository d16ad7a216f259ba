"""The doctor's checks of secrets: passwords in settings, and guards of workers."""

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from tests.integration.doctor.examining import Case, examined, found_as, only
from tests.integration.doctor.test_rq import registered
from tests.waiting import ENDS_S
from zsched import Client
from zsched.cli import program
from zsched.config.settings import RedisSettings, Settings
from zsched.embedded import EmbeddedRedis
from zsched.health.doctor import examine
from zsched.health.facts import Severity
from zsched.storage.connection import Link
from zsched.storage.keyfile import new_key_line
from zsched.storage.rights import Role

Look = Callable[..., dict[str, str]]
SECRET = "t0p-Secret"
OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


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

    assert "warning" == found["verdict"]
    assert "[redis] password_file" in found["said"]
    assert readers in found["said"]
    subprocess.run(shlex.split(found["remedy"]), check=True, timeout=ENDS_S)
    assert "1 file with a password: only the owner may read it" == look(**env)["said"]


def test_a_configuration_file_with_a_password_for_others_is_a_warning(look: Look, user_url: str, folder: Path) -> None:
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


def test_a_password_file_that_only_its_owner_reaches_is_ok(look: Look, user_url: str, folder: Path) -> None:
    (folder / "link").symlink_to(write(folder / "password", SECRET, 0o600))
    assert "ok" == look(REDIS_URL=user_url, REDIS_PASSWORD_FILE=str(folder / "link"))["verdict"]

    file = write(folder / "redis-password", SECRET, 0o440)
    folder.chmod(0o500)  # as systemd hands over credentials
    assert "ok" == look(REDIS_URL=user_url, REDIS_PASSWORD_FILE=str(file))["verdict"]


def test_a_missing_password_file_is_reported_as_skipped(url: str, folder: Path) -> None:
    """The connection has read the password before."""
    settings, link = Settings(redis=RedisSettings(password_file=str(folder / "gone"))), Link.from_url(url, 5.0)

    [found] = [each for each in examine(settings, link, (Role.DAEMON,)) if each.group == "passwords"]

    link.pool.disconnect()
    assert (Severity.SKIPPED, True) == (found.severity, "No such file" in found.text)


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    file = tmp_path / "keys"
    file.touch(0o600)
    file.write_text(new_key_line("k1"))
    return str(file)


def guarded(sound: redis.Redis, **workers: dict[str, str]) -> None:
    """Register workers by their names, with fields of their guards."""
    for name, fields in workers.items():
        registered(sound, name, **fields)


def signed_long_ago(sound: redis.Redis) -> None:
    Client(sound).schedule("app.run", id="rule", every=3600)
    sound.hset("zsched:{default}:template:rule", "zs_sig", f"k1.000000001.{'A' * 22}")


def unsigned_beside_signed(sound: redis.Redis) -> None:
    for id in ("plain", "rule"):
        Client(sound).schedule("app.run", id=id, every=3600)
    sound.hset("zsched:{default}:template:rule", "zs_sig", f"k1.0ffffffff.{'A' * 22}")


CASES = {
    "a signature that has ended": Case(
        signed_long_ago, "signatures", PROBLEM, "…the signature of 1 recurring schedule has ended…",
        "…zsched keys sign…",
    ),
    "no signature beside another": Case(
        unsigned_beside_signed, "signatures", WARNING,
        "1 recurring schedule without a signature beside 1 with one: plain",
    ),
    "some enforce": Case(
        lambda sound: guarded(sound, w1={"zs_guard": "enforce"}, w2={}, w3={"zs_guard": "off"}), "guards", PROBLEM,
        "workers that do not say that they run only signed jobs: w2, w3; that say so: 1",
    ),
    "all enforce": Case(
        lambda sound: guarded(sound, w1={"zs_guard": "enforce"}), "guards", OK,
        "all workers (1) say that they run only signed jobs, as any writer of RQ's keys can",
    ),
    "a worker warns": Case(
        lambda sound: guarded(sound, w1={"zs_guard": "warn", "zs_warned": "2"}), "guards", Severity.NOTE,
        "workers (1) say that they would have refused 2 jobs, and ran all: w1",
    ),
    "no signature": Case(
        lambda sound: Client(sound).schedule("app.run", id="plain", every=3600), "signatures", OK,
        "no recurring schedule is signed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_guards_and_signatures_are_looked_at(url: str, sound: redis.Redis, case: Case) -> None:
    found_as(case, url, sound)


@pytest.mark.parametrize(
    ("days", "severity", "text"),
    [
        (400, OK, "1 recurring schedule signed, for 30 days or more"),
        (10, WARNING, "the signature of 1 recurring schedule ends in"),
    ],
)
def test_a_signature_that_ends_soon_is_a_warning(
    sound: redis.Redis, url: str, key_file: str, days: int, severity: Severity, text: str
) -> None:
    client = Client.from_url(url, signing_keys_file=key_file, signing_valid_days=days)
    client.schedule("app.run", id="rule", every=timedelta(hours=1))

    assert text in only(examined(url)["signatures"], severity).text
