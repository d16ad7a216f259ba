"""rq-dashboard in the process of ``zsched web``: its prefix, its passwords, its packages and its Redis."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

pytest.importorskip("rq_dashboard", reason="needs the extra web")

from tests.faults.processes import ENDS_S, eventually
from tests.faults.sentinels import Sentinels
from tests.integration.dashboard.ground import DONE, NOMINAL, fill
from tests.integration.web.ground import Web
from tests.prefix import needs_prefix
from zsched.cli.program import USAGE
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once

PASSWORD = "hidden@from:all"


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


MISSING = ["rq_dashboard", "flask", "a2wsgi", "jinja2", "six"]
WITHOUT = """
import os, sys

import fastapi, redis, rq, uvicorn  # once for all
from zsched.cli import main

for missing in sys.argv[1:]:
    if (pid := os.fork()) == 0:
        sys.modules[missing], sys.argv[1:] = None, ["web"]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.true_start  # without the package
def test_the_server_without_its_extra_names_the_install_command() -> None:
    command = [sys.executable, "-c", WITHOUT, *MISSING]

    refused = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_S)

    assert [str(USAGE)] * len(MISSING) == refused.stdout.split(), refused.stderr
    for missing, line in zip(MISSING, refused.stderr.splitlines(), strict=True):
        assert line.endswith(f"needs {missing}, which is not installed: pip install 'zsched[web]'")


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
