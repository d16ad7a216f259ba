"""``zsched why``: the story of a schedule or a run, by real daemons and their archives, or by Redis alone."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis

from tests.faults.processes import eventually
from tests.integration.cli_history.ground import ALONE, DEADLINE_S, FUNC, IMPATIENT, KEYS, Leading, Zsched, queued
from tests.prefix import RQ
from zsched import Client
from zsched.cli.program import DONE, NOT_FOUND, USAGE
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once

# A command line for which there is no archive: neither its code nor SQLite can be imported.
BLIND = (
    "import sys; sys.modules['zsched.archive'] = sys.modules['sqlite3'] = None;"
    "from zsched.cli import main; sys.exit(main())"
)


def test_why_of_a_fired_schedule_says_when_and_how_late(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        run = client.schedule(FUNC, id="a", after=0.1, created_by="me").run_id
        queued(redis_client)

        created, fired, now = zsched.story("a")

    assert re.fullmatch(r"created for \S+ \S+, by me", created)
    assert re.fullmatch(rf"fired for \S+ \S+, \d+\.\d m?s late(: .*)?; run {run}", fired)
    told = r"it is not scheduled any more: it fired, and its run is queued since \S+ \S+; RQ knows of no worker that.*"
    assert re.fullmatch(told, now)


def test_why_of_a_late_run_says_that_no_daemon_led(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    # given: a life of the archive before, so that the schedule is due in the time without a daemon
    with Leading(redis_url, path):
        client.schedule(FUNC, id="a", at=datetime.now(UTC) + timedelta(seconds=1.2), allow_past=True)
        due_ms = client.get("a").next_ms
    assert due_ms is not None
    eventually(lambda: client.overview().now_ms > due_ms + 1100)

    with Leading(redis_url, path):
        queued(redis_client)

        _, fired, _ = zsched.story("a")

    assert re.search(r" late: no daemon led from then until \S+ \S+; run a-", fired)


def test_why_of_coalesced_occurrences_names_the_run_that_replaced_them(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    client.schedule(FUNC, id="a", every=0.1)
    first = client.get("a").next_ms
    assert first is not None
    eventually(lambda: client.overview().now_ms > first + 500)

    with Leading(redis_url, path):
        queued(redis_client)
        story = zsched.story("a")

    assert re.fullmatch(
        r"left out [\d,]+ occurrences, .* to .*, in favour of .*: no daemon led from .* until .*", story[1]
    )
    assert story[2].startswith("fired for ")
    assert story[-1].startswith("active; next ")


def test_why_of_a_paused_or_cancelled_schedule_says_so(
    zsched: Zsched, client: Client, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        for id in ("paused", "cancelled"):
            client.schedule(FUNC, id=id, after=3600)
        client.pause("paused", note="until May")
        client.cancel("cancelled")

        paused, cancelled = zsched.story("paused"), zsched.story("cancelled")

    assert 'paused: "until May"' == paused[1]
    assert re.match(r'paused since .*: "until May"; it would be due .*; zsched resume paused lets it go on', paused[2])
    assert cancelled[1].startswith("cancelled; it was for ")
    assert "it is not scheduled any more: it was cancelled" == cancelled[2]


def test_why_of_a_quarantined_schedule_gives_the_reason(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    redis_client.set(f"{RQ}:queue:broken", "no list")
    with Leading(redis_url, path):
        client.schedule(FUNC, id="broken", after=0.05, queue="broken")
        run = client.schedule(FUNC, id="lost", after=0.2).run_id
        redis_client.delete(f"{RQ}:job:{run}")
        eventually(lambda: client.overview().quarantined == 2)

        broken, lost = zsched.story("broken"), zsched.story("lost")

    assert f"quarantined: wrong type at {RQ}:queue:broken" == broken[1]
    assert re.fullmatch(
        rf'quarantined since .*: "wrong type at {RQ}:queue:broken"; schedule it again, or cancel it', broken[2]
    )
    assert "quarantined: its hash is gone" == lost[1]


def test_why_of_an_unknown_schedule_says_that_it_is_unknown(
    zsched: Zsched, client: Client, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        for_people, for_programs = zsched("why", "nobody"), zsched("why", "nobody", "--json")

    assert (NOT_FOUND, NOT_FOUND) == (for_people.exit_code, for_programs.exit_code)
    assert "nobody: never heard of it: no schedule of this id was ever put here\n" == for_people.stdout
    assert for_people.stderr.startswith("from the archive ")
    assert not json.loads(for_programs.stdout)["known"]
    assert "" == for_programs.stderr


def test_why_needs_only_redis_not_the_archive_file(
    redis_url: str, client: Client, path: Path, guard: Guard, tmp_path: Path
) -> None:
    own = tmp_path / "state" / "archive.db"
    env = {**os.environ, "ZSCHED_REDIS_URL": redis_url, "ZSCHED_ARCHIVE_PATH": "/nonexistent/archive.db"}
    with Leading(redis_url, own):
        client.schedule(FUNC, id="a", after=3600)
        asked = {
            command: guard.spawn(
                [sys.executable, "-c", BLIND, *command.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
            )
            for command in ("why a", "history", "log --since 1h")
        }
        told = {command: child.communicate(timeout=DEADLINE_S) for command, child in asked.items()}

    assert 0o700 == stat.S_IMODE(own.parent.stat().st_mode)
    assert [DONE] * 3 == [child.returncode for child in asked.values()]
    assert b"created for " in told["why a"][0]
    assert f"{own}, complete since the beginning, up to log entry ".encode() in told["why a"][1]
    assert f"{own}".encode() in told["history"][1]


def test_why_prints_times_in_the_given_zone_with_milliseconds(
    zsched: Zsched, client: Client, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        client.schedule(FUNC, id="a", at=datetime(2030, 1, 1, tzinfo=UTC))

        line, now = zsched("why", "a", "--tz", "Asia/Seoul").stdout.splitlines()
        wrong = zsched("why", "a", "--tz", "Asia/Nowhere")

    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+09:00  created for 2030-01-01 09:00:00\+09:00", line)
    assert now.startswith("now: active; next 2030-01-01 09:00:00+09:00, in ")
    assert USAGE == wrong.exit_code


def test_why_without_an_archive_uses_redis_and_says_so(zsched: Zsched, client: Client) -> None:
    client.schedule(FUNC, id="a", after=3600)

    story, unknown = zsched("why", "a", **IMPATIENT), zsched("why", "nobody", **IMPATIENT)

    assert (DONE, NOT_FOUND) == (story.exit_code, unknown.exit_code)
    assert "  created for " in story.stdout
    assert re.fullmatch(rf"{ALONE}: no archive answered within 0.25 s\n", story.stderr)
    assert re.fullmatch(
        r"nobody: never heard of it: nothing is known of this id since .*; what was before is not in reach\n",
        unknown.stdout,
    )


def test_why_accepts_the_id_of_a_run(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    with Leading(redis_url, path):
        client.schedule(FUNC, id="a", every=3600, starts=datetime.now(UTC) + timedelta(hours=1))
        first, second = client.run_now("a"), client.run_now("a")
        queued(redis_client, 2)

        one, other, schedule, nothing = (zsched.json("why", id) for id in (first, second, "a", "a-1785283200000"))

    assert [[first], [second]] == [[change["run_id"] for change in story["changes"]] for story in (one, other)]
    assert (first, True) == (one["id"], one["known"])
    assert one["now"].startswith(f"run {first} of schedule a is queued since ")
    assert ["put", "enqueued", "enqueued"] == [change["what"] for change in schedule["changes"]]
    assert nothing["now"].startswith("never heard of it: the changes of schedule a do not name it")


def test_why_says_since_when_a_trimmed_log_is_complete(
    zsched: Zsched, client: Client, redis_client: redis.Redis
) -> None:
    for number in range(3):
        client.enqueue(FUNC, id=f"s{number}")
    redis_client.xtrim(KEYS.log(), maxlen=2, approximate=False)

    result = zsched("why", "s0", **IMPATIENT)

    since = re.search(r"whose log goes back to (.*?): no archive answered", result.stderr)
    assert since is not None
    assert f"s0: never heard of it: nothing is known of this id since {since[1]}; " in result.stdout
