"""A file owns the schedules that it created; other writers change schedules while it is applied."""

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import redis

from tests.integration.files.applying import BEAT, DIGEST, JobsFile, log_length, outcomes, texts
from zsched.client import Client
from zsched.client.file_sync import FileSync
from zsched.errors import InvalidFile, InvalidSchedule, RedisUnavailable
from zsched.files.applying import Applied

pytestmark = pytest.mark.once


@pytest.mark.parametrize(("owner", "told"), [("terraform", "'terraform'"), (None, "nobody")])
def test_a_schedule_of_another_owner_stops_the_whole_file(
    jobs: JobsFile, redis_client: redis.Redis, owner: str | None, told: str
) -> None:
    jobs.client.schedule("app.tasks.digest", id="digest", every=60, owner=owner)
    before = log_length(redis_client)

    with pytest.raises(InvalidFile) as caught:
        jobs.apply(BEAT + DIGEST)

    problem = f"it exists and is owned by {told}, not by 'file:jobs.toml'; --take-over makes it this file's"
    assert (f"jobs.toml:4: [schedules.digest]: id='digest': {problem}, or give another id",) == caught.value.complaints
    assert before == log_length(redis_client)


def test_a_schedule_is_taken_over_when_asked(jobs: JobsFile) -> None:
    jobs.client.schedule("app.tasks.digest", id="digest", cron="0 9 * * *", owner="terraform")

    (step,) = jobs.apply(DIGEST, takes_over=True).steps

    assert ("updated", ["owner: terraform → file:jobs.toml"]) == (step.outcome, texts(step))


def test_a_one_shot_is_never_replaced(jobs: JobsFile) -> None:
    jobs.client.schedule("app.tasks.digest", id="digest", after=3600, owner="file:jobs.toml")

    with pytest.raises(InvalidFile, match="a one-shot of this id exists; cancel that one first"):
        jobs.apply(DIGEST, takes_over=True)

    assert "once" == jobs.client.get("digest").kind


def test_a_namespace_of_another_serializer_is_refused_before_a_payload_is_opened(redis_client: redis.Redis) -> None:
    JobsFile(Client(redis_client, serializer="json")).apply(BEAT)

    with pytest.raises(InvalidSchedule, match="uses json"):
        JobsFile(Client(redis_client, serializer="pickle")).apply(BEAT)


def test_pruning_removes_only_schedules_that_the_file_owned(jobs: JobsFile) -> None:
    jobs.apply(BEAT + DIGEST)
    jobs.client.schedule("app.other", id="nobodys", every=60)
    jobs.client.schedule("app.other", id="others", every=60, owner="terraform")
    jobs.client.schedule("app.other", id="one-shot", after=3600, owner="file:jobs.toml")
    jobs.client.pause("beat")

    kept, removed = jobs.apply(DIGEST), jobs.apply(DIGEST, prune=True)

    assert ([], ["beat"]) == (kept.removed, removed.removed)
    assert ["digest", "nobodys", "one-shot", "others"] == jobs.ids()


def test_a_schedule_that_changed_owners_is_not_removed(jobs: JobsFile) -> None:
    jobs.apply(BEAT + DIGEST)
    application = jobs.application(DIGEST)
    stale = application.stale()
    jobs.client.update("beat", owner="terraform")

    applied = application.carry_out(Applied(application.compare(), stale), lambda done: None)

    assert (["beat"], []) == (stale, applied.removed)
    assert ["beat", "digest"] == jobs.ids()


def test_an_empty_file_removes_schedules_only_with_pruning(jobs: JobsFile) -> None:
    jobs.apply(BEAT + DIGEST)

    applied = jobs.apply("[schedules]", prune=True)

    assert (["beat", "digest"], []) == (applied.removed, jobs.ids())


# -- while a file is applied -------------------------------------------------------------------------


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call *act* right before the first put."""
    put_many, acts = FileSync.put_many, [act]

    def after(self: FileSync, wanted: Any) -> Any:
        if acts:
            acts.pop()()
        return put_many(self, wanted)

    monkeypatch.setattr(FileSync, "put_many", after)


def test_a_schedule_that_changed_in_between_is_compared_again(jobs: JobsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.apply(BEAT)
    meanwhile(monkeypatch, lambda: jobs.client.update("beat", queue="sms"))

    (step,) = jobs.apply(BEAT + "timeout = 60").steps

    schedule = jobs.client.get("beat")
    assert ("default", 60) == (schedule.queue, schedule.timeout_s)
    assert ["queue: sms → default", "timeout: 3m → 1m"] == texts(step)


def test_an_id_created_by_another_client_is_not_overwritten(jobs: JobsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lambda: jobs.client.schedule("app.theirs", id="beat", every=60))

    applied = jobs.apply(BEAT + DIGEST)

    ((id, error),) = applied.errors
    assert ("beat", "app.theirs") == (id, jobs.client.get("beat").func)
    assert "is owned by nobody" in str(error)
    assert [("digest", "created")] == outcomes(applied.steps)


def test_pruning_is_skipped_when_a_step_failed(jobs: JobsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.apply(DIGEST)
    meanwhile(monkeypatch, lambda: jobs.client.schedule("app.theirs", id="beat", every=60))

    applied = jobs.apply(BEAT, prune=True)

    assert ([], ["digest"]) == (applied.removed, applied.stale)
    assert ["beat", "digest"] == jobs.ids()


def test_a_lost_connection_reports_progress_and_work_continues(jobs: JobsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    many = "".join(f'[schedules.n{n}]\nfunc = "app.n"\nevery = 60\n' for n in range(5))
    done: list[int] = []
    put_many = FileSync.put_many

    def broken(self: FileSync, wanted: Any) -> Iterator[Any]:
        yield from put_many(self, islice(wanted, 3))
        raise RedisUnavailable("the connection is gone", may_have_been_applied=True)

    application = jobs.application(many)
    steps = application.compare()
    with monkeypatch.context() as patch:
        patch.setattr(FileSync, "put_many", broken)
        with pytest.raises(RedisUnavailable, match="3 of 5 schedules were done, and the same command") as caught:
            application.carry_out(Applied(steps), done.append)

    again = jobs.apply(many)

    assert caught.value.may_have_been_applied
    assert [1, 2, 3] == done
    assert (2, 3) == (again.count("created"), again.count("unchanged"))


@pytest.mark.parametrize("seed", range(3))
def test_a_comparison_predicts_the_applied_steps(jobs: JobsFile, seed: int) -> None:
    chance = random.Random(seed)

    for _ in range(6):
        text = "".join(
            f'[schedules.n{n}]\nfunc = "app.n"\nevery = {chance.choice([30, 60])}\nargs = [{chance.choice([1, 2])}]\n'
            f"{chance.choice(['', 'enabled = false', 'enabled = true'])}\n"
            for n in range(8)
            if chance.random() < 0.7
        )  # fmt: skip
        application = jobs.application(text or "[schedules]")
        foretold, stale = application.compare(), application.stale()
        applied = application.carry_out(Applied(foretold, stale), lambda done: None)

        assert outcomes(foretold) == outcomes(applied.steps)
        assert [step.changes for step in foretold] == [step.changes for step in applied.steps]
        assert stale == applied.removed
        assert {"unchanged"} >= {step.outcome for step in jobs.compare(text or "[schedules]")}
