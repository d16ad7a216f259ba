"""Signatures survive everything that zsched and RQ do with a job."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
import redis
from rq.registry import FailedJobRegistry

from tests.builders.daemons import DaemonThread, archive_of_its_own, leading_daemon
from tests.integration.guard.forging import KEYS, TASKS, Forge, call, key_file
from tests.integration.reruns.ends import archived
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client, InvalidSchedule, PayloadGone, RunStatus
from zsched.aio import AsyncClient
from zsched.config.settings import ArchiveSettings
from zsched.core.runs.job import SIGNATURE_FIELD
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link
from zsched.storage.signing import Subject, check_run

WORK, COUNT = f"{TASKS}.work", f"{TASKS}.count_in_meta"
A_MONTH_S = 2_592_000


def finished(forge: Forge, *run_ids: str) -> bool:
    return all(forge.fields(run_id).get("status") == b"finished" for run_id in run_ids)


def subject_of(forge: Forge, run_id: str) -> Subject:
    """Return the subject of the good signature of a run."""
    return check_run(forge.ring, run_id, forge.fields(run_id), 0).subject


@pytest.fixture
def fired(forge: Forge, daemon: DaemonThread) -> Any:
    """Return a function that waits until a schedule has fired, and returns its last run's id."""

    def wait(id: str) -> str:
        run = eventually(lambda: next(iter(forge.client.runs(id)), None))
        assert run is not None
        return run.id

    return wait


def test_a_signed_run_of_each_way_to_a_worker_runs(forge: Forge, guard: Guard, kind: str, fired: Any) -> None:
    forge.client.schedule(WORK, args=("delayed",), id="delayed", after=0.01)
    forge.client.schedule(WORK, args=("at",), id="at", at=datetime.now(UTC), allow_past=True)
    forge.client.schedule(WORK, args=("every",), id="every", every=3600, starts=datetime.now(UTC))
    forge.client.schedule(WORK, args=("cron",), id="cron", cron="0 0 1 1 *")
    far = datetime.now(UTC) + timedelta(days=300)
    forge.client.schedule(WORK, args=("later",), id="later", at=far)
    rows: Any = [{"func": WORK, "args": (f"many-{n}",), "id": f"many-{n}", "after": 0.01} for n in range(3)]
    rows += [{"func": WORK, "args": ("row",), "id": "row", "cron": "0 0 1 1 *"}]
    forge.client.schedule_many(rows)
    now = datetime.now(UTC)
    forge.client.schedule(WORK, args=("filled",), id="hourly", every=3600, starts=now - timedelta(hours=3))
    filled = forge.client.backfill("hourly", now - timedelta(hours=3), now, again=True)
    assert 3 == len(filled.runs)
    runs = [forge.enqueue("now"), *map(forge.client.run_now, ("cron", "later", "row")), *map(str, filled.run_ids)]
    runs += map(fired, ("delayed", "at", "many-0", "many-1", "many-2"))

    forge.burst(guard, kind)

    assert finished(forge, *runs)
    assert forge.receipts >= {"delayed", "at", "cron", "later", "row", "now", "many-0", "many-1", "many-2"}


def test_a_signed_run_with_an_argument_that_repeats_its_values_runs(forge: Forge, guard: Guard) -> None:
    run_id = forge.client.enqueue(f"{TASKS}.add_up", args=("sum", [[1] * 100] * 2000))

    forge.burst(guard)

    assert {"sum-200000"} == forge.receipts, run_id


def test_an_update_of_a_signed_schedule_is_signed(forge: Forge, guard: Guard) -> None:
    forge.client.schedule(WORK, args=("before",), id="a", after=3600, description="a line for people")
    forge.client.update("a", after=7200)
    forge.client.update("a", queue="other")
    forge.client.update("a", args=("after",))

    run_id = forge.client.run_now("a")
    forge.burst(guard, queues=("other",))

    assert finished(forge, run_id)
    assert {"after"} == forge.receipts


@pytest.mark.parametrize("when", [{"after": 60}, {"every": 60}, {}])
def test_a_payload_that_no_guard_would_inflate_is_refused(forge: Forge, when: dict[str, Any]) -> None:
    put = forge.client.schedule if when else forge.client.enqueue

    with pytest.raises(InvalidSchedule, match="args: the payload cannot be signed: it has more than 10,000,000 bytes"):
        put(WORK, args=("a" * 10_000_000,), **when)

    assert [] == forge.redis.keys(f"{RQ}:job:*")


