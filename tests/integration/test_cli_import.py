"""``zsched import`` against a real Redis, with jobs that rq-scheduler and RQ put there themselves."""

from __future__ import annotations

import json
import math
import os
import pwd
import re
import sys
import types
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result
from rq import Queue, Repeat, Retry
from rq.cron import CronScheduler
from rq.registry import ScheduledJobRegistry
from rq.serializers import JSONSerializer
from rq_scheduler import Scheduler

from tests.integration.in_process import work_off
from tests.unit.imports.debian import Line
from zsched.cli import program
from zsched.cli.exits import DONE, FAILED, USAGE
from zsched.client import Client
from zsched.errors import RedisUnavailable
from zsched.imports import rqscheduled
from zsched.imports.moving import Moving

pytestmark = pytest.mark.once

FUNC = "app.tasks.run_command"
NOWHERE = "unix:///nonexistent/redis.sock"
SOON, LATER = timedelta(seconds=5), timedelta(days=3)
GUIDE = Path(__file__).parents[2] / "docs" / "migration.md"
LINES = """\
SHELL=/bin/sh
MAILTO=root
17 * * * *      root    cd / && run-parts --report /etc/cron.hourly
*/10 03 1-7 * sun  www-data  [ -x /usr/share/awstats/update.sh ] && /usr/share/awstats/update.sh
09,39 *  * * *  root    [ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean
5-55/10 * * * * root    command -v debian-sa1 > /dev/null && debian-sa1 1 1
30 2 * * *      root    date +\\%F
@weekly         root    mail root%weekly%report
"""
REBOOT = "@reboot root nice /usr/sbin/logcheck -R\n"


class Zsched:
    """Runs the command line; ``cron`` is a crontab."""

    def __init__(self, url: str, folder: Path) -> None:
        self.env: dict[str, str | None] = {"ZSCHED_REDIS_URL": url}
        self.cron = folder / "jobs"

    def __call__(self, *arguments: str, input: str | None = None) -> Result:
        return CliRunner().invoke(program, arguments, env=self.env, input=input)

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json").stdout)

    def crontab(self, text: str, *arguments: str) -> Result:
        self.cron.write_text(text)
        return self("import", "crontab", str(self.cron), "--func", FUNC, "--tz", "Europe/Berlin", *arguments)


@pytest.fixture
def zsched(redis_url: str, tmp_path: Path) -> Zsched:
    return Zsched(redis_url, tmp_path)


