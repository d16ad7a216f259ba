"""``zsched archive recover``: its restores into a Redis that lost data, and its output before and after."""

import pytest
from rq.job import Job, JobStatus

from tests.builders.leaders import begin_term
from tests.builders.scenes import Scene
from tests.integration.cli_recover.losses import HOUR_S, Recover, dump, listed, lose_all, populate
from tests.prefix import RQ
from tests.states import state_of
from zsched.cli.program import DONE, USAGE
from zsched.cli.recovering import report
from zsched.client.calls import caller
from zsched.core.clock import from_ms
from zsched.storage.scripts import Scripts

pytestmark = pytest.mark.once


def test_recover_writes_nothing_if_redis_lost_nothing(scene: Scene, zsched: Recover) -> None:
    populate(scene)
    scene.redis.delete(scene.keys.lease())
    before = dump(scene.redis)

    result = zsched()

    assert (DONE, True) == (result.exit_code, result.stdout.startswith("Nothing to do: Redis lost nothing"))
    assert before == dump(scene.redis)
    assert None is zsched.json()["verdict"]
    scene.client.cancel("once")  # now it is ahead of the archive
    assert zsched().stdout.startswith("Nothing to do")
    assert zsched("--dry-run").stdout.startswith("Nothing to do")


def test_schedules_that_lost_their_keys_one_by_one_are_listed_and_restored(scene: Scene, zsched: Recover) -> None:
    populate(scene)
    before = listed(scene.client)
    scene.redis.delete(scene.keys.lease(), scene.keys.schedule("cron"), scene.keys.template("cron"))
    scene.redis.zrem(scene.keys.due_normal(), "once")
    scene.redis.hdel(scene.keys.paused(), "paused")
    at_once = dump(scene.redis)

    result = zsched("--dry-run")

    assert (DONE, at_once) == (result.exit_code, dump(scene.redis))
    assert "keys of single schedules were deleted or changed" in result.stdout
    assert "restore 3 schedules" in result.stdout
    result = zsched()
    assert DONE == result.exit_code, result.stderr
    assert "restored 3 schedules" in result.stdout
    assert before == listed(scene.client)
    assert zsched("--dry-run").stdout.startswith("Nothing to do")


def test_a_quarantined_schedule_whose_content_is_gone_goes_back_to_its_lane(scene: Scene, zsched: Recover) -> None:
    scene.client.schedule("app.digest", id="hourly", every=HOUR_S, starts=from_ms(scene.now_ms + 1000))
    scene.redis.delete(scene.keys.template("hourly"))
    scene.pass_time(1001)
    scene.tick()
    scene.tick()
    assert scene.redis.hexists(scene.keys.quarantine(), "hourly")
    scene.follower.step()
    scene.redis.delete(scene.keys.lease())

    assert "restore 1 schedule" in zsched("--dry-run").stdout
    assert "restored 1 schedule" in zsched().stdout
    assert [("hourly", "active")] == [(one.id, one.state.value) for one in scene.client.list()]


def test_an_unknown_zone_is_refused_first(zsched: Recover) -> None:
    assert "Mars" in zsched.refusal("--tz", "Mars/Base", code=USAGE)


def test_a_dry_run_lists_all_that_an_emptied_redis_lost_and_writes_nothing(scene: Scene, zsched: Recover) -> None:
    lose_all(scene)
    scene.redis.set("somebody", "else's")
    before = dump(scene.redis)

    result = zsched("--dry-run", "--tz", "Asia/Seoul")

    assert (DONE, "") == (result.exit_code, result.stderr)
    assert before == dump(scene.redis)
    for line in (
        "both have   none: Redis has nothing of what the archive has",
        "restore 4 schedules, 1 of them overdue",
        "push again 1 run that may have been executed, marked uncertain",
        "skip 1 run that may have been executed, as its schedule demands",
    ):
        assert line in result.stdout.splitlines()
    rows = {line.split("  ")[0]: line for line in result.stdout.splitlines() if "app." in line}
    assert ["restore", "restore (paused)", "push again", "skip"] == list(rows)
    for what, texts in {
        "restore (paused)": ("paused", "app.report"),
        "push again": ("fired", "app.bill"),
        "skip": ("careful", "app.sms"),
    }.items():
        assert all(text in rows[what].split() for text in texts)
    assert "09:00:00+09:00" in result.stdout
    assert "secret" not in result.stdout


