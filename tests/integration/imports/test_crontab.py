"""``zsched import crontab``: the jobs of cron as schedules that run when cron would have run them."""

import json
import os
import pwd
import re
import sys
import types
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis
from rq import Queue

from tests.builders.workers import work_off
from tests.integration.imports.crontabs import FUNC, NOWHERE, Crontab, summary
from tests.unit.imports.debian import Line
from zsched.cli.program import DONE, FAILED, USAGE
from zsched.client import Client

pytestmark = pytest.mark.once

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "move-from-cron.md"
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


def test_a_dry_run_needs_no_redis_and_lists_each_schedule_with_its_cron(zsched: Crontab) -> None:
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


def test_next_shows_the_times_of_debians_cron(zsched: Crontab) -> None:
    zsched.env["ZSCHED_REDIS_URL"] = NOWHERE
    start = datetime(2026, 10, 24, 12, tzinfo=UTC)  # the night of which winter time begins
    times = [" ".join(line.split()[: 1 if line.startswith("@") else 5]) for line in LINES.splitlines()[2:]]

    schedules = json.loads(zsched.crontab(LINES, "--dry-run", "--json").stdout)["schedules"]

    for said, schedule in zip(times, schedules, strict=True):
        shown = zsched.json(
            *(
                "next",
                "--cron",
                schedule["cron"],
                "--tz",
                schedule["tz"],
                "--from",
                "2026-10-24T11:59:59Z",
                "--number",
                "300",
            )
        )
        runs = Line(said).runs("Europe/Berlin", start, 1440)
        assert [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in runs] == [
            one["utc"] for one in shown if one["utc"] < "2026-10-25T12"
        ]


def test_a_dry_run_prints_a_table(zsched: Crontab) -> None:
    result = zsched.crontab("17 * * * * root true\n", "--dry-run")

    header, row, last = result.stdout.splitlines()
    assert ["ID", "WHEN", "NEXT", "FROM"] == header.split()
    assert re.fullmatch(r"jobs-[0-9a-f]{10}  17 \* \* \* \*  20\d\d-\d\d-\d\d \d\d:17:00\+0[12]:00  .*/jobs:1", row)
    assert "dry run, nothing was written: 1 found, 0 refused" == last


def test_a_second_import_changes_nothing(zsched: Crontab) -> None:
    first, second = zsched.crontab(LINES), zsched.crontab("# moved\n" + LINES)

    assert "6 created, 0 updated, 0 unchanged, 0 removed, 0 refused" == summary(first)
    assert "0 created, 0 updated, 6 unchanged, 0 removed, 0 refused" == summary(second)
    assert (DONE, DONE) == (first.exit_code, second.exit_code)


def test_an_imported_line_gets_the_policies_of_cron(zsched: Crontab, client: Client) -> None:
    zsched.crontab("30 2 * * * www-data date +\\%F\n", "--queue", "cron")

    (schedule,) = client.list()
    told = schedule.to_dict()
    assert {"func": FUNC, "queue": "cron", "tz": "Europe/Berlin", "description": "date +\\%F"}.items() <= told.items()
    assert {"overlap": "allow", "catch_up": "none", "timeout_s": -1}.items() <= told.items()
    assert "30 2 * * *" == told["trigger"]["expr"]


def test_another_time_updates_and_another_command_is_another_schedule(zsched: Crontab, client: Client) -> None:
    zsched.crontab("1 1 * * * root a\n2 2 * * * root b\n")

    changed = zsched.crontab("1 2 * * * root a\n2 2 * * * root c\n")
    pruned = zsched.crontab("1 2 * * * root a\n2 2 * * * root c\n", "--prune")

    assert "  cron: 1 1 * * * → 1 2 * * *" in changed.stdout.splitlines()
    assert "1 created, 1 updated, 0 unchanged, 0 removed, 0 refused" == summary(changed)
    assert "--prune removes" in changed.stderr
    assert "0 created, 0 updated, 2 unchanged, 1 removed, 0 refused" == summary(pruned)
    assert {"a", "c"} == {one.description for one in client.list()}


def test_a_bad_line_does_not_stop_the_rest(zsched: Crontab, client: Client) -> None:
    result = zsched.crontab(REBOOT + "61 * * * * root a\n1 * * * * root b\n")

    assert (FAILED, ["b"]) == (result.exit_code, [one.description for one in client.list()])
    assert f"zsched: {zsched.cron}:1: @reboot is not a time" in result.stderr
    assert f"zsched: {zsched.cron}:2: minute '61': '61' is not a valid minute; write 0-59" in result.stderr


