"""``zsched apply`` and ``zsched export`` against a real Redis."""

import json
import os
import pickle
import re
import sys
from pathlib import Path

import pytest
import redis
from click.testing import Result

from tests.builders import command_line
from tests.builders.bombs import Bomb
from tests.integration.terminals import run_on_terminal
from zsched.cli.program import DONE, FAILED, USAGE
from zsched.client import Client

pytestmark = pytest.mark.once

DIGEST = '[schedules.digest]\nfunc = "app.tasks.digest"\ncron = "0 9 * * *"\ntz = "Asia/Seoul"\n'
BEAT = '[schedules.beat]\nfunc = "app.tasks.beat"\nevery = "30s"\nstarts = 2030-01-01T00:00:00Z\n'
NOTE = (
    "zsched: not checked, and options of tasks not used, as they cannot be imported from here: {}; "
    "options may differ from those put where they can be\n"
)
EXAMPLE = Path(__file__).parents[2] / "config" / "schedules.toml"


class Zsched(command_line.Zsched):
    """A command line with a file ``jobs.toml`` that holds the given text."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url)
        self.file = folder / "jobs.toml"

    def apply(self, text: str, *arguments: str) -> Result:
        self.file.write_text(text)
        return self("apply", str(self.file), *arguments)


@pytest.fixture
def zsched(redis_url: str, tmp_path: Path) -> Zsched:
    return Zsched(redis_url, tmp_path)


def test_apply_prints_outcomes_and_changed_options(zsched: Zsched) -> None:
    first = zsched.apply(BEAT + DIGEST)
    second = zsched.apply(BEAT.replace("30s", "1m") + DIGEST)

    assert first.stdout.startswith("beat: created, next 2030-01-01 00:00:00+00:00 (in ")
    assert first.stdout.endswith("2 created, 0 updated, 0 unchanged, 0 removed\n")
    assert second.stdout.splitlines()[1:] == ["  every: 30s → 1m", "0 created, 1 updated, 1 unchanged, 0 removed"]
    note = NOTE.format("app.tasks.beat (no module 'app'), app.tasks.digest (no module 'app')")
    assert (DONE, DONE, note) == (first.exit_code, second.exit_code, second.stderr)


def test_a_dry_run_of_apply_prints_the_outcomes_and_writes_nothing(zsched: Zsched, redis_client: redis.Redis) -> None:
    result = zsched.apply(BEAT + DIGEST, "--dry-run")

    counts = "dry run, nothing was written: 2 created, 0 updated, 0 unchanged, 0 removed"
    beat, digest, times, last = result.stdout.splitlines()
    assert (DONE, "beat: created", "digest: created", counts) == (result.exit_code, beat, digest, last)
    assert re.fullmatch(r"  \+ \w+ \d+ \w+ 09:00\+09:00 …; 0 → 7 a week; first change in .+", times)
    assert [] == redis_client.keys("*")


def test_apply_prints_every_mistake_with_its_line_and_applies_nothing(
    zsched: Zsched, redis_client: redis.Redis
) -> None:
    mistakes = BEAT + 'queue = "a b"\n' + DIGEST.replace("0 9", "61 9")

    result, told = zsched.apply(mistakes), json.loads(zsched.apply(mistakes, "--json").stderr)

    first, second, last = result.stderr.splitlines()
    assert first.startswith(f"{zsched.file}:5: [schedules.beat]: queue='a b': ")
    assert second.startswith(f"{zsched.file}:8: [schedules.digest]: cron='61 9 * * *': ")
    assert f"zsched: nothing was applied: 2 mistakes in {zsched.file}" == last
    assert (USAGE, "", []) == (result.exit_code, result.stdout, redis_client.keys("*"))
    assert ("InvalidFile", f"{zsched.file}: 2 mistakes; nothing was applied") == (told["type"], told["error"])
    assert [first, second] == told["errors"]


def test_json_of_apply_has_every_step(zsched: Zsched) -> None:
    zsched.apply(BEAT + DIGEST)
    zsched.file.write_text(BEAT.replace("30s", "1m"))

    told = zsched.json("apply", str(zsched.file), "--prune")

    assert {
        "file": str(zsched.file),
        "owner": "file:jobs.toml",
        "dry_run": False,
        "counts": {"created": 0, "updated": 1, "unchanged": 0, "removed": 1},
        "schedules": [
            {
                "id": "beat",
                "line": 1,
                "outcome": "updated",
                "changes": [{"option": "every", "old": "30s", "new": "1m"}],
                "next_at": "2030-01-01T00:00:00.000Z",
            }
        ],
        "removed": ["digest"],
        "stale": [],
        "errors": [],
        "calendars": [],
    } == told


def test_apply_removes_schedules_missing_from_the_file_only_with_prune(zsched: Zsched, client: Client) -> None:
    zsched.apply(BEAT + DIGEST)

    mentioned = zsched.apply(BEAT)
    shown = zsched.apply(BEAT, "--prune", "--dry-run")
    left = sorted(one.id for one in client.list())
    removed = zsched.apply(BEAT, "--prune")

    told = "zsched: 1 schedule of this file is no longer in it: digest; --prune removes it\n"
    assert told + NOTE.format("app.tasks.beat (no module 'app')") == mentioned.stderr
    assert "digest: removed" == shown.stdout.splitlines()[0] == removed.stdout.splitlines()[0]
    assert (["beat", "digest"], ["beat"]) == (left, [one.id for one in client.list()])


def test_apply_refuses_a_schedule_of_another_owner_with_the_remedy(zsched: Zsched, client: Client) -> None:
    client.schedule("app.theirs", id="digest", every=60, owner="terraform")

    refused = zsched.apply(BEAT + DIGEST)
    taken = zsched.apply(DIGEST, "--take-over")

    assert "owned by 'terraform', not by 'file:jobs.toml'; --take-over makes it this file's" in refused.stderr
    assert (USAGE, DONE) == (refused.exit_code, taken.exit_code)
    assert "  owner: terraform → file:jobs.toml" in taken.stdout.splitlines()


def test_functions_and_callbacks_must_be_allowed(zsched: Zsched) -> None:
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.tasks.*"

    result = zsched.apply(
        BEAT + 'on_success = { func = "os.system", timeout = 3 }\n' + DIGEST.replace("app.tasks.digest", "os.system")
    )

    assert [":5: [schedules.beat]: on_success='os.system'", ":7: [schedules.digest]: func='os.system'"] == [
        line.removeprefix(str(zsched.file)).partition(": [rq]")[0] for line in result.stderr.splitlines()[:-1]
    ]
    assert USAGE == result.exit_code


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module ``typed_app`` with a task."""
    task = "@task(queue='email', timeout=60)\ndef send(to: str, n: int = 1) -> None: ..."
    (tmp_path / "typed_app.py").write_text(f"from zsched import task\n\n{task}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "typed_app", raising=False)


@pytest.mark.usefixtures("typed")
def test_a_typed_task_completes_an_entry_and_checks_its_payload(zsched: Zsched, client: Client) -> None:
    entry = '[schedules.send]\nfunc = "typed_app.send"\nevery = 60\nqueue = "own"\n'

    bad = zsched.apply(entry + "kwargs = { to = 7 }\n")
    good = zsched.apply(entry + 'kwargs = { to = "all" }\n')

    schedule = client.get("send")
    assert (USAGE, DONE) == (bad.exit_code, good.exit_code)
    assert bad.stderr.startswith(f"{zsched.file}:")
    assert ("own", 60) == (schedule.queue, schedule.timeout_s)


@pytest.mark.usefixtures("typed")
def test_a_function_missing_from_its_module_is_a_mistake_at_its_line(zsched: Zsched, redis_client: redis.Redis) -> None:
    result = zsched.apply(DIGEST.replace("app.tasks.digest", "typed_app.sned"))

    missing = "func='typed_app.sned': there is no sned in typed_app; did you mean send?"
    assert f"{zsched.file}:2: [schedules.digest]: {missing}" == result.stderr.splitlines()[0]
    assert (USAGE, []) == (result.exit_code, redis_client.keys("*"))


def test_functions_that_cannot_be_imported_are_noted_once(zsched: Zsched) -> None:
    many = "".join(f'[schedules.n{n}]\nfunc = "app.n{n % 12}"\nevery = 60\n' for n in range(24))

    dry, real = zsched.apply(many, "--dry-run"), zsched.apply(many, "--json")

    ten = ", ".join(f"app.n{n} (no module 'app')" for n in range(10))
    assert NOTE.format(f"{ten}, and 2 more") == dry.stderr == real.stderr
    assert (DONE, 24) == (real.exit_code, json.loads(real.stdout)["counts"]["created"])


def test_standard_input_is_a_file_that_names_its_owner(zsched: Zsched, client: Client) -> None:
    nameless = zsched("apply", "-", input=BEAT)
    named = zsched("apply", "-", input=f'owner = "billing"\n{BEAT}enabled = false\n')

    assert (USAGE, "standard input:1: ") == (nameless.exit_code, nameless.stderr[:18])
    beat = client.get("beat")
    assert (DONE, "billing", "put with enabled=False") == (named.exit_code, beat.owner, beat.note)


def test_a_missing_file_is_a_usage_error(zsched: Zsched, tmp_path: Path) -> None:
    missing, folder = zsched("apply", "nowhere.toml"), zsched("apply", str(tmp_path))

    assert (USAGE, USAGE) == (missing.exit_code, folder.exit_code)
    told = "No such file or directory; give a TOML file of schedules, or - for standard input"
    assert f"zsched: nowhere.toml: {told}\n" == missing.stderr


def test_an_unreachable_redis_is_a_failure(zsched: Zsched, tmp_path: Path) -> None:
    zsched.env["ZSCHED_REDIS_URL"] = f"unix://{tmp_path}/nothing.sock"

    result = zsched.apply(BEAT)

    assert (FAILED, "") == (result.exit_code, result.stdout)


def test_a_schedule_that_fails_is_reported_and_the_others_are_applied(
    zsched: Zsched, redis_client: redis.Redis
) -> None:
    redis_client.set("zsched:{default}:template:beat", "another writer's")

    result = zsched.apply(BEAT + DIGEST)

    assert FAILED == result.exit_code
    assert result.stdout.splitlines()[-1] == "1 created, 0 updated, 0 unchanged, 0 removed"
    assert result.stderr.startswith("zsched: beat: schedule 'beat': its key")


def test_apply_shows_a_progress_bar_on_a_terminal(zsched: Zsched, redis_url: str) -> None:
    zsched.file.write_text("".join(f'[schedules.n{n}]\nfunc = "app.n"\nevery = 60\n' for n in range(300)))

    printed, shown = run_on_terminal(redis_url, "apply", str(zsched.file))

    assert printed.endswith("300 created, 0 updated, 0 unchanged, 0 removed\n")
    assert "applying" in shown


def test_the_example_can_be_applied_and_applying_its_export_changes_nothing(zsched: Zsched) -> None:
    dry, real = zsched("apply", str(EXAMPLE), "--dry-run"), zsched("apply", str(EXAMPLE))
    again, exported = zsched("apply", str(EXAMPLE)), zsched("export")
    of_export = zsched.apply(exported.stdout)

    assert dry.stdout.endswith("4 created, 0 updated, 0 unchanged, 0 removed\n")
    assert real.stdout.endswith("4 created, 0 updated, 0 unchanged, 0 removed\n")
    assert "0 created, 0 updated, 4 unchanged, 0 removed\n" == again.stdout == of_export.stdout
    assert (DONE, "") == (exported.exit_code, exported.stderr)


def test_an_export_can_be_filtered_by_owner_and_id(zsched: Zsched, client: Client) -> None:
    zsched("apply", str(EXAMPLE))
    client.schedule("app.mine", id="report-mine", every=60)

    by_owner = zsched.json("export", "--owner", "example", "--id", "report-*")
    nobodys = zsched("export", "--owner", "")

    assert ("example", ["report-monthly"]) == (by_owner["owner"], by_owner["ids"])
    assert ("report-mine" in nobodys.stdout, "digest" in nobodys.stdout) == (True, False)


def test_an_export_that_omits_a_schedule_reports_it_and_exits_with_1(zsched: Zsched, client: Client) -> None:
    client.schedule("app.mine", id="mine", every=60, args=({1},))

    result, told = zsched("export"), zsched.json("export")

    reason = "args: JSON cannot say it: Object of type set is not JSON serializable"
    assert (FAILED, f"zsched: mine is only a comment: {reason}\n") == (result.exit_code, result.stderr)
    assert f"# cannot be written: {reason}\n# [schedules.mine]\n" in result.stdout
    assert [{"id": "mine", "reason": reason}] == told["unsaid"]


@pytest.mark.parametrize(
    "command",
    ["apply --dry-run", "apply", "export", "set digest --queue urgent", "set digest --args [1]"],
)
def test_apply_and_export_run_no_foreign_pickle(
    zsched: Zsched, redis_client: redis.Redis, tmp_path: Path, command: str
) -> None:
    made, key = tmp_path / "made", "zsched:{default}:template:digest"
    zsched.apply(DIGEST)
    evil = Bomb(os.system, f"touch {made}")
    meta = pickle.dumps({"a": evil})
    redis_client.hset(key, "data", pickle.dumps(("app.tasks.digest", None, (evil,), {})))
    redis_client.hset(key, "meta", meta)

    answer = zsched(*command.split(), *([str(zsched.file)] if command.startswith("apply") else []))

    assert not made.exists()
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    assert answer.exit_code in (DONE, FAILED, USAGE)
    if "--queue" in command:  # the rest stays as it was
        assert (DONE, meta) == (answer.exit_code, redis_client.hget(key, "meta"))
    if command == "export":
        assert "posix.system" in answer.stdout


def test_apply_notes_a_queue_that_urgent_and_bulk_schedules_share(zsched: Zsched, client: Client) -> None:
    """Two of the file share one, and one shares with a schedule in Redis."""
    client.schedule("app.otp", id="otp", after=3600, priority="high", queue="sms")
    entries = "".join(
        f'[schedules.{id}]\nfunc = "app.{id}"\nevery = 60\npriority = "{priority}"\nqueue = "{queue}"\n'
        for id, priority, queue in [("bill", "high", "email"), ("news", "low", "email"), ("offer", "low", "sms")]
    )

    notes = [line for line in zsched.apply(entries).stderr.splitlines() if "note: queue" in line]

    assert [("'email'", "bill", "news"), ("'sms'", "otp", "offer")] == [
        re.findall(r"queue (\S+) has .*high: (\S+)\).*low: (\S+)\)", note)[0] for note in notes
    ]
    assert "note: queue" not in zsched.apply(entries, "--json").stderr
