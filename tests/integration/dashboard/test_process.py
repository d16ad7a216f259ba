"""``zsched dashboard`` as a process: its login, its output, and its end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
from click.testing import CliRunner, Result

pytest.importorskip("rq_dashboard", reason="needs the extra dashboard")

from tests.faults.processes import WITHIN_S, eventually
from tests.faults.sentinels import Sentinels
from tests.integration.dashboard.ground import DONE, NOMINAL, dashboard, fill
from tests.prefix import needs_prefix
from zsched.cli import program
from zsched.cli.program import DONE as WENT_WELL
from zsched.cli.program import USAGE
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once

PASSWORD = "hidden@from:all"


def offline(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(program, ["dashboard", *arguments], env=env)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_dashboard_shows_runs_until_a_signal_ends_it(
    redis_url: str, redis_client: redis.Redis, end: signal.Signals
) -> None:
    fill(redis_client, "json")
    with dashboard(REDIS_URL=redis_url, RQ_SERIALIZER="json") as started:
        page = started.get(f"/0/data/job/{DONE}.json")
        refused = started.get("/", password="wrong")
        started.process.send_signal(end)

        assert WENT_WELL == started.wait()
    assert "zsched" == started.told["user"]
    assert (200, 401) == (page.status, refused.status)
    assert f"digest \\u00b7 {NOMINAL}" in page.text


@needs_prefix
def test_the_dashboard_shows_the_jobs_of_the_prefix_in_its_settings(redis_url: str, redis_client: redis.Redis) -> None:
    redis_client.sadd("{other}:rq:queues", "{other}:rq:queue:mail")
    redis_client.rpush("{other}:rq:queue:mail", "a", "b")

    with dashboard(REDIS_URL=redis_url, RQ_PREFIX="{other}:rq") as started:
        [queue] = json.loads(started.get("/0/data/queues.json").text)["queues"]

    assert ("mail", 2) == (queue["name"], queue["count"])


def test_the_dashboard_frees_its_port_at_its_end(redis_url: str) -> None:
    with dashboard(REDIS_URL=redis_url) as first:
        port = int(first.told["url"].rstrip("/").rpartition(":")[2])
        first.get("/")
        first.process.terminate()
        assert WENT_WELL == first.wait()

    with socket.create_server(("127.0.0.1", port)) as taken:
        assert port == taken.getsockname()[1]


def test_the_dashboards_command_line_pages_and_output_contain_no_password(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}-of-people\n")
    with EmbeddedRedis(tcp=True, config={"requirepass": PASSWORD}) as server:
        url = server.tcp_url.replace("redis://", f"redis://:{quote(PASSWORD)}@")
        with dashboard(REDIS_URL=url, DASHBOARD_PASSWORD_FILE=str(file)) as started:
            page = started.get("/", password=f"{PASSWORD}-of-people")
            queues = started.get("/0/data/queues.json", password=f"{PASSWORD}-of-people")
            command = Path(f"/proc/{started.pid}/cmdline").read_text()

    assert '{"queues":[]}\n' == queues.text
    assert f":{server.port}/0" in page.text
    assert "hidden" not in (page.text + command + str(started.told)).replace("aria-hidden", "")


def test_the_dashboards_password_can_come_from_the_environment(redis_url: str) -> None:
    with dashboard(REDIS_URL=redis_url, DASHBOARD_USER="alice", DASHBOARD_PASSWORD=PASSWORD) as started:
        assert {"url", "redis", "user"} == started.told.keys()
        assert 200 == started.get("/", "alice", PASSWORD).status
        assert 401 == started.get("/", "zsched", PASSWORD).status


def test_the_dashboard_without_a_password_refuses_to_listen_for_others() -> None:
    refused = offline("--listen", "0.0.0.0:0")

    assert USAGE == refused.exit_code
    assert "listen='0.0.0.0:0'" in refused.stderr
    assert "ZSCHED_DASHBOARD_PASSWORD" in refused.stderr


def test_a_port_in_use_is_a_usage_error_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"

        refused = offline("--listen", where)

    assert USAGE == refused.exit_code
    assert f"listen='{where}': Address already in use; give another port" in refused.stderr


@pytest.mark.parametrize("listen", ["9181", "127.0.0.1:", "127.0.0.1:99999", "http://localhost:1", "::1:80"])
def test_an_invalid_address_is_a_usage_error(listen: str) -> None:
    refused = offline("--listen", listen)

    assert USAGE == refused.exit_code
    assert "write host:port" in refused.stderr


def test_an_address_of_another_machine_is_refused() -> None:
    refused = offline("--listen", "192.0.2.1:9181", ZSCHED_DASHBOARD_PASSWORD=PASSWORD)

    assert USAGE == refused.exit_code
    assert "listen='192.0.2.1:9181'" in refused.stderr


@pytest.mark.parametrize("missing", ["rq_dashboard", "flask", "waitress", "six"])
def test_the_dashboard_without_its_extra_names_the_install_command(missing: str) -> None:
    code = f"import sys; sys.modules['{missing}'] = None; from zsched.cli import main; sys.exit(main())"

    refused = subprocess.run(
        [sys.executable, "-c", code, "dashboard"], capture_output=True, text=True, timeout=WITHIN_S
    )

    assert USAGE == refused.returncode
    assert f"needs {missing}, which is not installed: pip install 'zsched[dashboard]'\n" in refused.stderr
    assert 1 == refused.stderr.count("\n")


def test_the_dashboard_follows_the_master_behind_sentinels() -> None:
    with Guard() as guard:
        group = Sentinels(guard, replicas=1)
        with redis.Redis.from_url(group.master().tcp_url) as client:
            fill(client, "json")
        with dashboard(REDIS_URL=group.url) as started:
            before = started.get(f"/0/data/job/{DONE}.json")
            group.fail_over()
            after = eventually(lambda: started.get(f"/0/data/job/{DONE}.json"))

    assert group.url in started.told["redis"]
    assert (200, 200) == (before.status, after.status)
    assert before.text == after.text