_IDS = {"once", "cron", "paused", "fired", "careful", "late"}


def test_a_recovery_brings_back_the_same_schedules_with_the_same_next_times(scene: Scene, zsched: Recover) -> None:
    populate(scene)
    before = listed(scene.client)
    runs = {run.rpartition("-")[0] for run in scene.queued()}
    assert {"fired", "careful"} == runs
    scene.redis.flushall()

    result = zsched()

    assert DONE == result.exit_code
    assert before == listed(scene.client)
    [again] = scene.queued()
    assert again.startswith("fired-")
    assert b"1" == scene.redis.hget(f"{RQ}:job:{again}", "zs_uncertain")
    table = [line.split() for line in result.stdout.splitlines() if "app." in line]
    assert [["pushed", "again", "fired"], ["skipped", "careful"]] == [table[0][:3], table[1][:2]]
    assert "restored 4 schedules, 1 of them overdue" in result.stdout.splitlines()
    log = [texts for _, texts in scene.redis.xrange(scene.keys.log())]
    assert {caller().encode()} == {texts.get(b"by") for texts in log if texts[b"kind"] == b"restore"}
    assert {None} == {texts.get(b"by") for texts in log if texts[b"kind"] != b"restore"}
    assert zsched().stdout.startswith("Nothing to do")


def test_an_open_run_keeps_its_id_after_a_recovery(scene: Scene, zsched: Recover) -> None:
    first = scene.client.enqueue("app.pay", id="pay-1", if_exists="keep")
    assert scene.follower.step()
    scene.redis.flushall()
    assert DONE == zsched().exit_code

    again = scene.client.enqueue("app.pay", id="pay-1", if_exists="keep")

    assert ("kept", first.run_id) == (again.outcome, again.run_id)
    assert {first.run_id} == scene.queued()


def test_recover_reports_a_run_that_cannot_be_pushed_again(scene: Scene, zsched: Recover) -> None:
    lose_all(scene)
    scene.redis.set(f"{RQ}:queue:default", "another writer's")

    result = zsched()

    lines = result.stdout.splitlines()
    assert "could not push again 1 run: something else has the key of its queue" in lines
    assert [] == [line for line in lines if line.startswith("pushed again")]
    assert [line for line in lines if line.startswith("could not push again  fired  ")]


def test_recover_reports_runs_that_it_leaves_to_rq(scene: Scene, zsched: Recover) -> None:
    lose_all(scene)
    runs = [row.key for row in state_of(scene.archive) if row.place == "open"]
    for key in runs:  # as a worker does that had them, without a job left
        Job("-".join(key), connection=scene.redis).set_status(JobStatus.FAILED)

    planned, result = zsched("--dry-run"), zsched()

    assert "leave to RQ 2 runs that may have been executed, and whose job RQ has" in planned.stdout.splitlines()
    assert "left to RQ 2 runs that may have been executed, and whose job RQ has" in result.stdout.splitlines()
    assert set() == scene.queued()
    table = [line.split("  ")[0:2] for line in result.stdout.splitlines() if line.startswith("left to RQ  ")]
    assert [["left to RQ", "careful"], ["left to RQ", "fired"]] == sorted(table)


def test_json_of_recover_is_one_document_with_counts_and_rows(scene: Scene, zsched: Recover) -> None:
    populate(scene)
    position = scene.archive.position
    assert position is not None
    scene.redis.flushall()

    planned, done = zsched.json("--dry-run"), zsched.json()

    counts = {
        "put_back": 4, "push_again": 1, "skip": 1, "take_out": 0, "leave_to_rq": 0, "withdraw": 0, "mark": 0,
        "overdue": 1, "left_as_is": 0, "refused": 0,
    }  # fmt: skip
    assert [counts, counts] == [planned["counts"], done["counts"]]
    assert (False, None) == (planned["done"], planned["merged"])
    assert (True, scene.log()[-1].position.id) == (done["done"], done["merged"])
    assert position.id == planned["archive"]["entry"]
    by_id = {row["id"]: row for row in planned["rows"]}
    assert _IDS == set(by_id) == {row["id"] for row in done["rows"]}
    assert ("put_back", "paused", "app.report", None) == tuple(
        by_id["paused"][name] for name in ("what", "state", "func", "run_id")
    )
    assert "push_again" == by_id["fired"]["what"]
    assert by_id["fired"]["run_id"].startswith("fired-")


