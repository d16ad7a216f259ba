"""Keys: their file, the commands ``zsched keys``, and a rotation of keys while runs are pushed and executed."""

import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from tests.breadth import everything
from tests.builders.daemons import DaemonThread
from tests.integration.guard.forging import KEY_LINES, KEYS, TASKS, Bomb, Forge, call, key_file
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client, InvalidSchedule, RowsRefused
from zsched.cli import program
from zsched.cli.program import DONE, FAILED, USAGE
from zsched.core.options.choices import ScheduleState
from zsched.core.runs.job import SIGNATURE_FIELD
from zsched.embedded.guard import Guard
from zsched.storage.keyfile import KeyFile

WORK = f"{TASKS}.work"
FAR = datetime(2031, 1, 1, tzinfo=UTC)
OLD, NEW = f"k1 {'11' * 32}\n", f"k3 {'33' * 32}\n"
RUNS, PER_CALL = 10_000 if everything() else 2_000, 200


@pytest.fixture
def web(forge: Forge) -> Client:
    """A client of a server that has the limited key alone."""
    return Client.from_url(forge.url, signing_keys_file=key_file(forge.folder, f"web1 {'aa' * 32}\n", "web-keys"))


def zsched(forge: Forge, *arguments: str) -> Result:
    env = {"ZSCHED_REDIS_URL": forge.url, "ZSCHED_SIGNING_KEYS_FILE": str(forge.folder / "keys")}
    return CliRunner().invoke(program, arguments, env=env)


def key_of(forge: Forge, id: str) -> str:
    """Return the id of the key that signed a waiting schedule, or ''."""
    name = f"zsched:{{default}}:template:{id}"
    name = name if forge.redis.exists(name) else KEYS.rq.job(f"{id}-{int(FAR.timestamp()) * 1000}")
    return (forge.redis.hget(name, SIGNATURE_FIELD) or b"").decode().partition(".")[0]


def newest_key(forge: Forge) -> str:
    """Return the id of the key that signed the last run of the queue, or ''."""
    newest = forge.redis.lindex(f"{RQ}:queue:default", -1)
    return forge.fields(newest.decode()).get(SIGNATURE_FIELD, b"").decode().partition(".")[0] if newest else ""


def wait(client: Client, *ids: str) -> None:
    """Let a one-shot, and a recurring schedule whose id begins with an r, wait for each of *ids*."""
    for id in ids:
        when = {"cron": "0 0 1 1 *"} if id.startswith("r") else {"at": FAR}
        client.schedule(WORK, args=(id,), id=id, **when)  # type: ignore[arg-type]


def test_a_new_key_with_a_usable_id_is_a_line_for_a_file(forge: Forge, tmp_path: Path) -> None:
    made, refused = zsched(forge, "keys", "new", "k7"), zsched(forge, "keys", "new", "Key-1")

    keys = KeyFile(key_file(tmp_path, made.stdout, "made")).current()
    assert (DONE, ["k7"]) == (made.exit_code, list(keys.keys))
    assert (USAGE, "") == (refused.exit_code, refused.stdout)
    assert "key id 'Key-1': use 1 to 8 of a-z and 0-9" in refused.stderr


@pytest.mark.parametrize("state", [ScheduleState.ACTIVE, ScheduleState.PAUSED])
def test_schedules_are_signed_by_the_first_key_and_keep_state_and_times(forge: Forge, state: ScheduleState) -> None:
    def found() -> list[Any]:
        return [(one.next_at, one.state, one.note) for one in map(forge.client.get, ("one", "rule"))]

    wait(forge.client, "one", "rule")
    for id in ("one", "rule") if state is ScheduleState.PAUSED else ():
        forge.client.pause(id, "later")
    before = found()
    key_file(forge.folder, NEW + f"k2 {'22' * 32}\n")

    signed, again = (zsched(forge, "keys", "sign", "--match", "*") for _ in range(2))

    assert ["2 schedules signed\n", "0 schedules signed; 2 needed no change\n"] == [signed.stdout, again.stdout]
    assert (["k3", "k3"], before) == ([key_of(forge, id) for id in ("one", "rule")], found())
    assert [state] * 2 == [each for _, each, _ in before]


