"""``zsched import rq-cron``: the jobs that a module registers, as RQ reads them; and ``zsched import undo``."""

from inspect import signature
from pathlib import Path

import pytest
import redis
from rq import Queue
from rq.cron import CronScheduler
from rq.registry import ScheduledJobRegistry

from tests.integration.imports.crontabs import LATER, Crontab, summary
from zsched.cli import imports
from zsched.cli.program import DONE, FAILED, USAGE
from zsched.client import Client

pytestmark = pytest.mark.once


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
def test_cron_jobs_of_a_module_are_copied(zsched: Crontab, client: Client, config: Path, by_path: bool) -> None:
    module = str(config) if by_path else "cron_config"

    result = zsched("import", "rq-cron", module, "--tz", "Asia/Seoul")
    again = zsched("import", "rq-cron", module, "--tz", "Asia/Seoul")

    rules = {one.id: one.trigger.expr for one in client.list()}
    assert {
        "tasks_of_cron_digest": "0 9 * * 1-5",
        "tasks_of_cron_digest-2": "15 30 2 13 * 5",
        "tasks_of_cron_either": "0 0 1-31/2 * mon",
        "tasks_of_cron_daily": "0 0 1-31 * mon",
        "tasks_of_cron_beat": "90000",
    } == rules
    digest = client.get("tasks_of_cron_digest").to_dict()
    assert {
        "func": "tasks_of_cron.digest",
        "queue": "email",
        "timeout_s": 77,
        "tz": "Asia/Seoul",
    }.items() <= digest.items()
    assert f"rq-cron:{module}" == digest["owner"]
    assert "5 created, 0 updated, 0 unchanged, 0 removed, 2 refused" == summary(result)
    assert "0 created, 0 updated, 5 unchanged, 0 removed, 2 refused" == summary(again)
    assert FAILED == result.exit_code
    assert f"{module}:tasks_of_cron.once: cron '0 0 1 1 * 0 2050' has a year" in result.stderr
    assert f"{module}:never: RQ refuses it (" in result.stderr


@pytest.mark.parametrize(
    ("runs", "named"), [("cron_config.py", "cron_config"), ("cron_config", "{path}"), ("{path}", "cron_config")]
)
def test_an_import_is_refused_while_rq_cron_runs_its_module_by_name_or_by_path(
    zsched: Crontab, client: Client, config: Path, redis_client: redis.Redis, runs: str, named: str
) -> None:
    running, other = CronScheduler(redis_client, name="there"), CronScheduler(redis_client, name="elsewhere")
    running.config_file, other.config_file = runs.format(path=config), "other_config"
    running.register_birth()
    other.register_birth()
    module = named.format(path=config)

    refused = zsched("import", "rq-cron", module)
    before = list(client.list())
    running.register_death()
    result = zsched("import", "rq-cron", module)

    assert f"`rq cron {module}` runs on this Redis (there; " in refused.stderr
    assert (FAILED, [], 5) == (refused.exit_code, before, len(list(client.list())))
    assert f"do not start `rq cron {module}` again" in result.stderr


def test_a_module_by_name_and_by_path_is_the_same_source(zsched: Crontab, client: Client, config: Path) -> None:
    zsched("import", "rq-cron", "cron_config.py")
    again = zsched("import", "rq-cron", "cron_config")
    undone = zsched("import", "undo", "rq-cron:cron_config.py")

    assert "0 created, 0 updated, 5 unchanged, 0 removed, 2 refused" == summary(again)
    assert "5 cancelled, 0 given back, 0 kept" == summary(undone)
    assert "nothing fires these until `rq cron` is started again" in undone.stderr


def test_a_module_that_cannot_be_imported_is_a_usage_error(zsched: Crontab, here: Path) -> None:
    (here / "broken_config.py").write_text("1 / 0\n")

    missing, broken = zsched("import", "rq-cron", "no_such_config"), zsched("import", "rq-cron", "broken_config")

    assert (USAGE, USAGE) == (missing.exit_code, broken.exit_code)
    assert "module='no_such_config': it cannot be imported (" in missing.stderr
    assert "division by zero" in broken.stderr


