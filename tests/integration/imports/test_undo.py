"""``zsched import undo``: imported schedules are given back as far as possible."""

from __future__ import annotations

import pytest
from rq import Queue
from rq.registry import ScheduledJobRegistry

from tests.integration.imports.ground import LATER, Zsched, summary
from zsched.cli.program import DONE, FAILED, USAGE
from zsched.client import Client

pytestmark = pytest.mark.once


def test_undo_accepts_only_imports_and_has_a_dry_run(zsched: Zsched, client: Client) -> None:
    zsched.crontab("@daily root a\n")
    client.schedule("app.theirs", id="theirs", every=60)

    foreign = zsched("import", "undo", "terraform")
    shown = zsched("import", "undo", f"crontab:{zsched.cron}", "--dry-run")

    assert (USAGE, DONE, "1 schedule to undo") == (foreign.exit_code, shown.exit_code, summary(shown))
    assert 2 == len(list(client.list()))


def test_undo_of_an_unknown_import_lists_the_known_imports(zsched: Zsched) -> None:
    zsched.crontab("@daily root a\n")

    misspelt = zsched("import", "undo", "crontab:jobs")
    undone = zsched("import", "undo", f"crontab:{zsched.cron}")
    again = zsched("import", "undo", f"crontab:{zsched.cron}")

    assert f"nothing here is of crontab:jobs; of other imports there is: crontab:{zsched.cron}" in misspelt.stderr
    assert "nothing fires these until their lines are back in cron" in undone.stderr
    assert (DONE, DONE) == (misspelt.exit_code, again.exit_code)
    assert "of other imports there is: nothing" in again.stderr


def test_undo_keeps_and_reports_a_schedule_whose_rq_job_was_deleted(
    zsched: Zsched, client: Client, queue: Queue
) -> None:
    job = queue.enqueue_in(LATER, "app.tasks.remind")
    zsched("import", "rq-scheduled")
    job.connection.delete(job.key)

    undone = zsched("import", "undo", "rq-scheduled")

    assert (FAILED, [job.id]) == (undone.exit_code, [one.id for one in client.list()])
    assert f"{job.id} stays here: Redis has forgotten RQ's job of it; it fires here" in undone.stderr


def test_undo_keeps_a_schedule_that_is_due_soon(zsched: Zsched, client: Client, queue: Queue) -> None:
    job = queue.enqueue_in(LATER, "app.tasks.remind")
    zsched("import", "rq-scheduled")
    client.update(job.id, after=20)

    undone = zsched("import", "undo", "rq-scheduled")

    assert (FAILED, [job.id]) == (undone.exit_code, [one.id for one in client.list()])
    assert f"{job.id} stays here: it is due within 30 s, and fires here" in undone.stderr
    assert [] == ScheduledJobRegistry(queue=queue).get_job_ids()