def test_applying_a_file_again_renews_signatures_by_another_key(forge: Forge, tmp_path: Path) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text(f'[schedules.rule]\nfunc = "{WORK}"\nargs = ["rule"]\ncron = "0 0 1 1 *"\n')

    def apply() -> str:
        return zsched(forge, "apply", str(file)).stdout

    before = [apply(), apply()]
    key_file(forge.folder, NEW + f"k2 {'22' * 32}\n")
    after = [apply(), apply()]

    words = ["1 created", "1 unchanged", "1 updated", "1 unchanged"]
    assert words == [word for word, told in zip(words, before + after, strict=True) if word in told]
    assert "no option differs; its signature is new" in after[0]
    assert "k3" == key_of(forge, "rule")


def test_schedules_without_a_signature_are_signed_on_request_alone(forge: Forge, guard: Guard) -> None:
    wait(Client.from_url(forge.url), "one", "rule")

    refused = zsched(forge, "keys", "sign", "--match", "*")
    signed = zsched(forge, "keys", "sign", "--match", "*", "--unsigned")
    for id in ("one", "rule"):
        forge.client.run_now(id)
    forge.burst(guard)

    assert (FAILED, DONE) == (refused.exit_code, signed.exit_code)
    assert "it has no signature" in refused.stdout
    assert {"one", "rule"} == forge.receipts


def test_a_forged_schedule_is_not_signed_even_on_request(forge: Forge) -> None:
    wait(forge.client, "one")
    run_id = f"one-{int(FAR.timestamp()) * 1000}"
    forge.alter(run_id, data=call("evil"))
    before = forge.fields(run_id)[SIGNATURE_FIELD]

    refused = zsched(forge, "keys", "sign", "--match", "*", "--unsigned")

    assert (FAILED, before) == (refused.exit_code, forge.fields(run_id)[SIGNATURE_FIELD])
    assert "or the job was changed after it was signed" in refused.stdout


def test_a_server_with_a_limited_key_schedules_what_the_key_may_sign(forge: Forge, guard: Guard, web: Client) -> None:
    good = web.enqueue(WORK, args=("good",), queue="web").run_id or ""
    bad = web.enqueue(f"{TASKS}.other", args=("bad",), queue="web").run_id or ""

    forge.burst(guard, queues=("web",))

    assert {"good"} == forge.receipts
    assert (b"finished", b"failed") == (forge.fields(good)["status"], forge.fields(bad)["status"])


PUTS: dict[str, Callable[..., Any]] = {
    "enqueue": lambda web, **options: web.enqueue(id="a", **options),
    "a one-shot": lambda web, **options: web.schedule(id="a", after=60, **options),
    "a rule": lambda web, **options: web.schedule(id="a", cron="0 9 * * *", **options),
    "many": lambda web, **options: web.schedule_many([{**options, "id": "a", "after": 60}]),
    "update": lambda web, **options: web.update("waits", **options),
}


@pytest.mark.parametrize("put", PUTS)
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"func": f"{TASKS}.other", "queue": "web"}, f"key 'web1' may not sign {TASKS}.other"),
        ({"func": WORK, "queue": "mail"}, "key 'web1' may not sign for queue 'mail'"),
        ({"func": WORK, "queue": "web", "on_failure": f"{TASKS}.boom"}, f"key 'web1' may not sign {TASKS}.boom"),
        ({"func": WORK, "queue": "web", "args": (Bomb("a"),)}, "key 'web1' has limits, so it may sign plain values"),
    ],
)
def test_a_client_whose_own_file_has_the_limits_refuses_what_its_key_may_not_sign(
    forge: Forge, put: str, options: dict[str, Any], problem: str
) -> None:
    [line] = [line for line in KEY_LINES.splitlines() if line.startswith("web1")]
    web = Client.from_url(forge.url, signing_keys_file=key_file(forge.folder, line, "web-keys"))
    web.schedule(WORK, id="waits", after=60, queue="web")

    with pytest.raises((InvalidSchedule, RowsRefused), match=f"{re.escape(problem)}.*; let a client do it whose key"):
        PUTS[put](web, **options)
    assert [] == [run.id for run in forge.client.runs("a")]