@pytest.mark.parametrize(
    ("altered", "message"),
    [
        ({"data": call("evil")}, "the job was changed after it was signed; schedule it again"),
        ({"retries_left": "9"}, "it has more retries left than were signed; schedule it again"),
    ],
)
def test_an_update_of_a_forged_schedule_is_refused(forge: Forge, altered: dict[str, Any], message: str) -> None:
    run_id = forge.client.schedule(WORK, args=("good",), id="a", after=3600, retry=1).run_id or ""
    forge.alter(run_id, **altered)

    with pytest.raises(InvalidSchedule, match=message):
        forge.client.update("a", queue="other")


@pytest.mark.parametrize("when", [{"after": 3600}, {"cron": "0 9 * * *"}])
def test_an_update_of_a_schedule_that_shows_another_function_is_refused(forge: Forge, when: dict[str, Any]) -> None:
    run_id = forge.client.schedule(WORK, args=("good",), id="a", **when).run_id
    other = f"{TASKS}.other"
    if run_id is None:
        forge.redis.hset(KEYS.schedule("a"), "func", other)
    else:
        forge.alter(run_id, description=other)

    with pytest.raises(InvalidSchedule, match=f"it shows the function '{other}', and is signed for '{WORK}'"):
        forge.client.update("a", args=("after",))
    assert "it shows the function" in forge.client.sign_many(match="a").refused[0][1]


def test_an_update_neither_drops_nor_adds_a_signature(forge: Forge, guard: Guard) -> None:
    forge.client.schedule(WORK, args=("good",), id="a", after=3600)

    with pytest.raises(InvalidSchedule, match="it is signed, and this client has no keys"):
        Client.from_url(forge.url).update("a", queue="other")

    Client.from_url(forge.url).schedule(WORK, args=("a",), id="a", after=3600)

    run_id = forge.client.update("a", queue="other").run_id or ""
    assert SIGNATURE_FIELD not in forge.fields(run_id)
    assert 1 == forge.client.sign_many(match="a", unsigned=True).done

    forge.client.run_now("a")
    forge.burst(guard, queues=("other",))
    assert {"a"} == forge.receipts


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_one_shot_that_runs_now_is_tried_again_and_retried_before_its_time(
    forge: Forge, guard: Guard, is_paused: bool
) -> None:
    forge.client.schedule(COUNT, args=(4,), id="a", after=A_MONTH_S, retry=1, meta={"count": 0})
    if is_paused:
        forge.client.pause("a")
    run_id = forge.client.run_now("a")
    assert Subject.RUN_NOW is subject_of(forge, run_id)
    assert [("enqueued", "run now", run_id)] == [
        (one.what.value, one.why, one.run_id) for one in forge.client.history("a")
    ]

    forge.burst(guard)
    assert b"failed" == forge.fields(run_id)["status"]
    again = forge.client.retry(run_id)
    forge.burst(guard)

    assert finished(forge, again)


def test_a_client_without_the_key_runs_no_signed_one_shot_before_its_time(forge: Forge, guard: Guard) -> None:
    run_id = forge.client.schedule(WORK, args=("a",), id="a", after=A_MONTH_S).run_id or ""

    with pytest.raises(InvalidSchedule, match="it is signed, and this client has no keys; let a client with its key"):
        Client.from_url(forge.url).run_now("a")

    assert b"scheduled" == forge.fields(run_id)["status"]
    forge.client.schedule(WORK, args=("rule",), id="rule", cron="0 0 1 1 *")
    by_a_rule = Client.from_url(forge.url).run_now("rule")
    forge.burst(guard)
    assert finished(forge, by_a_rule)


def test_a_forged_one_shot_is_not_signed_to_run_now(forge: Forge) -> None:
    run_id = forge.client.schedule(WORK, args=("a",), id="a", after=A_MONTH_S).run_id or ""
    forge.alter(run_id, data=call("evil"))
    before = forge.fields(run_id)

    with pytest.raises(InvalidSchedule, match="the job was changed after it was signed"):
        forge.client.run_now("a")

    assert before == forge.fields(run_id)


def test_a_run_that_was_signed_to_run_now_runs_after_a_recovery(
    forge: Forge, guard: Guard, link: Link, redis_client: redis.Redis
) -> None:
    with leading_daemon(forge.url) as daemon:
        forge.client.schedule(WORK, args=("a",), id="a", after=A_MONTH_S)
        run_id = forge.client.run_now("a")
        archived(link)
        redis_client.flushall()
        daemon.wait_for("recovery_done")

        forge.burst(guard)

    assert finished(forge, run_id)
    assert {"a"} == forge.receipts


