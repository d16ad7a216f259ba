"""``zsched why``: the story of a schedule or a run, by real daemons and their archives, or by Redis alone."""

import json
import os
import re
import stat
import subprocess
import sys
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from rq import SimpleWorker

from tests.builders.command_line import FUNC, Zsched
from tests.builders.daemons import DaemonThread, leading_daemon
from tests.clocks import now_ms, set_back
from tests.faults.overdue import HOUR_MS, become_due
from tests.integration.cli_history.answers import ALONE, ASKING, KEYS, NO_ANSWER, PATIENCE
from tests.ledger import await_queued
from tests.prefix import RQ
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.cli.program import DONE, NOT_FOUND, USAGE
from zsched.core.occurrences.lateness import LATE_MS
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once

# A command line for which there is no archive: neither its code nor SQLite can be imported.
BLIND = f"import sys; sys.modules['zsched.archive'] = sys.modules['sqlite3'] = None;{ASKING}"


def story_of(zsched: Zsched, id: str) -> list[str]:
    """Return the texts of the story of *id*, and the verdict."""
    told = zsched.json("why", id)
    assert told["source"]["archive"] is not None, told["source"]["problem"]
    return [line["text"] for line in told["story"]] + [f"{told['verdict']['word']}: {told['verdict']['text']}"]


def test_why_of_a_fired_schedule_says_when_and_how_late(
    zsched: Zsched, client: Client, redis_client: redis.Redis, daemon: DaemonThread
) -> None:
    at = datetime.now(UTC)
    run = client.schedule(FUNC, id="a", at=at, allow_past=True, owner="me").run_id
    await_queued(redis_client, 1)

    created, fired, now = story_of(zsched, "a")

    assert re.fullmatch(rf"created by {client.by} for \S+ \S+", created)
    assert re.fullmatch(rf"fired for \S+ \S+, \d+\.\d m?s late(: .*)?; run {run}", fired)
    told = rf"NOT RUN: run {run} is queued since \S+ \S+; no RQ worker is registered.*"
    assert re.fullmatch(told, now)