def test_an_id_of_another_owner_refuses_the_import_without_take_over(zsched: Crontab, client: Client) -> None:
    zsched.crontab("@daily root a\n")
    (theirs,) = client.list()
    client.update(theirs.id, owner="terraform")

    refused = zsched.crontab("@daily root a\n@daily root b\n")
    before = len(list(client.list()))
    taken = zsched.crontab("@daily root a\n@daily root b\n", "--take-over")

    assert (USAGE, 1, DONE) == (refused.exit_code, before, taken.exit_code)
    assert f"owned by 'terraform', not by 'crontab:{zsched.cron}'; --take-over" in refused.stderr
    assert "1 created, 1 updated, 0 unchanged, 0 removed, 0 refused" == summary(taken)


@pytest.mark.parametrize("dry", [True, False])
def test_a_line_of_two_crontabs_is_refused_once(zsched: Crontab, client: Client, tmp_path: Path, dry: bool) -> None:
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


def test_the_import_prints_that_cron_still_runs_and_how_to_undo(zsched: Crontab, client: Client) -> None:
    result = zsched.crontab(LINES)
    undone = zsched("import", "undo", f"crontab:{zsched.cron}")

    advice = f"take these lines out of {zsched.cron} now, or every command runs twice; to go back: zsched import undo"
    assert advice in result.stderr
    assert (DONE, "6 cancelled, 0 given back, 0 kept") == (undone.exit_code, summary(undone))
    assert [] == list(client.list())


def test_a_users_crontab_comes_from_standard_input(zsched: Crontab, client: Client) -> None:
    arguments = ("import", "crontab", "-", "--func", FUNC, "--tz", "UTC")

    refused = zsched(*arguments, input="@daily backup --all\n")
    result = zsched(*arguments, "--user", "alice", input="@daily backup --all\n")

    assert (USAGE, DONE) == (refused.exit_code, result.exit_code)
    assert [("backup --all", "crontab:alice")] == [(one.description, one.owner) for one in client.list()]


def test_a_forbidden_or_unsuitable_function_is_a_usage_error(zsched: Crontab, here: Path) -> None:
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


def test_a_missing_file_is_refused_before_any_import(zsched: Crontab, client: Client, tmp_path: Path) -> None:
    zsched.cron.write_text("@daily root true\n")

    result = zsched("import", "crontab", str(zsched.cron), str(tmp_path / "no"), "--func", FUNC, "--tz", "UTC")

    assert (USAGE, []) == (result.exit_code, list(client.list()))
    assert (
        f"zsched: {tmp_path / 'no'}: No such file or directory; give a crontab, or - for standard input"
        in result.stderr
    )


def test_the_guides_function_does_what_cron_does(
    zsched: Crontab, client: Client, redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    module = types.ModuleType("migrated")
    exec(source, vars(module))
    module.run_command.__module__ = "migrated"
    module.COMMANDS = str(tmp_path / "commands.json")
    monkeypatch.setitem(sys.modules, "migrated", module)
    out, me = tmp_path / "out", pwd.getpwuid(os.getuid()).pw_name
    zsched.cron.write_text(
        f'A="b c"\n@yearly {me} pwd > {out}; echo "$A $LOGNAME" >> {out}; cat >> {out}%first%100\\%\n'
    )
    command = ("import", "crontab", str(zsched.cron), "--func", "migrated.run_command", "--tz", "UTC")
    (tmp_path / "commands.json").write_text(zsched(*command, "--dry-run", "--json").stdout)
    zsched(*command)

    (schedule,) = client.list()
    client.run_now(schedule.id)
    work_off(Queue(connection=redis_client), redis_client)

    assert [pwd.getpwuid(os.getuid()).pw_dir, f"b c {me}", "first", "100%"] == out.read_text().splitlines()
    (listed,) = json.loads((tmp_path / "commands.json").read_text())["schedules"]
    for other in ({"environment": {"A": "b c", "SHELL": "/x"}}, {"stdin": "rm"}, {"user": "nobody"}):
        with pytest.raises(PermissionError, match=r"commands.json does not list 'pwd"):
            module.run_command(*listed["args"], **listed["kwargs"] | other)