@pytest.fixture
def client(redis_client: redis.Redis) -> Client:
    return Client(redis_client)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules that is the current one; what was imported from it is forgotten."""
    before, path = set(sys.modules), list(sys.path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def summary(result: Result) -> str:
    return result.stdout.splitlines()[-1]


# -- crontab --------------------------------------------------------------------------------------------


def test_a_dry_run_needs_no_redis_and_lists_each_schedule_with_its_cron(zsched: Zsched) -> None:
    zsched.env["ZSCHED_REDIS_URL"] = NOWHERE

    result = zsched.crontab(LINES + REBOOT, "--dry-run", "--json")

    told = json.loads(result.stdout)
    crons = ["17 * * * *", "*/10 03 1-7 * sun", "09,39 * * * *", "5-55/10 * * * *", "30 2 * * *", "0 0 * * 0"]
    assert (FAILED, True, {"found": 6, "refused": 1}) == (result.exit_code, told["dry_run"], told["counts"])
    assert [(cron, "Europe/Berlin") for cron in crons] == [(one["cron"], one["tz"]) for one in told["schedules"]]
    assert [(str(zsched.cron), 9)] == [(one["source"], one["place"]) for one in told["refused"]]
    assert {
        "args": ["mail root"],
        "kwargs": {"user": "root", "environment": {"SHELL": "/bin/sh", "MAILTO": "root"}, "stdin": "weekly\nreport\n"},
        "func": FUNC,
        "owner": f"crontab:{zsched.cron}",
    }.items() <= told["schedules"][5].items()


def test_next_shows_the_times_of_debians_cron(zsched: Zsched) -> None:
    zsched.env["ZSCHED_REDIS_URL"] = NOWHERE
    start = datetime(2026, 10, 24, 12, tzinfo=UTC)  # the night of which winter time begins
    times = [" ".join(line.split()[: 1 if line.startswith("@") else 5]) for line in LINES.splitlines()[2:]]

    schedules = json.loads(zsched.crontab(LINES, "--dry-run", "--json").stdout)["schedules"]

    for said, schedule in zip(times, schedules, strict=True):
        shown = zsched.json(
            *("next", "--cron", schedule["cron"], "--tz", schedule["tz"], "--from", "2026-10-24T11:59:59Z", "-n", "300")
        )
        runs = Line(said).runs("Europe/Berlin", start, 1440)
        assert [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in runs] == [
            one["utc"] for one in shown if one["utc"] < "2026-10-25T12"
        ]


def test_people_see_a_table_of_what_would_be(zsched: Zsched) -> None:
    result = zsched.crontab("17 * * * * root true\n", "--dry-run")

    header, row, last = result.stdout.splitlines()
    assert ["ID", "WHEN", "NEXT", "FROM"] == header.split()
    assert re.fullmatch(r"jobs-[0-9a-f]{10}  17 \* \* \* \*  20\d\d-\d\d-\d\d \d\d:17:00\+0[12]:00  .*/jobs:1", row)
    assert "dry run, nothing was written: 1 found, 0 refused" == last


def test_a_second_import_changes_nothing(zsched: Zsched) -> None:
    first, second = zsched.crontab(LINES), zsched.crontab("# moved\n" + LINES)

    assert "6 created, 0 updated, 0 unchanged, 0 removed, 0 refused" == summary(first)
    assert "0 created, 0 updated, 6 unchanged, 0 removed, 0 refused" == summary(second)
    assert (DONE, DONE) == (first.exit_code, second.exit_code)


def test_what_is_put_is_what_cron_would_do(zsched: Zsched, client: Client) -> None:
    zsched.crontab("30 2 * * * www-data date +\\%F\n", "--queue", "cron")

    (schedule,) = client.list()
    told = schedule.to_dict()
    assert {"func": FUNC, "queue": "cron", "tz": "Europe/Berlin", "description": "date +\\%F"}.items() <= told.items()
    assert {"overlap": "allow", "catch_up": "none", "timeout_s": -1}.items() <= told.items()
    assert "30 2 * * *" == told["trigger"]["expr"]


def test_another_time_updates_and_another_command_is_another_schedule(zsched: Zsched, client: Client) -> None:
    zsched.crontab("1 1 * * * root a\n2 2 * * * root b\n")

    changed = zsched.crontab("1 2 * * * root a\n2 2 * * * root c\n")
    pruned = zsched.crontab("1 2 * * * root a\n2 2 * * * root c\n", "--prune")

    assert "  cron: 1 1 * * * → 1 2 * * *" in changed.stdout.splitlines()
    assert "1 created, 1 updated, 0 unchanged, 0 removed, 0 refused" == summary(changed)
    assert "--prune removes" in changed.stderr
    assert "0 created, 0 updated, 2 unchanged, 1 removed, 0 refused" == summary(pruned)
    assert {"a", "c"} == {one.description for one in client.list()}


def test_one_bad_line_does_not_stop_the_rest(zsched: Zsched, client: Client) -> None:
    result = zsched.crontab(REBOOT + "61 * * * * root a\n1 * * * * root b\n")

    assert (FAILED, ["b"]) == (result.exit_code, [one.description for one in client.list()])
    assert f"zsched: {zsched.cron}:1: @reboot names no time" in result.stderr
    assert f"zsched: {zsched.cron}:2: minute '61': '61' is no minute; write 0-59" in result.stderr


def test_an_id_of_another_owner_stops_all_of_it_unless_it_is_taken_over(zsched: Zsched, client: Client) -> None:
    zsched.crontab("@daily root a\n")
    (theirs,) = client.list()
    client.update(theirs.id, managed_by="terraform")

    refused = zsched.crontab("@daily root a\n@daily root b\n")
    before = len(list(client.list()))
    taken = zsched.crontab("@daily root a\n@daily root b\n", "--take-over")

    assert (USAGE, 1, DONE) == (refused.exit_code, before, taken.exit_code)
    assert f"managed by 'terraform', not by 'crontab:{zsched.cron}'; --take-over" in refused.stderr
    assert "1 created, 1 updated, 0 unchanged, 0 removed, 0 refused" == summary(taken)


@pytest.mark.parametrize("dry", [True, False])
def test_a_line_that_two_crontabs_have_in_common_is_refused_in_the_second(
    zsched: Zsched, client: Client, tmp_path: Path, dry: bool
) -> None:
    files = [tmp_path / machine / "jobs" for machine in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_text(f"@daily root common\n@daily root {file.parent.name}\n")
    arguments = ["import", "crontab", *map(str, files), "--func", FUNC, "--tz", "UTC", "--json"]

    result = zsched(*arguments, *["--dry-run"] * dry)

    told = json.loads(result.stdout)
    (refused,) = told["refused"]
    assert {"refused": 1, "found" if dry else "created": 3}.items() <= told["counts"].items()
    assert (FAILED, str(files[1]), 1) == (result.exit_code, refused["source"], refused["place"])
    assert f"{files[0]} has the same" in refused["problem"]
    assert (0 if dry else 3) == len(list(client.list()))


def test_it_is_said_that_cron_still_runs_and_how_to_go_back(zsched: Zsched, client: Client) -> None:
    result = zsched.crontab(LINES)
    undone = zsched("import", "undo", f"crontab:{zsched.cron}")

    advice = f"take these lines out of {zsched.cron} now, or every command runs twice; to go back: zsched import undo"
    assert advice in result.stderr
    assert (DONE, "6 cancelled, 0 given back, 0 kept") == (undone.exit_code, summary(undone))
    assert [] == list(client.list())


def test_a_users_crontab_comes_from_standard_input(zsched: Zsched, client: Client) -> None:
    arguments = ("import", "crontab", "-", "--func", FUNC, "--tz", "UTC")

    refused = zsched(*arguments, input="@daily backup --all\n")
    result = zsched(*arguments, "--user", "alice", input="@daily backup --all\n")

    assert (USAGE, DONE) == (refused.exit_code, result.exit_code)
    assert [("backup --all", "crontab:alice")] == [(one.description, one.managed_by) for one in client.list()]


def test_a_function_that_may_not_be_named_or_does_not_fit_is_no_matter_of_lines(zsched: Zsched, here: Path) -> None:
    (here / "given.py").write_text(
        "from zsched import task\n\n@task(timeout=60)\ndef narrow(command: str, user: str) -> None: ...\n"
    )
    (here / "jobs").write_text("@daily root true\n")

    narrow = zsched("import", "crontab", "jobs", "--func", "given.narrow", "--dry-run")
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.other"
    forbidden = zsched.crontab("@daily root true\n")

    assert (USAGE, USAGE) == (narrow.exit_code, forbidden.exit_code)
    assert "environment" in narrow.stderr
    assert "allow_callables" in forbidden.stderr


def test_a_missing_file_is_told_before_anything_is_done(zsched: Zsched, client: Client, tmp_path: Path) -> None:
    zsched.cron.write_text("@daily root true\n")

    result = zsched("import", "crontab", str(zsched.cron), str(tmp_path / "no"), "--func", FUNC, "--tz", "UTC")

    assert (USAGE, []) == (result.exit_code, list(client.list()))
    assert (
        f"zsched: {tmp_path / 'no'}: No such file or directory; give a crontab, or - for standard input"
        in result.stderr
    )


def test_the_guides_function_does_what_cron_does(
    zsched: Zsched, client: Client, redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    module = types.ModuleType("migrated")
    exec(source, vars(module))
    module.run_command.__module__ = "migrated"
    monkeypatch.setitem(sys.modules, "migrated", module)
    out, me = tmp_path / "out", pwd.getpwuid(os.getuid()).pw_name
    zsched.cron.write_text(
        f'A="b c"\n@yearly {me} pwd > {out}; echo "$A $LOGNAME" >> {out}; cat >> {out}%first%100\\%\n'
    )
    zsched("import", "crontab", str(zsched.cron), "--func", "migrated.run_command", "--tz", "UTC")

    (schedule,) = client.list()
    client.run_now(schedule.id)
    work_off(Queue(connection=redis_client), redis_client)

    assert [pwd.getpwuid(os.getuid()).pw_dir, f"b c {me}", "first", "100%"] == out.read_text().splitlines()


# -- rq-scheduler ---------------------------------------------------------------------------------------


@pytest.fixture
def theirs(redis_client: redis.Redis) -> Scheduler:
    return Scheduler(queue_name="email", connection=redis_client)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of the package crontab
def test_what_recurs_with_rq_scheduler_is_copied(zsched: Zsched, client: Client, theirs: Scheduler) -> None:
    first = datetime(2040, 1, 1, 9, 30)
    cron = theirs.cron("0 9 * * 1-5", "app.tasks.digest", args=[1], kwargs={"a": 2}, timeout=77, meta={"mine": 3})
    every = theirs.schedule(first, "app.tasks.beat", interval=90, repeat=5, queue_name="beat", ttl=60)

    result = zsched("import", "rq-scheduler", "--tz", "Asia/Seoul")
    again = zsched("import", "rq-scheduler", "--tz", "Asia/Seoul")

    digest, beat = client.get(cron.id).to_dict(), client.get(every.id).to_dict()
    assert "2 created, 0 updated, 0 unchanged, 0 removed, 0 refused" == summary(result)
    assert "0 created, 0 updated, 2 unchanged, 0 removed, 0 refused" == summary(again)
    assert {
        "func": "app.tasks.digest",
        "queue": "email",
        "timeout_s": 77,
        "result_ttl_s": None,
    }.items() <= digest.items()
    assert {"expr": "0 9 * * 1-5", "tz": "Asia/Seoul"}.items() <= digest["trigger"].items()
    assert {"queue": "beat", "next_at": "2040-01-01T09:30:00.000Z", "expires_after_s": 60.0}.items() <= beat.items()
    assert {"kind": "every", "expr": "90000", "count": 5}.items() <= beat["trigger"].items()
    assert "do not start rq-scheduler on this Redis again" in result.stderr
    assert {cron.id, every.id} == {job.id for job in theirs.get_jobs()}


def test_a_one_shot_of_rq_scheduler_is_moved_and_given_back(
    zsched: Zsched, client: Client, theirs: Scheduler, redis_client: redis.Redis
) -> None:
    at = datetime.now(UTC).replace(microsecond=0, tzinfo=None) + LATER
    job = theirs.enqueue_at(at, "app.tasks.remind", 42, channel="sms")

    result = zsched("import", "rq-scheduler", "--tz", "UTC")
    moved, left = client.get(job.id), list(theirs.get_jobs())
    undone = zsched("import", "undo", "rq-scheduler")

    assert (DONE, "1 created, 0 updated, 0 unchanged, 0 removed, 0 refused") == (result.exit_code, summary(result))
    assert (at.replace(tzinfo=UTC), "email", []) == (moved.next_at, moved.queue, left)
    assert (DONE, "0 cancelled, 1 given back, 0 kept") == (undone.exit_code, summary(undone))
    assert [(job.id, at)] == [(one.id, time) for one, time in theirs.get_jobs(with_times=True)]
    assert ([], -1) == (list(client.list()), redis_client.ttl(job.key))


def test_a_moved_job_is_called_as_it_was(
    zsched: Zsched, client: Client, theirs: Scheduler, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, calls = types.ModuleType("reminded"), []
    vars(module)["remind"] = lambda *args, **kwargs: calls.append((args, kwargs))
    monkeypatch.setitem(sys.modules, "reminded", module)
    job = theirs.enqueue_in(LATER, "reminded.remind", 42, when=timedelta(hours=1))
    zsched("import", "rq-scheduler", "--tz", "UTC")

    client.run_now(job.id)
    work_off(Queue("email", connection=redis_client), redis_client)

    assert [((42,), {"when": timedelta(hours=1)})] == calls


def test_what_is_overdue_runs_at_once(zsched: Zsched, client: Client, theirs: Scheduler) -> None:
    job = theirs.enqueue_in(timedelta(seconds=-60), "app.tasks.remind")

    result = zsched("import", "rq-scheduler", "--tz", "UTC")

    theirs.enqueue_jobs()
    assert (DONE, 0, []) == (
        result.exit_code,
        len(Queue("email", connection=theirs.connection)),
        list(theirs.get_jobs()),
    )
    assert client.get(job.id).next_at < datetime.now(UTC)


@pytest.mark.parametrize(
    ("score", "meta", "problem"),
    [
        (1.8e12, {}, "after 1970, is none"),
        (math.inf, {"interval": 60}, "after 1970, is none"),
        (4e9, {"interval": [60]}, r"interval = [60], no number"),
        (4e9, {"interval": 60, "repeat": "x"}, "repeat = 'x', no number"),
        (4e9, ["interval"], "its meta is list, no dict"),
    ],
)
def test_an_odd_job_of_rq_scheduler_is_refused_and_the_rest_goes_on(
    zsched: Zsched, client: Client, theirs: Scheduler, score: float, meta: Any, problem: str
) -> None:
    good, odd = (theirs.enqueue_in(LATER, "app.tasks.remind") for _ in range(2))
    odd.meta = meta
    odd.save()
    theirs.connection.zadd("rq:scheduler:scheduled_jobs", {odd.id: score})

    result = zsched("import", "rq-scheduler", "--tz", "UTC", "--json")

    (refused,) = json.loads(result.stdout)["refused"]
    assert (FAILED, odd.id, [good.id]) == (result.exit_code, refused["place"], [one.id for one in client.list()])
    assert problem in refused["problem"]


def test_nothing_is_imported_while_an_rq_scheduler_runs(zsched: Zsched, client: Client, theirs: Scheduler) -> None:
    theirs.enqueue_in(LATER, "app.tasks.remind")
    theirs.register_birth()

    refused, shown = zsched("import", "rq-scheduler"), zsched("import", "rq-scheduler", "--dry-run")
    before = list(client.list())
    theirs.register_death()
    result = zsched("import", "rq-scheduler")

    assert (FAILED, DONE, DONE) == (refused.exit_code, shown.exit_code, result.exit_code)
    assert f"an rq-scheduler runs on this Redis ({theirs.name}; " in refused.stderr
    assert "every job would run twice; stop it first" in shown.stderr
    assert ([], 1) == (before, len(list(client.list())))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("cron", "imported"),
    [
        ("0 0 13 * *", "0 0 13 * *"),
        ("0 0 */2 * 1", "0 0 */2 * 1"),
        ("0 0 1,* * 1", "0 0 * * 1"),
        ("0 0 * * sat-sun", "0 0 * * sat-sun"),
        ("5/15 * * * *", "5/15 * * * *"),
        ("0 0 1 1 * *", "0 0 1 1 *"),
        ("30 0 0 1 1 * *", "30 0 0 1 1 *"),
        ("0 0 13 * 5", None),
        ("0 0 1 1 * 2099", None),
    ],
)
def test_cron_strings_of_rq_scheduler_mean_what_they_mean_there_or_are_refused(
    zsched: Zsched, theirs: Scheduler, cron: str, imported: str | None
) -> None:
    theirs.cron(cron, "app.tasks.digest", id="digest")

    told = zsched.json("import", "rq-scheduler", "--dry-run", "--tz", "UTC")

    assert ([] if imported is None else [imported]) == [one["cron"] for one in told["schedules"]]
    assert ([] if imported else ["digest"]) == [one["place"] for one in told["refused"]]


# -- rq cron --------------------------------------------------------------------------------------------

CONFIG = """
from rq import cron
from tasks_of_cron import beat, daily, digest, either, never, once