def test_why_of_a_late_run_says_that_no_daemon_led(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    with leading_daemon(redis_url, path):
        client.schedule(FUNC, id="a", after=3600)
    [run] = become_due(redis_client, "a")
    eventually(lambda: now_ms(redis_client) > int(run.partition("-")[2]) + LATE_MS)

    with leading_daemon(redis_url, path):
        await_queued(redis_client, 1)

        *_, fired, _ = story_of(zsched, "a")

    assert re.search(r" late: no daemon led from (then|\S+ \S+) until \S+ \S+; run a-", fired)


def test_why_of_coalesced_occurrences_names_the_run_that_replaced_them(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    with set_back(redis_client, HOUR_MS):
        client.schedule(FUNC, id="a", every=60)

    with leading_daemon(redis_url, path):
        await_queued(redis_client, 1)
        story = story_of(zsched, "a")

    assert re.fullmatch(
        r"left out [\d,]+ occurrences, .* to .*, in favour of .*: no daemon led from .* until .*", story[1]
    )
    assert story[2].startswith("fired for ")


def test_why_of_a_paused_or_cancelled_schedule_says_so(zsched: Zsched, client: Client, daemon: DaemonThread) -> None:
    for id in ("paused", "cancelled"):
        client.schedule(FUNC, id=id, after=3600)
    client.schedule(FUNC, id="rule", every=3600)
    run_id = client.run_now("rule")
    client.pause("paused", note="until May")
    client.cancel("cancelled")
    client.cancel("rule")

    paused, cancelled, rule = (story_of(zsched, id) for id in ("paused", "cancelled", "rule"))

    assert f'paused by {client.by}: "until May"' == paused[1]
    assert re.match(rf'PAUSED: since .* by {client.by}: "until May"; it would be due ', paused[2])
    assert cancelled[1].startswith(f"cancelled by {client.by}; it was for ")
    assert cancelled[2] == f"CANCELLED: {cancelled[1]}"
    assert re.match(rf"CANCELLED: cancelled by .*; its run {run_id} is queued since ", rule[-1])


def test_why_of_a_schedule_in_quarantine_or_held_back_gives_the_reason(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    redis_client.set(f"{RQ}:queue:broken", "no list")
    client.schedule(FUNC, id="broken", after=0, queue="broken")
    redis_client.delete(f"{RQ}:job:{client.schedule(FUNC, id='lost', after=0).run_id}")
    with leading_daemon(redis_url, path):
        eventually(lambda: client._overview().held_back and client._overview().quarantined == 1)

        held, lost = story_of(zsched, "broken"), story_of(zsched, "lost")

    assert "quarantined: its hash is gone" == lost[1]
    assert re.fullmatch(r'QUARANTINED: since .*: "its hash is gone"', lost[2])
    assert re.search(rf"HELD BACK: due .*; {RQ}:queue:broken, which is not a list; 1 schedule", held[1])


def test_why_of_an_unknown_id_offers_one_like_it(zsched: Zsched, client: Client, daemon: DaemonThread) -> None:
    client.enqueue(FUNC, id="mail-ada")
    eventually(lambda: client.why("mail-ada").source.archive)

    for_people, for_programs = zsched("why", "nobody"), zsched("why", "nobody", "--json")

    assert (NOT_FOUND, NOT_FOUND) == (for_people.exit_code, for_programs.exit_code)
    first, *_ = for_people.stdout.splitlines()
    assert re.fullmatch(r"UNKNOWN: no schedule nobody was ever put into namespace default of .*", first)
    assert "" == for_people.stderr  # the archive is complete
    assert not json.loads(for_programs.stdout)["known"]
    assert "" == for_programs.stderr
    assert "did you mean mail-ada?" in zsched("why", "mail-adda").output


@pytest.mark.true_start  # without zsched.archive
def test_why_needs_only_redis_not_the_archive_file(
    redis_url: str, client: Client, path: Path, guard: Guard, tmp_path: Path
) -> None:
    own = tmp_path / "state" / "archive.db"
    env = {**os.environ, "ZSCHED_REDIS_URL": redis_url, "ZSCHED_ARCHIVE_PATH": "/nonexistent/archive.db", **PATIENCE}
    with leading_daemon(redis_url, own):
        client.schedule(FUNC, id="a", after=3600)
        asked = {
            command: guard.spawn(
                [sys.executable, "-c", BLIND, *command.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
            )
            for command in ("why a", "history", "log --since 1h")
        }
        told = {command: child.communicate(timeout=WITHIN_S) for command, child in asked.items()}

    assert 0o700 == stat.S_IMODE(own.parent.stat().st_mode)
    assert [DONE] * 3 == [child.returncode for child in asked.values()]
    assert b"created by " in told["why a"][0]
    assert [b""] * 3 == [stderr for _, stderr in told.values()]  # the answers are complete, so from the archive


def test_why_prints_milliseconds_in_the_given_zone(zsched: Zsched, client: Client, daemon: DaemonThread) -> None:
    client.schedule(FUNC, id="a", at=datetime(2030, 1, 1, tzinfo=UTC))

    verdict, remedy, _, line = zsched("why", "a", "--tz", "Asia/Seoul").stdout.splitlines()
    wrong = zsched("why", "a", "--tz", "Asia/Nowhere")

    at = r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+09:00"
    assert re.fullmatch(rf"{at}  created by {client.by} for 2030-01-01 09:00:00\+09:00", line)
    assert verdict.startswith("SCHEDULED: next 2030-01-01 09:00:00+09:00, in ")
    assert "  → nothing to do: it fires then" == remedy
    assert USAGE == wrong.exit_code


def test_why_without_an_archive_uses_redis_and_says_so(zsched: Zsched, client: Client) -> None:
    client.schedule(FUNC, id="a", after=3600)

    story, unknown = zsched("why", "a"), zsched("why", "nobody")

    assert (DONE, NOT_FOUND) == (story.exit_code, unknown.exit_code)
    assert "  created by " in story.stdout
    assert re.fullmatch(rf"{ALONE}: {NO_ANSWER}\n", story.stderr)
    told = r"UNKNOWN: nothing is known of a schedule nobody in namespace .* since .*; earlier history is not available"
    assert re.fullmatch(told, unknown.stdout.splitlines()[0])


def test_why_accepts_the_id_of_a_run(
    zsched: Zsched, client: Client, redis_client: redis.Redis, daemon: DaemonThread
) -> None:
    client.schedule(FUNC, id="a", every=3600, starts=datetime.now(UTC) + timedelta(hours=1))
    first, second = client.run_now("a"), client.run_now("a")
    await_queued(redis_client, 2)

    one, other, schedule, nothing = (zsched.json("why", id) for id in (first, second, "a", "a-1785283200000"))

    assert [[first], [second]] == [[change["run_id"] for change in story["changes"]] for story in (one, other)]
    assert (first, True) == (one["id"], one["known"])
    assert ("NOT RUN", "start one") == (one["verdict"]["word"], one["verdict"]["remedy"].partition(":")[0])
    assert one["verdict"]["text"].startswith(f"run {first} is queued since ")
    assert ["put", "enqueued", "enqueued"] == [change["what"] for change in schedule["changes"]]
    assert "UNKNOWN" == nothing["verdict"]["word"]
    assert nothing["verdict"]["text"].startswith("the changes of schedule a do not name run a-")


def test_why_says_since_when_a_trimmed_log_is_whole(zsched: Zsched, client: Client, redis_client: redis.Redis) -> None:
    for number in range(3):
        client.enqueue(FUNC, id=f"s{number}")
    redis_client.xtrim(KEYS.log(), maxlen=2, approximate=False)

    result = zsched("why", "s0")

    since = re.search(r"whose log goes back to (.*?): no archive reported", result.stderr)
    assert since is not None
    assert f" since {since[1]}; earlier history is not available" in result.stdout


def change_a_rule(client: Client) -> None:
    client.schedule(FUNC, id="r", cron="0 9 * * 1-5", tz="Asia/Seoul", queue="default", args=("secret",), tags=["a"])
    ann = client.acting_as("ann@host")
    ann.update("r", queue="email", cron="0 10 * * 1-5")
    ann.update("r", args=("secret", 2), meta={"x": "secret"})
    ann.pause("r", "until May")
    ann.update("r", tags=["a", "b"], expires_after=60)
    ann.run_now("r")
    ann.cancel("r")
    ann.schedule(FUNC, id="r", at=datetime(2030, 1, 1, tzinfo=UTC), tz="Asia/Seoul")
    client.acting_as("bob").update("r", at=datetime(2030, 1, 2, tzinfo=UTC))


def changes_of_a_rule(client: Client, run_id: str) -> list[str]:
    """Return the story of ``change_a_rule``, without the next times."""
    return [
        f"created by {client.by}",
        "changed by ann@host: cron: 0 9 * * 1-5 → 0 10 * * 1-5; queue: default → email",
        "changed by ann@host: arguments changed; meta changed",
        'paused by ann@host: "until May"',
        'changed by ann@host: tags: ["a"] → ["a", "b"]; expires_after: - → 1m',
        f"run now, asked by ann@host; run {run_id}",
        "cancelled by ann@host",
        "created by ann@host",
        "changed by bob: at: 2030-01-01T09:00:00+09:00 → 2030-01-02T09:00:00+09:00",
    ]


def without_times(story: list[str]) -> list[str]:
    return [
        re.sub(r"(; now| for|; it was) (for )?\d\S+ \S+( it stays paused)?|; it stays paused", "", text)
        for text in story
    ]


@pytest.mark.parametrize("keeps_args", [True, False, None], ids=["archive", "archive without arguments", "Redis alone"])
def test_why_says_what_changed_and_who_asked(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path, keeps_args: bool | None
) -> None:
    with nullcontext() if keeps_args is None else leading_daemon(redis_url, path, keep_args=keeps_args):
        change_a_rule(client)
        [run_id] = (run.decode() for run in redis_client.lrange(f"{RQ}:queue:email", 0, -1))

        told = zsched.json("why", "r")

    expected = changes_of_a_rule(client, run_id)
    if keeps_args is False:
        expected[2] = expected[2].replace("arguments changed; ", "")
    assert (keeps_args is None) == (told["source"]["archive"] is None)
    assert expected == without_times([line["text"] for line in told["story"]])
    assert ["cron: 0 9 * * 1-5 → 0 10 * * 1-5", "queue: default → email"] == told["changes"][1]["changed"]
    assert "secret" not in json.dumps(told)


def test_a_change_after_many_runs_is_compared_with_a_put(zsched: Zsched, client: Client, daemon: DaemonThread) -> None:
    client.schedule(FUNC, id="r", every=3600, queue="default")
    for _ in range(60):
        client.run_now("r")
    client.update("r", queue="email")

    told = zsched.json("why", "r")

    assert any(line["text"].endswith(" more changes lie before this …") for line in told["story"])
    assert ["queue: default → email"] == told["changes"][-1]["changed"]


def test_why_says_who_asked_a_worker_to_stop_a_run(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    run_id = client.enqueue(FUNC, id="a").run_id
    redis_client.hset(f"{RQ}:job:{run_id}", mapping={"status": "started", "worker_name": "w1"})
    with leading_daemon(redis_url, path), redis_client.pubsub() as listening:
        listening.subscribe(f"{RQ}:pubsub:w1")
        listening.get_message(timeout=WITHIN_S)
        assert "stopping" == client.acting_as("ann").cancel_run(run_id or "")

        told = story_of(zsched, "a")

    assert f"run {run_id}: its worker was asked to stop it by ann" in told


def test_a_new_zone_of_an_overdue_schedule_records_the_occurrence_that_it_drops(
    zsched: Zsched, client: Client, redis_client: redis.Redis
) -> None:
    client.schedule(FUNC, id="r", cron="0 9 * * *", tz="Asia/Seoul")
    redis_client.hincrby(KEYS.meta(), "offset_ms", 25 * 3_600_000)  # no daemon is leading

    client.acting_as("ann").update("r", tz="Europe/Berlin")

    story = client.why("r")
    assert story.lines[-2][1].startswith("changed by ann: tz: Asia/Seoul → Europe/Berlin; now for ")
    dropped = r"skipped \S+ 09:00:00\+09:00: it was overdue when its schedule got another rule.*"
    assert re.fullmatch(dropped, client.why("r", "Asia/Seoul").lines[-1][1])
    [occurrence] = json.loads(zsched("history", "r", "--json").stdout)["occurrences"]
    assert ("rule_changed", "ann") == (occurrence["why"], occurrence["by"])
    assert "another rule; by ann" in zsched("history", "r").stdout


def expire(redis_client: redis.Redis, run_id: str | None) -> None:
    """Take away a queued run whose deadline has come, as RQ's time does."""
    deadline_ms = now_ms(redis_client)
    with redis_client.pipeline() as at_once:  # the tracker looks meanwhile
        at_once.delete(f"{RQ}:job:{run_id}").lrem(f"{RQ}:queue:default", 1, run_id or "")
        at_once.zadd(KEYS.deadlines(), {run_id or "": deadline_ms}).execute()


@pytest.mark.parametrize("others", [0, 1])
def test_why_of_an_expired_run_says_what_its_queue_did_meanwhile(
    zsched: Zsched, client: Client, redis_client: redis.Redis, daemon: DaemonThread, others: int
) -> None:
    worker = SimpleWorker(["default"], connection=redis_client)
    client.enqueue(FUNC, id="before")
    worker.work(burst=True)
    eventually(lambda: len(client.runs(status="succeeded")) == 1)
    late = client.enqueue(FUNC, id="late", expires_after=1800).run_id
    if others:
        client.enqueue(FUNC, id="other", at_front=True)
        worker.work(burst=True, max_jobs=others)
    else:
        client.enqueue(FUNC, id="still-waits")
    expire(redis_client, late)
    eventually(lambda: client.why("late").changes[-1].what.value == "run_ended")
    eventually(lambda: len(client.runs(status="succeeded")) == 1 + others)

    *_, verdict = story_of(zsched, "late")

    told = {
        0: "no run of queue default began meanwhile; now no RQ worker is registered for queue default",
        1: "meanwhile 1 other run of queue default began: its workers were busy",
    }
    assert told[others] in verdict


@pytest.mark.parametrize(("queue", "hint"), [("emial", "did you mean email?"), ("sms", "queues with workers: email")])
def test_why_of_a_run_in_a_queue_without_workers_names_those_with_workers(
    zsched: Zsched, client: Client, redis_client: redis.Redis, queue: str, hint: str, daemon: DaemonThread
) -> None:
    client.enqueue(FUNC, id="before", queue="email")
    SimpleWorker(["email"], connection=redis_client).register_birth()
    run_id = client.enqueue(FUNC, id="a", queue=queue).run_id

    assert story_of(zsched, "a")[-1].endswith(f"registered for queue {queue}; {hint}")
    verdict = zsched.json("why", str(run_id))["verdict"]
    assert verdict["text"].endswith(f"; {hint}")
    corrects = f"zsched set ID --queue email corrects a schedule, zsched cancel-run {run_id} takes it out; else "
    assert verdict["remedy"].startswith(corrects if queue == "emial" else "start one: ")


def test_why_shows_the_first_time_of_a_moved_schedule_in_its_first_zone(zsched: Zsched, client: Client) -> None:
    client.schedule("app.report", id="rule", cron="0 9 * * *", tz="Asia/Seoul")
    client.schedule("app.report", id="plain", cron="0 9 * * *")
    for id in ("rule", "plain"):
        client.update(id, tz="America/Los_Angeles")

    assert [["09:00:00+09:00", "09:00:00-08:00"], ["09:00:00+00:00", "09:00:00-08:00"]] == [
        [text.split("for ")[-1].split(" ")[1].replace("-07:00", "-08:00") for _, text in client.why(id).lines]
        for id in ("rule", "plain")
    ]
    assert "09:00:00+09:00" in zsched("why", "rule").stdout