def test_recover_shortens_its_list_without_all(scene: Scene, zsched: Recover, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "SHOWN", 2)
    scene.client.schedule_many({"func": "app.task", "id": f"s{n}", "after": HOUR_S} for n in range(5))
    scene.follower.step()
    scene.redis.flushall()

    some, every = zsched("--dry-run").stdout, zsched("--dry-run", "--all").stdout

    assert (2, 5) == (some.count("app.task"), every.count("app.task"))
    assert "… and 3 more to restore; --all lists them" in some
    assert 5 == len(zsched.json("--dry-run")["rows"])


def test_recover_after_a_rollback_compares_only_later_changes(scene: Scene, zsched: Recover) -> None:
    # given: three schedules that both have, and then one that Redis lost, one that is over, one that went back
    client = scene.client
    client.schedule("app.task", id="kept", after=HOUR_S)
    client.schedule("app.task", id="over", after=HOUR_S)
    client.schedule("app.task", id="moved", after=HOUR_S)
    scene.follower.step()
    common, saved = scene.log()[-1].position, dump(scene.redis)
    client.schedule("app.task", id="lost", after=HOUR_S)
    client.cancel("over")
    client.schedule("app.task", id="moved", after=3 * HOUR_S)
    scene.follower.step()
    before = listed(client)
    scene.redis.flushall()
    for key, value in saved.items():
        assert value is not None
        if key != scene.keys.lease().encode():
            scene.redis.restore(key, 0, value)
    client.schedule("app.task", id="new", after=HOUR_S)

    planned = zsched.json("--dry-run")
    result = zsched("--dry-run")

    assert (common.id, 1) == (planned["common"]["entry"], planned["behind_common"])
    assert {("put_back", "lost"), ("take_out", "over"), ("put_back", "moved")} == {
        (row["what"], row["id"]) for row in planned["rows"]
    }
    assert "remove 1 schedule, over by what the archive knows" in result.stdout.splitlines()
    assert f"both have   log entry {common.id} of " in result.stdout
    assert DONE == zsched().exit_code
    assert before == [one for one in listed(client) if one[0] != "new"]
    assert "new" == client.get("new").id


def taken_for_a_new_one(scene: Scene) -> None:
    """Empty Redis while the archive is away; a leader without any archive gives the data set a new name."""
    scene.redis.flushall()
    scene.term = begin_term(scene.wire, scene.keys)
    Scripts(scene.wire, scene.keys).call("name", gen="new", is_new=1, **scene.term.fence)
    assert scene.redis.hget(scene.keys.meta(), "doubt") is None


@pytest.mark.parametrize(("on_uncertain", "marks"), [("refire", [b"1"]), ("skip", [])])
def test_a_one_shot_that_fired_in_the_lost_history_is_restored_as_uncertain(
    scene: Scene, zsched: Recover, on_uncertain: str, marks: list[bytes]
) -> None:
    # given: a run that the archive does not know to be pushed
    scene.client.schedule("app.pay", id="pay", after=0, on_uncertain=on_uncertain)
    scene.archive.set_facts(gen="old")
    assert scene.follower.step()
    scene.tick()
    assert 1 == len(scene.queued())
    taken_for_a_new_one(scene)

    # when
    assert 1 == zsched.json("--from", str(scene.archive.path), "--force")["counts"]["put_back"]
    scene.redis.hset(scene.keys.meta(), "hold", 0)
    scene.tick()

    # then
    assert marks == [scene.redis.hget(scene.keys.rq.job(run), "zs_uncertain") for run in scene.queued()]
