"""``zsched log``: the entries of Redis's log and of the archive, a line per entry."""

import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import pytest
import redis
from click.testing import Result

from tests.builders.command_line import FUNC, Zsched
from tests.builders.daemons import DaemonThread, leading_daemon
from tests.integration.cli_history.answers import ALONE, KEYS, NO_ANSWER
from tests.ledger import await_queued
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.cli.program import DONE, USAGE
from zsched.daemon.merge import Merge
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once


def texts(result: Result) -> list[str]:
    """Return the texts of the lines after time and entry."""
    assert DONE == result.exit_code, result.output
    return [line.split("  ", 2)[2] for line in result.stdout.splitlines()]


def test_the_log_is_a_line_per_entry_and_never_shows_arguments(zsched: Zsched, client: Client) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    client.schedule_many({"func": FUNC, "id": f"s{n}", "at": at, "args": ("secret",)} for n in range(5))
    client.schedule(FUNC, id="a", at=at, args=("secret",))
    client.schedule(FUNC, id="r", every=3600, args=("secret",))
    client.pause("a", note="until May")
    client.cancel("s0")

    result = zsched("log")

    put_recurring, by = texts(result)[2], client.by
    assert put_recurring.startswith(f"put_recurring  r: put by {by} for ")
    assert [
        f"put  put 5 schedules by {by}: s0, s1, s2, …",
        f"put  a: put by {by} for 2030-01-01 00:00:00+00:00",
        put_recurring,
        f'pause  a: paused by {by}: "until May"',
        f"cancel  s0: cancelled by {by}; it was for 2030-01-01 00:00:00+00:00",
    ] == texts(result)
    assert "secret" not in result.output
    assert "secret" not in zsched("log", "--json").output
    assert re.match(ALONE, result.stderr)