def test_a_repeated_put_changes_nothing_but_a_signature_by_another_key(forge: Forge) -> None:
    def outcomes(client: Client) -> list[str]:
        at = datetime(2031, 1, 1, tzinfo=UTC)
        one = client.schedule(WORK, args=("a",), id="one", at=at)
        rule = client.schedule(WORK, args=("a",), id="rule", cron="0 9 * * *")
        return [one.outcome, rule.outcome]

    other = Client.from_url(forge.url, signing_keys_file=key_file(forge.folder, f"k3 {'33' * 32}\n", "new-keys"))

    assert (["created"] * 2, ["unchanged"] * 2) == (outcomes(forge.client), outcomes(forge.client))
    assert ["updated"] * 2 == outcomes(other)
    assert forge.redis.hget("zsched:{default}:template:rule", SIGNATURE_FIELD).startswith(b"k3.")


@pytest.mark.parametrize("mode", ["off", "enforce"])
def test_a_next_is_signed_by_its_worker(forge: Forge, guard: Guard, daemon: DaemonThread, kind: str, mode: str) -> None:
    forge.enqueue("first", f"{TASKS}.chained", kwargs={"left": 1})
    forge.burst(guard, kind, ZSCHED_WORKER_GUARD=mode)
    eventually(lambda: forge.redis.llen(f"{RQ}:queue:default") or "first-0" in forge.receipts)

    forge.burst(guard, kind)

    assert {"first-1", "first-0"} == forge.receipts


@pytest.mark.anyio
async def test_an_async_client_signs_as_the_client_does(forge: Forge, guard: Guard) -> None:
    async with AsyncClient.from_url(forge.url, signing_keys_file=str(forge.folder / "keys")) as client:
        await client.schedule(WORK, args=("later",), id="later", after=3600)
        runs = [(await client.enqueue(WORK, args=("now",))).run_id or "", await client.run_now("later")]

    await anyio.to_thread.run_sync(forge.burst, guard)

    assert finished(forge, *runs)


def test_a_run_that_rewrites_its_meta_or_returns_retry_is_tried_again(forge: Forge, guard: Guard, kind: str) -> None:
    plain = forge.enqueue("plain", COUNT, args=(3,), retry=3)
    with_meta = forge.enqueue("with-meta", COUNT, args=(3,), retry=3, meta={"count": 0, "when": datetime(2026, 1, 1)})
    forge.client.schedule(COUNT, args=(2,), id="rule", cron="0 0 1 1 *", retry=2, meta={"count": 0})
    of_a_rule = forge.client.run_now("rule")
    returns_retry = forge.enqueue("again", f"{TASKS}.again")

    forge.burst(guard, kind)

    assert finished(forge, plain, with_meta, of_a_rule, returns_retry)
    assert "again-True" in forge.receipts
    assert Subject.RUN_NOW is subject_of(forge, plain)


def test_a_run_with_a_payload_in_json_is_tried_again(forge: Forge, guard: Guard, kind: str) -> None:
    client = Client.from_url(forge.url, serializer="json", signing_keys_file=str(forge.folder / "keys"))
    run_id = client.enqueue(COUNT, args=(2,), retry=2, meta={"count": 0, "tags": ["a", "é"]}).run_id or ""
    forged = forge.push("forged-1700000000000", {"data": json.dumps([WORK, None, ["forged"], {}])})

    forge.burst(guard, kind, "--serializer", "rq.serializers.JSONSerializer")

    assert (True, b"failed") == (finished(forge, run_id), forge.fields(forged)["status"])
    assert "forged" not in forge.receipts


def test_meta_of_another_program_is_not_signed_by_the_worker(forge: Forge, guard: Guard) -> None:
    run_id = forge.enqueue("admin", f"{TASKS}.fail_after_reading_meta", retry=2)

    forge.burst(guard)

    assert (set(), b"failed") == (forge.receipts, forge.fields(run_id)["status"])
    assert "the job was changed after it was signed" in forge.log


@pytest.mark.parametrize("by", ["client", "client, of a rule", "rq"])
def test_a_failed_run_runs_again_on_request(forge: Forge, guard: Guard, by: str) -> None:
    forge.client.schedule(COUNT, args=(2,), id="rule", cron="0 0 1 1 *", meta={"count": 0})
    made = forge.enqueue("twice", COUNT, args=(2,), meta={"count": 0})
    run_id = forge.client.run_now("rule") if "rule" in by else made
    forge.burst(guard)
    assert b"failed" == forge.fields(run_id)["status"]

    if by == "rq":  # as rq-dashboard's button and `rq requeue` do
        again = run_id
        FailedJobRegistry("default", connection=forge.redis).requeue(run_id)
    else:
        again = forge.client.retry(run_id)
    assert by != "client" or Subject.RETRY is subject_of(forge, again)
    forge.burst(guard)

    assert finished(forge, again)


