"""rq-dashboard in zsched's process: its prefix, passwords, packages and Redis; its pages of forged data."""

import os
import pickle
import subprocess
import sys
import zlib
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import redis
from flask import Flask
from rq import SimpleWorker

from tests.builders.sentinels import Sentinels
from tests.builders.web import Web
from tests.integration.dashboard.runs import DONE, FAILED, NOMINAL, WAITS, fill, job, listed
from tests.prefix import RQ, needs_prefix
from tests.waiting import ENDS_S, eventually
from zsched.cli.program import USAGE
from zsched.dashboard.app import make_pages
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link

pytestmark = pytest.mark.once
PASSWORD = "hidden@from:all"
MISSING = ["fastapi", "greenlet", "jinja2", "starlette"]
WITHOUT = """
import os, sys

import redis, rq, uvicorn  # once for all
from zsched.cli import main

for missing in sys.argv[1:]:
    if (pid := os.fork()) == 0:
        sys.modules[missing], sys.argv[1:] = None, ["web"]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
BOMB = zlib.compress(bytes(10_000_001))
TOO_MUCH = pickle.dumps(bytes(10_000_001))


pytest.importorskip("rq_dashboard", reason="needs the extra dashboard")


@needs_prefix
def test_the_pages_show_the_jobs_of_the_prefix_in_the_settings(
    guard: Guard, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    redis_client.sadd("{other}:rq:queues", "{other}:rq:queue:mail")
    redis_client.rpush("{other}:rq:queue:mail", "a", "b")
    web = Web(guard, redis_url, tmp_path, ZSCHED_RQ_PREFIX="{other}:rq")

    with web.browser(sees_arguments=True, at="/rq") as browser:
        [queue] = browser.get("/0/data/queues.json").json()["queues"]

    assert ("mail", 2) == (queue["name"], queue["count"])


def test_command_line_pages_and_events_contain_no_password_of_redis(guard: Guard, tmp_path: Path) -> None:
    with EmbeddedRedis(tcp=True, config={"requirepass": PASSWORD}) as server:
        web = Web(guard, server.tcp_url.replace("redis://", f"redis://:{quote(PASSWORD)}@"), tmp_path)
        with web.browser(sees_arguments=True, at="/rq") as browser:
            page, queues = browser.get("/"), browser.get("/0/data/queues.json")
        command = Path(f"/proc/{web.process.pid}/cmdline").read_text()
        events = web.log.read_text()

    assert {"queues": []} == queues.json()
    assert f":{server.port}/0" in page.text
    assert "hidden" not in (page.text + command + events).replace("aria-hidden", "")


@pytest.mark.true_start  # without the package
def test_the_server_without_its_extra_names_the_install_command() -> None:
    command = [sys.executable, "-c", WITHOUT, *MISSING]

    refused = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_S)

    assert [str(USAGE)] * len(MISSING) == refused.stdout.split(), refused.stderr
    for missing, line in zip(MISSING, refused.stderr.splitlines(), strict=True):
        assert line.endswith(f"needs {missing}, which is not installed: pip install 'zsched[web]'")


def test_the_console_without_the_dashboard_names_its_extra_and_shows_its_own_pages(
    guard: Guard, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['rq_dashboard'] = None")
    web = Web(guard, redis_url, tmp_path, PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    with web.browser(sees_arguments=True) as browser:
        page, login, rq = browser.get("/queues"), browser.get("/login"), browser.get("/rq/")

    assert (200, 200) == (page.status_code, login.status_code)
    assert 'href="/rq/"' not in page.text + login.text
    assert (404, "this needs rq-dashboard: pip install 'zsched[dashboard]'\n") == (rq.status_code, rq.text)


def test_the_pages_follow_the_master_behind_sentinels(guard: Guard, tmp_path: Path) -> None:
    group = Sentinels(guard, replicas=1)
    with redis.Redis.from_url(group.master().tcp_url) as client:
        fill(client, "json")
    web = Web(guard, group.url, tmp_path)
    web.redis_url = group.master().tcp_url
    with web.browser(sees_arguments=True, at="/rq") as browser:
        before = browser.get(f"/0/data/job/{DONE}.json")
        with redis.Redis.from_url(web.redis_url) as client:
            assert 1 == client.wait(1, 20_000)  # timing: milliseconds; the replica has the session
        group.fail_over()
        after = eventually(lambda: (answer := browser.get(f"/0/data/job/{DONE}.json")).status_code == 200 and answer)

    assert (200, 200) == (before.status_code, after.status_code)
    assert before.text == after.text
    assert NOMINAL in before.json()["description"]


@pytest.fixture
def pages(redis_url: str) -> Iterator[Flask]:
    """The pages in this process, without the server around them."""
    link = Link.from_url(redis_url, 5.0)
    yield make_pages(link)
    link.pool.disconnect()


def overwrite_result(client: redis.Redis, run_id: str, **fields: str | bytes) -> None:
    """A newer result than the run's own."""
    client.xadd(f"{RQ}:results:{run_id}", {"type": "2", **fields})  # type: ignore[dict-item]  # texts and bytes