def test_the_log_of_a_daemon_shows_terms_and_fires(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    client.schedule_many({"func": FUNC, "id": f"s{n}", "after": 0} for n in range(5))
    with leading_daemon(redis_url, path) as daemon:
        await_queued(redis_client, 5)

        _, term, fire = texts(zsched("log"))

    assert f"term  daemon {daemon.daemon.id} leads" == term
    assert re.fullmatch(r"fire  fired 5 runs: s0-\d+, s1-\d+, s2-\d+, …", fire)


def test_the_log_of_one_schedule_has_a_line_per_change(zsched: Zsched, client: Client) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    client.schedule_many({"func": FUNC, "id": f"s{n}", "at": at} for n in range(5))
    client.cancel("s1")
    client.cancel("s2")

    assert [
        f"put  put by {client.by} for 2030-01-01 00:00:00+00:00",
        f"cancel  cancelled by {client.by}; it was for 2030-01-01 00:00:00+00:00",
    ] == texts(zsched("log", "--id", "s1"))
    assert [f"cancel  cancelled by {client.by}; it was for 2030-01-01 00:00:00+00:00"] == texts(
        zsched("log", "--id", "s1", "--limit", "1")
    )


def test_the_log_is_limited_by_time_and_number(zsched: Zsched, client: Client) -> None:
    for number in range(5):
        client.enqueue(FUNC, id=f"s{number}")
    now = datetime.now(UTC)

    newest = texts(zsched("log", "--limit", "2"))
    since_an_hour = texts(zsched("log", "--since", "1h", "--limit", "2"))
    since_soon = zsched("log", "--since", (now + timedelta(hours=1)).isoformat())
    local = zsched("log", "--since", "2020-01-01T00:00", "--tz", "Asia/Seoul")

    assert ["s3", "s4"] == [line.split()[1].rstrip(":") for line in newest]
    assert ["s0", "s1"] == [line.split()[1].rstrip(":") for line in since_an_hour]
    assert [] == texts(since_soon)
    assert 5 == local.stdout.count("+09:00  0-")
    assert USAGE == zsched("log", "--since", "yesterday").exit_code
    assert USAGE == zsched("log", "--since", "2020-01-01T00:00").exit_code  # of which zone?


def test_entries_trimmed_from_redis_come_from_the_archive(
    zsched: Zsched, client: Client, redis_client: redis.Redis, daemon: DaemonThread
) -> None:
    client.enqueue(FUNC, id="old")
    client.enqueue(FUNC, id="new", durable=True)
    redis_client.xtrim(KEYS.log(), maxlen=1, approximate=False)

    result = zsched("log", "--since", "1h")

    assert ["term", "enqueue", "enqueue"] == [line.split()[0] for line in texts(result)]
    assert "" == result.stderr  # the archive is complete


def test_the_log_after_a_loss_shows_both_histories_and_marks_the_new_one(
    zsched: Zsched, client: Client, redis_client: redis.Redis, daemon: DaemonThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Merge.run
    monkeypatch.setattr(Merge, "run", lambda merge: daemon.wait_for("term_began", 2) and run(merge))
    for id in ("a", "b"):
        client.schedule(FUNC, id=id, at=datetime(2030, 1, 1, tzinfo=UTC), durable=True)
    redis_client.flushall()
    daemon.wait_for("recovery_done")
    client.cancel("a")
    eventually(lambda: zsched("log").stderr == "")

    whole, of_one = zsched("log", "--since", "1h"), zsched("log", "--id", "a")

    mark = "… a new history begins: Redis lost the entries above, or the last of them …"
    kinds = [line if line == mark else line.split("  ")[2] for line in whole.stdout.splitlines()]
    assert ["term", "put", "put", mark, "term", "restore", "merged", "cancel"] == kinds
    assert "  restored 2 schedules that Redis had lost: a, b\n" in whole.stdout
    assert re.search(r"  merged  all that archive \w+ knows is in Redis\n", whole.stdout)
    first, *rest = of_one.stdout.splitlines()
    assert first.endswith(f"  put  put by {client.by} for 2030-01-01 00:00:00+00:00")
    assert [mark, "restored", "cancelled"] == [
        line if line == mark else line.split("  ")[3][:9].strip(",;") for line in rest
    ]
    assert "" == whole.stderr  # complete


def test_an_unknown_entry_is_shown_without_its_values(zsched: Zsched, redis_client: redis.Redis) -> None:
    redis_client.xadd(KEYS.log(), {"kind": "enchant", "t": "1795257273824902", "by\x1b[2J": "me", "b": "\x07"}, "1-1")
    redis_client.xadd(KEYS.log(), {"no": "kind"}, "1-2")
    redis_client.xadd(KEYS.log(), {"kind": "cancel", "t": "1795257273824902", "who": "me"}, "1-3")

    result, told = zsched("log"), zsched("log", "--json").stdout.splitlines()

    assert [
        "enchant  unknown kind or form, 2 fields: by\N{REPLACEMENT CHARACTER}[2J, b",
        "?  unknown kind or form, 1 field: no",
        "cancel  unknown kind or form, 1 field: who",
    ] == texts(result)
    assert ["unknown kind or form"] * 3 == [json.loads(line)["problem"].split(",")[0] for line in told]


def test_terminal_codes_in_entries_are_not_printed(zsched: Zsched, client: Client, redis_client: redis.Redis) -> None:
    evil = {"kind": "pause", "t": "1795257273824902", "note": "\x1b[2J", "rows": 1, "a": f"normal {2**62}"}
    redis_client.xadd(KEYS.log(), evil, "0-1")  # type: ignore[arg-type]  # str and int
    bad = {"kind": "quarantine", "t": "9" * 30, "rows": 1, "a": "normal 7", "": "\x1b[2J\x07"}
    redis_client.xadd(KEYS.log(), bad, "0-2")  # type: ignore[arg-type]  # str and int

    commands: list[tuple[str, ...]] = [("log",), ("why", "a"), ("history",), ("log", "--json"), ("why", "a", "--json")]
    results = [zsched(*command) for command in commands]

    assert [DONE] * 5 == [result.exit_code for result in results]
    for result in results:
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", result.output)


def test_the_log_in_json_is_one_object_a_line(zsched: Zsched, client: Client) -> None:
    client.schedule(FUNC, id="a", at=datetime(2030, 1, 1, tzinfo=UTC))
    client.enqueue(FUNC, id="b")

    result = zsched("log", "--json")
    put, enqueue = map(json.loads, result.stdout.splitlines())

    assert ("0-1", "put", ["a"]) == (put["entry"], put["kind"], [change["id"] for change in put["changes"]])
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", enqueue["at"])
    source = {"archive": None, "complete_since": put["at"], "as_of": "0-2", "as_of_at": None, "problem": NO_ANSWER}
    found = json.loads(result.stderr)["source"]
    assert found.pop("place").startswith("namespace default of ")
    assert source == found


def start(guard: Guard, url: str, *arguments: str, stdout: Any = subprocess.PIPE) -> subprocess.Popen[bytes]:
    env = {**os.environ, "ZSCHED_REDIS_URL": url}
    command = [sys.executable, "-m", "zsched.cli", *arguments]
    return guard.spawn(command, stdout=stdout, stderr=subprocess.PIPE, env=env)


def line_of(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.readline().decode()


def test_log_follow_prints_new_entries_until_ctrl_c(client: Client, redis_url: str, guard: Guard) -> None:
    client.enqueue(FUNC, id="before")
    child = start(guard, redis_url, "log", "--follow")

    first = line_of(child.stdout)
    client.enqueue(FUNC, id="after")
    second = line_of(child.stdout)
    child.send_signal(signal.SIGINT)
    rest, told = child.communicate(timeout=WITHIN_S)

    assert f"  enqueue  before: enqueued by {client.by}; run before-" in first
    assert f"  enqueue  after: enqueued by {client.by}; run after-" in second
    assert (DONE, b"") == (child.returncode, rest)
    assert re.match(ALONE.encode(), told)


def test_log_follow_says_once_and_first_that_its_namespace_is_empty(
    client: Client, redis_url: str, guard: Guard
) -> None:
    client.enqueue(FUNC, id="a")
    child = start(guard, redis_url, "log", "--follow", "-n", "20")

    told = [line_of(child.stderr), line_of(child.stderr)]
    child.send_signal(signal.SIGINT)
    _, rest = child.communicate(timeout=WITHIN_S)

    said = "zsched: namespace 20 is empty here; this Redis has: default. Did you mean --limit 20?\n"
    assert (said, b"") == (told[1], rest)


def test_log_follow_of_one_schedule_skips_other_schedules(client: Client, redis_url: str, guard: Guard) -> None:
    client.enqueue(FUNC, id="a")
    child = start(guard, redis_url, "log", "-f", "--id", "a", "--json")

    first = json.loads(line_of(child.stdout))
    client.enqueue(FUNC, id="b")
    client.enqueue(FUNC, id="a")
    second = json.loads(line_of(child.stdout))
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=WITHIN_S)

    assert ["0-1", "0-3"] == [first["entry"], second["entry"]]


def test_log_follow_ends_without_error_when_the_pipe_closes(client: Client, redis_url: str, guard: Guard) -> None:
    client.enqueue(FUNC, id="before")
    child = start(guard, redis_url, "log", "--follow")
    assert child.stdout is not None
    line_of(child.stdout)

    child.stdout.close()
    client.enqueue(FUNC, id="after")
    code = child.wait(WITHIN_S)

    assert child.stderr is not None
    assert DONE == code
    assert re.fullmatch(rf"{ALONE}: {NO_ANSWER}\n".encode(), child.stderr.read())


def test_log_follow_reports_an_outage_of_redis_once_and_continues(guard: Guard) -> None:
    with EmbeddedRedis(appendonly=True) as server:
        client = Client.from_url(server.url)
        client.enqueue(FUNC, id="before")
        child = start(guard, server.url, "log", "--follow")
        line_of(child.stdout)
        line_of(child.stderr)

        server.kill()
        gone = line_of(child.stderr)
        server.start()
        client.enqueue(FUNC, id="after")
        back = line_of(child.stdout)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=WITHIN_S)

    assert re.fullmatch(r"zsched: .*; trying again until Ctrl-C\n", gone)
    assert "  enqueue  after: " in back
    assert (DONE, b"") == (child.returncode, told)