def test_a_retry_of_a_forged_run_is_not_signed(forge: Forge, guard: Guard) -> None:
    run_id = forge.alter(forge.enqueue("a"), data=call("evil"))
    forge.burst(guard)

    again = forge.client.retry(run_id)
    forge.burst(guard)

    assert (b"failed", set()) == (forge.fields(again)["status"], forge.receipts)


def test_a_run_that_rq_forgot_is_retried_from_the_archive(forge: Forge, guard: Guard, daemon: DaemonThread) -> None:
    run_id = forge.client.schedule(WORK, args=("a",), id="a", after=3600).run_id or ""
    forge.client.run_now("a")
    forge.burst(guard)
    eventually(lambda: forge.client.get_run(run_id)[0].status is RunStatus.SUCCEEDED)
    forge.redis.delete(KEYS.rq.job(run_id))

    again = forge.client.retry(run_id)
    forge.burst(guard)

    assert finished(forge, again)


def test_a_run_that_is_over_does_not_run_again_by_its_id_alone(forge: Forge, guard: Guard, kind: str) -> None:
    run_id = forge.enqueue("a")
    forge.burst(guard, kind)
    (forge.folder / "receipts" / "a").unlink()

    forge.redis.rpush(f"{RQ}:queue:default", run_id)
    forge.burst(guard, kind)

    assert (set(), True) == (forge.receipts, finished(forge, run_id))
    assert f"job {run_id} is refused: it is over: its status is finished" in forge.log
    assert 0 == forge.redis.exists(f"{RQ}:queue:default:intermediate")


def test_copied_jobs_run_again_as_the_security_page_says(forge: Forge, guard: Guard) -> None:
    forge.client.schedule(WORK, args=("rule",), id="rule", cron="0 0 1 1 *")
    of_a_rule, one_shot = forge.client.run_now("rule"), forge.enqueue("one-shot")
    forge.burst(guard)
    for receipt in (forge.folder / "receipts").iterdir():
        receipt.unlink()
    cancelled = forge.client.schedule(WORK, args=("cancelled",), id="cancelled", after=30).run_id or ""
    copies = {run_id: forge.fields(run_id) | {"status": "queued"} for run_id in (of_a_rule, one_shot, cancelled)}
    forge.client.cancel("cancelled")

    for run_id, other in ((of_a_rule, "rule-1600000000000"), (one_shot, one_shot), (cancelled, cancelled)):
        forge.push(other, copies[run_id])
    forge.burst(guard)

    assert {"rule", "one-shot", "cancelled"} == forge.receipts


@pytest.mark.parametrize("keep_args", [True, False])
def test_schedules_run_after_a_recovery_from_an_archive(
    forge: Forge, guard: Guard, link: Link, redis_client: redis.Redis, keep_args: bool
) -> None:
    forge.client.schedule(WORK, args=("one",), id="one", after=3600)
    forge.client.schedule(WORK, args=("rule",), id="rule", cron="0 0 1 1 *")
    with leading_daemon(forge.url, keep_args=keep_args) as daemon:
        pushed = forge.enqueue("pushed")
        archived(link)
        redis_client.flushall()
        daemon.wait_for("recovery_done")
        runs = [pushed, *map(forge.client.run_now, ("one", "rule"))]

        forge.burst(guard)

    assert finished(forge, *runs)
    assert {"one", "rule", "pushed"} == forge.receipts


def test_a_run_whose_arguments_were_deleted_is_not_retried(forge: Forge, guard: Guard, link: Link) -> None:
    archive = ArchiveSettings(path=archive_of_its_own(), keep_args=False)
    with DaemonThread(forge.url, archive=archive) as daemon:
        daemon.wait_for("term_began")
        run_id = forge.enqueue("a")
        forge.burst(guard)
        eventually(lambda: forge.client.get_run(run_id)[0].status is RunStatus.SUCCEEDED)
        archived(link)  # else the arguments come after the removal
        forge.redis.delete(KEYS.rq.job(run_id))
        with closing(sqlite3.connect(archive.path, isolation_level=None)) as db:
            db.execute("DELETE FROM argument")  # as the hourly removal does

        with pytest.raises(PayloadGone):
            forge.client.retry(run_id)