cron.register(digest, "email", cron="0 9 * * 1-5", args=(1,), kwargs={"a": 2}, job_timeout=77)
cron.register(digest, "email", cron="30 2 13 * 5 15")
cron.register(either, "email", cron="0 0 */2 * mon")
cron.register(daily, "email", cron="0 0 1-31 * mon")
cron.register(beat, "default", interval=90, ttl=60)
cron.register(once, "default", cron="0 0 1 1 * 0 2050")
cron.register(never, "default", cron="61 * * * *")
"""


@pytest.fixture
def config(here: Path) -> Path:
    (here / "tasks_of_cron.py").write_text(
        "\n".join(
            f"def {name}(*args, **kwargs): ..." for name in ("beat", "daily", "digest", "either", "never", "once")
        )
    )
    (here / "cron_config.py").write_text(CONFIG)
    return here / "cron_config.py"


@pytest.mark.parametrize("by_path", [False, True])
def test_what_a_module_registers_is_copied(zsched: Zsched, client: Client, config: Path, by_path: bool) -> None:
    module = str(config) if by_path else "cron_config"

    result = zsched("import", "rq-cron", module)
    again = zsched("import", "rq-cron", module)

    rules = {one.id: one.trigger.expr for one in client.list()}
    assert {
        "tasks_of_cron_digest": "0 9 * * 1-5",
        "tasks_of_cron_digest-2": "15 30 2 13 * 5",
        "tasks_of_cron_either": "0 0 1-31/2 * mon",
        "tasks_of_cron_daily": "0 0 1-31 * mon",
        "tasks_of_cron_beat": "90000",
    } == rules
    digest = client.get("tasks_of_cron_digest").to_dict()
    assert {"func": "tasks_of_cron.digest", "queue": "email", "timeout_s": 77, "tz": "UTC"}.items() <= digest.items()
    assert f"rq-cron:{module}" == digest["managed_by"]
    assert "5 created, 0 updated, 0 unchanged, 0 removed, 2 refused" == summary(result)
    assert "0 created, 0 updated, 5 unchanged, 0 removed, 2 refused" == summary(again)
    assert FAILED == result.exit_code
    assert f"{module}:tasks_of_cron.once: cron '0 0 1 1 * 0 2050' has a year" in result.stderr
    assert f"{module}:never: RQ refuses it (" in result.stderr


def test_nothing_is_imported_while_rq_cron_runs(
    zsched: Zsched, client: Client, config: Path, redis_client: redis.Redis
) -> None:
    running, other = CronScheduler(redis_client, name="there"), CronScheduler(redis_client, name="elsewhere")
    running.config_file, other.config_file = "cron_config.py", "other_config"
    running.register_birth()
    other.register_birth()

    refused = zsched("import", "rq-cron", "cron_config")
    before = list(client.list())
    running.register_death()
    result = zsched("import", "rq-cron", "cron_config")

    assert "`rq cron cron_config` runs on this Redis (there; " in refused.stderr
    assert (FAILED, [], 5) == (refused.exit_code, before, len(list(client.list())))
    assert "do not start `rq cron cron_config` again" in result.stderr


def test_a_module_that_cannot_be_imported_is_told(zsched: Zsched, here: Path) -> None:
    (here / "broken_config.py").write_text("1 / 0\n")

    missing, broken = zsched("import", "rq-cron", "no_such_config"), zsched("import", "rq-cron", "broken_config")

    assert (USAGE, USAGE) == (missing.exit_code, broken.exit_code)
    assert "module='no_such_config': it cannot be imported (" in missing.stderr
    assert "division by zero" in broken.stderr


# -- rq-scheduled ---------------------------------------------------------------------------------------


@pytest.fixture
def queue(redis_client: redis.Redis) -> Queue:
    return Queue("email", connection=redis_client)


def test_delayed_jobs_are_moved_and_given_back(
    zsched: Zsched, client: Client, queue: Queue, redis_client: redis.Redis
) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + LATER
    job = queue.enqueue_at(
        at, "app.tasks.remind", 42, job_timeout=77, retry=Retry(3, interval=[1, 2]), meta={"a": 1}, description="hi"
    )
    registry = ScheduledJobRegistry(queue=queue)

    result, again = zsched("import", "rq-scheduled"), zsched("import", "rq-scheduled")
    moved, left, keeps_s = client.get(job.id).to_dict(), registry.get_job_ids(), redis_client.ttl(job.key)
    undone = zsched("import", "undo", "rq-scheduled")

    assert "1 created, 0 updated, 0 unchanged, 0 removed, 0 refused" == summary(result)
    assert "0 created, 0 updated, 0 unchanged, 0 removed, 0 refused" == summary(again)
    assert {"func": "app.tasks.remind", "queue": "email", "timeout_s": 77, "retries": 3}.items() <= moved.items()
    assert (at, "hi", "rq-scheduled") == (
        datetime.fromisoformat(moved["next_at"]),
        moved["description"],
        moved["managed_by"],
    )
    assert [] == left
    assert 0 <= (LATER + timedelta(days=7)).total_seconds() - keeps_s < 60
    assert (DONE, "0 cancelled, 1 given back, 0 kept") == (undone.exit_code, summary(undone))
    assert at == registry.get_scheduled_time(job.id)
    assert ([], -1) == (list(client.list()), redis_client.ttl(job.key))


def test_what_is_due_soon_and_what_waits_for_another_attempt_is_left(
    zsched: Zsched, client: Client, queue: Queue, redis_client: redis.Redis
) -> None:
    soon = queue.enqueue_in(SOON, "app.tasks.remind")
    retried = queue.enqueue("app.gone", retry=Retry(3, interval=3600))
    work_off(queue, redis_client)  # it fails, and waits for its retry
    ours = client.enqueue("app.gone", queue="email", retry=Retry(3, interval=3600)).run_id
    work_off(queue, redis_client)
    registry = ScheduledJobRegistry(queue=queue)
    waiting = set(registry.get_job_ids())

    result = zsched("import", "rq-scheduled")

    assert {soon.id, retried.id, ours} == waiting == set(registry.get_job_ids())
    assert (DONE, []) == (result.exit_code, list(client.list()))
    assert "due within 30 s: 1" in result.stderr
    assert "wait for another attempt: 2" in result.stderr


def test_what_cannot_be_said_is_refused_and_stays(zsched: Zsched, client: Client, queue: Queue) -> None:
    repeated = queue.enqueue_in(LATER, "app.tasks.remind", repeat=Repeat(times=2))
    method = queue.enqueue_in(LATER, _Thing().act)
    gone = queue.enqueue_in(LATER, "app.tasks.remind")
    gone.connection.delete(gone.key)

    told = zsched.json("import", "rq-scheduled")

    problems = {one["place"]: one["problem"] for one in told["refused"]}
    assert {repeated.id, method.id, gone.id} == problems.keys() == set(ScheduledJobRegistry(queue=queue).get_job_ids())
    assert "it repeats itself (rq.Repeat)" in problems[repeated.id]
    assert "the method of an object" in problems[method.id]
    assert "its job is gone" in problems[gone.id]
    assert [] == list(client.list())


@pytest.mark.parametrize("score", [1.8e12, math.inf])  # milliseconds; what no calendar has
def test_a_time_that_is_none_is_refused_and_the_rest_goes_on(
    zsched: Zsched, client: Client, queue: Queue, score: float
) -> None:
    good, odd = (queue.enqueue_in(LATER, "app.tasks.remind") for _ in range(2))
    queue.connection.zadd("rq:scheduled:email", {odd.id: score})

    result = zsched("import", "rq-scheduled", "--json")

    (refused,) = json.loads(result.stdout)["refused"]
    assert (FAILED, odd.id, [good.id]) == (result.exit_code, refused["place"], [one.id for one in client.list()])
    assert "after 1970, is none; set its score to seconds" in refused["problem"]


def test_only_the_queues_that_are_named_are_read(zsched: Zsched, client: Client, queue: Queue) -> None:
    wanted = queue.enqueue_in(LATER, "app.tasks.remind")
    Queue("other", connection=queue.connection).enqueue_in(LATER, "app.tasks.remind")

    zsched("import", "rq-scheduled", "--queue", "email")

    assert [wanted.id] == [one.id for one in client.list()]


def test_a_job_that_rq_takes_meanwhile_is_left_to_rq(
    zsched: Zsched, client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, take = queue.enqueue_in(LATER, "app.tasks.remind"), Moving._take

    def take_after_rq(self: Moving, page: Any) -> Any:
        ScheduledJobRegistry(queue=queue).remove(job)
        queue._enqueue_job(job)
        return take(self, page)

    monkeypatch.setattr(Moving, "_take", take_after_rq)
    result = zsched("import", "rq-scheduled")

    assert (FAILED, [], [job.id]) == (result.exit_code, list(client.list()), queue.get_job_ids())
    assert "RQ has it as queued meanwhile" in result.stderr


def test_a_job_that_another_import_takes_meanwhile_is_here(
    zsched: Zsched, client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, take = queue.enqueue_in(LATER, "app.tasks.remind"), Moving._take

    def take_after_another(self: Moving, page: Any) -> Any:
        monkeypatch.setattr(Moving, "_take", take)
        zsched("import", "rq-scheduled")
        return take(self, page)

    monkeypatch.setattr(Moving, "_take", take_after_another)
    result = zsched("import", "rq-scheduled")

    assert (DONE, [job.id]) == (result.exit_code, [one.id for one in client.list()])
    assert [] == ScheduledJobRegistry(queue=queue).get_job_ids()


def test_a_job_that_somebody_deletes_meanwhile_is_cancelled_here(
    zsched: Zsched, client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, take = queue.enqueue_in(LATER, "app.tasks.remind"), Moving._take

    def take_after_its_deletion(self: Moving, page: Any) -> Any:
        job.delete()
        return take(self, page)

    monkeypatch.setattr(Moving, "_take", take_after_its_deletion)
    result = zsched("import", "rq-scheduled")

    assert (FAILED, []) == (result.exit_code, list(client.list()))
    assert "it was deleted meanwhile; it is cancelled here" in result.stderr


def test_an_import_that_broke_in_the_middle_is_finished_by_the_next(
    zsched: Zsched, client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_the_connection(self: Moving, page: Any) -> None:
        raise RedisUnavailable("the connection was lost")

    job = queue.enqueue_in(LATER, "app.tasks.remind")
    with monkeypatch.context() as broken:
        broken.setattr(Moving, "_take", lose_the_connection)
        assert FAILED == zsched("import", "rq-scheduled").exit_code
    between = [one.id for one in client.list()], ScheduledJobRegistry(queue=queue).get_job_ids()

    result = zsched("import", "rq-scheduled")

    assert ([job.id], [job.id]) == between
    assert "0 created, 0 updated, 1 unchanged, 0 removed, 0 refused" == summary(result)
    assert ([job.id], []) == ([one.id for one in client.list()], ScheduledJobRegistry(queue=queue).get_job_ids())


def test_an_id_that_somebody_has_here_is_refused_and_its_job_stays(
    zsched: Zsched, client: Client, queue: Queue
) -> None:
    job = queue.enqueue_in(LATER, "app.tasks.remind")
    client.schedule("app.theirs", id=job.id, after=3600, managed_by="terraform")

    result = zsched("import", "rq-scheduled")

    assert (FAILED, "app.theirs") == (result.exit_code, client.get(job.id).func)
    assert "is managed by terraform; cancel that one first" in result.stderr
    assert [job.id] == ScheduledJobRegistry(queue=queue).get_job_ids()


def test_a_job_whose_time_comes_near_before_its_turn_is_left(
    zsched: Zsched, client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rqscheduled, "SOON_S", 0)
    job = queue.enqueue_in(timedelta(seconds=4), "app.tasks.remind")

    result = zsched("import", "rq-scheduled")

    assert (FAILED, []) == (result.exit_code, list(client.list()))
    assert "it is due within 5 s; it is left to RQ, or the daemon" in result.stderr
    assert [job.id] == ScheduledJobRegistry(queue=queue).get_job_ids()


def test_jobs_of_another_serializer_are_refused_and_those_of_the_settings_moved(
    zsched: Zsched, client: Client, redis_client: redis.Redis
) -> None:
    Queue(connection=redis_client).enqueue_in(LATER, "app.tasks.remind", 1)
    wanted = Queue(connection=redis_client, serializer=JSONSerializer).enqueue_in(LATER, "app.tasks.remind", 2)
    zsched.env["ZSCHED_RQ_SERIALIZER"] = "json"

    result = zsched("import", "rq-scheduled")

    assert (FAILED, [wanted.id]) == (result.exit_code, [one.id for one in client.list()])
    assert "what it is called with cannot be read here (" in result.stderr


# -- undo -----------------------------------------------------------------------------------------------


def test_undo_is_of_imports_alone_and_can_be_looked_at_first(zsched: Zsched, client: Client) -> None:
    zsched.crontab("@daily root a\n")
    client.schedule("app.theirs", id="theirs", every=60)

    foreign = zsched("import", "undo", "terraform")
    shown = zsched("import", "undo", f"crontab:{zsched.cron}", "--dry-run")

    assert (USAGE, DONE, "1 schedule to undo") == (foreign.exit_code, shown.exit_code, summary(shown))
    assert 2 == len(list(client.list()))


def test_what_redis_has_forgotten_stays_here_and_is_told(zsched: Zsched, client: Client, queue: Queue) -> None:
    job = queue.enqueue_in(LATER, "app.tasks.remind")
    zsched("import", "rq-scheduled")
    job.connection.delete(job.key)

    undone = zsched("import", "undo", "rq-scheduled")

    assert (FAILED, [job.id]) == (undone.exit_code, [one.id for one in client.list()])
    assert f"{job.id} stays here: Redis has forgotten RQ's job of it; it fires here" in undone.stderr


def test_what_is_due_soon_fires_here(zsched: Zsched, client: Client, queue: Queue) -> None:
    job = queue.enqueue_in(LATER, "app.tasks.remind")
    zsched("import", "rq-scheduled")
    client.update(job.id, after=20)

    undone = zsched("import", "undo", "rq-scheduled")

    assert (FAILED, [job.id]) == (undone.exit_code, [one.id for one in client.list()])
    assert f"{job.id} stays here: it is due within 30 s, and fires here" in undone.stderr
    assert [] == ScheduledJobRegistry(queue=queue).get_job_ids()


class _Thing:
    def act(self) -> None: ...