def test_an_object_that_a_limited_key_signed_is_signed_by_no_other_key(forge: Forge, guard: Guard, web: Client) -> None:
    web.schedule(WORK, args=(Bomb("waits"),), id="waits", at=FAR, queue="web")
    run_id = web.enqueue(WORK, args=(Bomb("now"),), queue="web").run_id or ""

    with pytest.raises(InvalidSchedule, match="key 'web1' has limits, so it may sign plain values only"):
        forge.client.update("waits", at=FAR)
    assert "key 'web1' has limits" in forge.client.sign_many(match="waits").refused[0][1]
    forge.burst(guard, queues=("web",))
    again = forge.client.retry(run_id)
    forge.burst(guard, queues=("web",))

    assert (set(), b"failed") == (forge.receipts, forge.fields(again)["status"])


def test_changes_of_what_another_key_signed_need_that_key_and_its_limits(forge: Forge, web: Client) -> None:
    with pytest.raises(InvalidSchedule, match="this client has no keys; give Client"):
        Client.from_url(forge.url).sign_many(match="*")

    wait(forge.client, "one")
    web.schedule(f"{TASKS}.other", args=("x",), id="two", at=FAR, queue="web")

    with pytest.raises(InvalidSchedule, match="by key 'k2', which is not in this process's file of keys"):
        web.update("one", queue="web")
    with pytest.raises(InvalidSchedule, match=f"key 'web1' may not sign {TASKS}.other"):
        forge.client.update("two", at=FAR)


def test_a_rotation_of_keys_under_load_refuses_no_run(forge: Forge, guard: Guard, redis_client: redis.Redis) -> None:
    key_file(forge.folder, OLD)
    client = Client.from_url(forge.url, signing_keys_file=str(forge.folder / "keys"))
    wait(client, "rule", "later")
    for _ in range(2):
        forge.start(guard, "zsched.rq.SimpleWorker", "--quiet")
    is_rotated, pushed = threading.Event(), [0]
    finished, failed = f"{RQ}:finished:default", f"{RQ}:failed:default"

    def push() -> None:
        while pushed[0] < RUNS or not is_rotated.is_set():
            rows = [
                {"func": WORK, "args": ("one",), "id": f"one-{pushed[0] + n}", "after": 0.0, "result_ttl": 600}
                for n in range(PER_CALL)
            ]
            client.schedule_many(rows)  # type: ignore[arg-type]
            pushed[0] += PER_CALL
            eventually(lambda: redis_client.llen(f"{RQ}:queue:default") < 2 * PER_CALL, within_s=120)

    with DaemonThread(forge.url) as daemon:
        daemon.wait_for("term_began")
        thread = threading.Thread(target=push)
        thread.start()
        eventually(lambda: pushed[0] >= 0.2 * RUNS, within_s=300)
        key_file(forge.folder, OLD + NEW)
        eventually(lambda: pushed[0] >= 0.4 * RUNS, within_s=300)
        key_file(forge.folder, NEW + OLD)
        eventually(lambda: newest_key(forge) == "k3", within_s=300)
        client.sign_many(match="*")
        by_old = pushed[0]
        ended = partial(redis_client.zrange, finished, 0, -1)
        eventually(lambda: sum(int(id.split(b"-")[1]) < by_old for id in ended()) >= by_old, within_s=300)
        key_file(forge.folder, NEW)
        is_rotated.set()
        thread.join()
        runs = [client.run_now("rule"), client.run_now("later")]
        over = pushed[0] + len(runs)
        eventually(lambda: redis_client.zcard(finished) + redis_client.zcard(failed) >= over, within_s=300)

    assert (over, 0) == (redis_client.zcard(finished), redis_client.zcard(failed))
    assert {"k3"} == {forge.fields(run_id)[SIGNATURE_FIELD].decode().partition(".")[0] for run_id in runs}