@pytest.mark.parametrize("field", ["data", "exc_info"])
def test_fields_that_no_page_shows_are_not_decompressed(
    pages: Flask, filled: redis.Redis, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.hset(f"{RQ}:job:{WAITS}", field, BOMB)
    inflated: list[int] = []
    original = zlib.decompress
    monkeypatch.setattr(zlib, "decompress", lambda data, *more: inflated.append(len(data)) or original(data, *more))

    [waiting] = pages.test_client().get("/0/data/jobs/email/queued/8/asc/1.json").get_json()["jobs"]

    assert WAITS == waiting["id"]
    assert len(BOMB) not in inflated


def test_oversized_values_are_replaced_by_the_reason(browser: httpx.Client, filled: redis.Redis) -> None:
    filled.hset(f"{RQ}:job:{DONE}", "meta", TOO_MUCH)
    filled.xadd(f"{RQ}:results:{DONE}", {"type": "1", "return_value": b64encode(TOO_MUCH)})

    told = job(browser, DONE)

    reason = f"({len(TOO_MUCH):,} bytes that cannot be shown: it has {len(TOO_MUCH):,} bytes"
    assert told["result"].startswith(reason)
    assert reason in told["metadata"]


def test_a_traceback_that_inflates_too_much_is_replaced_by_a_reason(browser: httpx.Client, filled: redis.Redis) -> None:
    overwrite_result(filled, FAILED, exc_string=b64encode(BOMB))

    [failed] = listed(browser, "default", "failed")

    assert "(a traceback that cannot be shown: it has more than 10,000,000 bytes, inflated)" == failed["exc_info"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("created_at", "yesterday"),
        ("timeout", "1h1"),
        ("result_ttl", "x"),
        ("description", b"\xff"),
        ("dependency_ids", "["),
    ],
)
def test_a_job_that_rq_cannot_restore_is_marked_and_hides_no_other(
    browser: httpx.Client, filled: redis.Redis, field: str, value: str | bytes
) -> None:
    filled.rpush(f"{RQ}:queue:email", DONE)
    filled.hset(f"{RQ}:job:{DONE}", mapping={"origin": "email"})
    filled.hset(f"{RQ}:job:{WAITS}", field, value)

    first, second = listed(browser, "email", "queued")

    assert [WAITS, DONE] == [first["id"], second["id"]]
    assert "(fields that RQ cannot read: " in first["description"]
    assert "(fields that RQ cannot read: " in job(browser, WAITS)["description"]


@pytest.mark.parametrize("fields", [{"type": "x"}, {"exc_string": "abc"}, {"execution_id": b"\xff"}])
def test_a_result_that_rq_cannot_read_is_marked(
    browser: httpx.Client, filled: redis.Redis, fields: dict[str, str | bytes]
) -> None:
    overwrite_result(filled, FAILED, **fields)

    [failed] = listed(browser, "default", "failed")

    assert "cannot be shown" in failed["exc_info"] or "that RQ cannot read" in failed["exc_info"]


@pytest.mark.parametrize("job_id", ["<b>x</b>", "a b", "", "x" * 100_000])
def test_a_malformed_job_id_hides_no_other_job(browser: httpx.Client, filled: redis.Redis, job_id: str) -> None:
    filled.lpush(f"{RQ}:queue:email", job_id)

    assert [WAITS] == [one["id"] for one in listed(browser, "email", "queued")]


def test_texts_of_a_worker_are_escaped_in_attributes(browser: httpx.Client, filled: redis.Redis) -> None:
    worker = SimpleWorker(["email"], "box.1", connection=filled)
    worker.register_birth()
    filled.hset(worker.key, mapping={"version": '2" style="x', "python_version": "3' \\\" style='x"})

    answer = browser.get("/0/data/workers.json")
    [told] = answer.json()["workers"]
    worker.register_death()

    assert "2&quot; style=&quot;x" == told["version"]
    assert "3&#39; \\&quot; style=&#39;x" == told["python_version"]
