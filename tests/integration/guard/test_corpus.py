"""
The trial of the corpus: real workers run none of its jobs.

All are given to one worker of each class, among signed runs that it does run. A daemon is the witness: it records each
run of zsched as refused.
"""

import zlib
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from rq.results import Result

from tests.builders.daemons import leading_daemon
from tests.builders.leaders import know
from tests.integration.guard.corpus import CASES
from tests.integration.guard.forging import Forge
from tests.waiting import eventually
from zsched import RunStatus
from zsched.core.runs.run_id import RunId
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link

pytestmark = pytest.mark.once


@dataclass(frozen=True)
class Outcome:
    """The state after one worker had the corpus."""

    ids: dict[str, str]
    before: dict[str, Any]  # the data of each job, as it was pushed
    jobs: dict[str, dict[str, Any]]
    errors: dict[str, str]  # the last line of each traceback, by name
    log: str
    recorded: dict[str, str]  # the status of each run that zsched knows, by name
    receipts: set[str]
    good: set[str]  # receipts of the signed runs among them


@pytest.fixture(scope="module", params=["zsched.rq.Worker", "zsched.rq.SimpleWorker"])
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """Give the corpus to a worker, and a daemon as a witness."""
    folder = tmp_path_factory.mktemp("corpus")
    with EmbeddedRedis() as server, Guard() as guard, redis.Redis.from_url(server.url, protocol=2) as client_of_redis:
        know(client_of_redis)
        forge, link = Forge.of(server.url, folder, client_of_redis), Link.from_url(server.url, 5)
        with leading_daemon(server.url):
            ids = {}
            for number, (name, make) in enumerate(CASES.items()):
                ids[name] = make(forge, name)
                if number % 10 == 0:
                    forge.enqueue(f"good-{number}")
            before = {name: forge.fields(id).get("data") for name, id in ids.items()}
            known = {name: id for name, id in ids.items() if _is_known(forge, id)}
            forge.burst(guard, request.param, queues=("default", "web", "other"))
            eventually(lambda: all(forge.client.get_run(id)[0].is_over for id in known.values()))
            recorded = {name: forge.client.get_run(id)[0].status.value for name, id in known.items()}
        jobs = {name: forge.fields(id) for name, id in ids.items()}
        errors = {name: _error(client_of_redis, id) for name, id in ids.items()}
        good = {f"good-{number}" for number in range(0, len(CASES), 10)}
        yield Outcome(ids, before, jobs, errors, forge.log, recorded, forge.receipts, good)
        link.pool.disconnect()


def _is_known(forge: Forge, id: str) -> bool:
    """Return True if zsched pushed the run."""
    parts = RunId.ours(id, "default")
    return parts is not None and any(run.id == id for run in forge.client.runs(parts.schedule_id))


def _error(client_of_redis: redis.Redis, id: str) -> str:
    texts = client_of_redis.xrevrange(Result.get_key(id), "+", "-", count=1)
    packed = texts[0][1].get(b"exc_string", b"") if texts else b""
    return zlib.decompress(b64decode(packed)).decode() if packed else ""


def test_a_worker_runs_nothing_of_the_corpus_and_keeps_its_data(outcome: Outcome) -> None:
    assert outcome.good == outcome.receipts

    assert outcome.before == {name: fields.get("data") for name, fields in outcome.jobs.items()}


@pytest.mark.parametrize("name", CASES)
def test_a_worker_refuses_the_job_and_keeps_the_reason(outcome: Outcome, name: str) -> None:
    assert (b"failed", True) == (outcome.jobs[name].get("status"), outcome.errors[name].startswith("JobRefused: "))


def test_refused_runs_are_recorded_and_their_texts_make_no_line_of_a_log(outcome: Outcome) -> None:
    assert "app. [31mtask Worker w: job x: finished is not allowed here" in outcome.log
    assert "\x1b[31mtask" not in outcome.log

    assert {RunStatus.REFUSED.value} == set(outcome.recorded.values())
    assert len(outcome.recorded) >= 25