def test_a_cron_job_that_is_not_allowed_is_not_scheduled_though_its_module_is_imported(
    zsched: Crontab, client: Client, config: Path, tmp_path: Path
) -> None:
    config.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n" + config.read_text())
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.*"

    result = zsched("import", "rq-cron", "cron_config")

    assert (FAILED, 5) == (result.exit_code, result.stderr.count("allow_callables"))
    assert [] == list(client.list())
    assert (tmp_path / "ran").exists()


def test_the_zone_of_cron_strings_is_this_machines_with_rq_3_and_utc_with_rq_2(
    zsched: Crontab, client: Client, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "local_zone", lambda: ("Europe/Berlin", "a link"))
    remarks = []
    for is_local in (True, False):
        monkeypatch.setattr(imports, "IS_CRON_LOCAL", is_local)
        remarks.append(zsched("import", "rq-cron", "cron_config").stderr)
        assert ("Europe/Berlin" if is_local else "UTC") == client.get("tasks_of_cron_digest").to_dict()["tz"]

    assert "times are of the zone Europe/Berlin, by a link; --tz gives another" in remarks[0]
    assert "times are in UTC, by RQ " in remarks[1]


# -- undo --------------------------------------------------------------------------------------------


def test_undo_accepts_only_imports_lists_the_known_ones_and_has_a_dry_run(zsched: Crontab, client: Client) -> None:
    zsched.crontab("@daily root a\n")
    client.schedule("app.theirs", id="theirs", every=60)

    foreign, misspelt = zsched("import", "undo", "terraform"), zsched("import", "undo", "crontab:jobs")
    shown = zsched("import", "undo", f"crontab:{zsched.cron}", "--dry-run")
    before = len(list(client.list()))
    undone, again = (zsched("import", "undo", f"crontab:{zsched.cron}") for _ in range(2))

    assert (USAGE, DONE, DONE, DONE) == tuple(each.exit_code for each in (foreign, misspelt, shown, again))
    assert ("1 schedule to undo", 2) == (summary(shown), before)
    assert f"no schedules of crontab:jobs; other imports: crontab:{zsched.cron}" in misspelt.stderr
    assert "nothing fires these until their lines are back in cron" in undone.stderr
    assert "other imports: nothing" in again.stderr


@pytest.mark.parametrize(
    ("is_due_soon", "reason"),
    [(False, "RQ's job is missing from Redis; it fires here"), (True, "it is due within 30 s, and fires here")],
)
def test_undo_keeps_and_reports_a_schedule_that_is_due_soon_or_whose_rq_job_was_deleted(
    zsched: Crontab, client: Client, queue: Queue, is_due_soon: bool, reason: str
) -> None:
    job = queue.enqueue_in(LATER, "app.tasks.remind")
    zsched("import", "rq-scheduled")
    client.update(job.id, after=20) if is_due_soon else job.connection.delete(job.key)

    undone = zsched("import", "undo", "rq-scheduled")

    assert (FAILED, [job.id]) == (undone.exit_code, [one.id for one in client.list()])
    assert f"{job.id} stays here: {reason}" in undone.stderr
    assert [] == ScheduledJobRegistry(queue=queue).get_job_ids()


@pytest.mark.skipif("name" not in signature(CronScheduler.register).parameters, reason="RQ before 2.10 has no names")
def test_a_name_becomes_an_id_that_no_command_takes_for_an_option(
    zsched: Crontab, client: Client, config: Path
) -> None:
    names = ["night-ly", "-x", "a.b c", "--help"]
    lines = (f"cron.register(daily, 'default', interval=90, name={name!r})" for name in names)
    config.write_text("\n".join(["from rq import cron", "from tasks_of_cron import daily", *lines]))

    zsched("import", "rq-cron", "cron_config")

    assert {"night-ly", "_x", "a_b_c", "_-help"} == {one.id for one in client.list()}
