"""The dashboard in a headless browser: the pages as people see them, after their scripts have run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

pytest.importorskip("rq_dashboard", reason="needs the extra dashboard")

from tests.integration.dashboard import tasks
from tests.integration.dashboard.ground import DONE, FAILED, NOMINAL, WAITS, Dashboard, dashboard, fill

pytestmark = pytest.mark.once

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
BOLD = "<b>The</b>"
_PAGE_S = 60.0  # for a browser to start and end
_SCRIPTS_MS = 6000  # of the page's own time, which passes as soon as nothing is left to wait for

See = Callable[..., str]


def as_text(text: str) -> str:
    """Return *text* as it is written in a document."""
    return escape(text, quote=False)


@pytest.fixture
def shown(redis_url: str, redis_client: redis.Redis) -> Iterator[Dashboard]:
    fill(redis_client, "json")
    with dashboard(REDIS_URL=redis_url, RQ_SERIALIZER="json", DASHBOARD_USER="alice") as started:
        yield started


@pytest.fixture
def see(shown: Dashboard, tmp_path: Path) -> See:
    """A function that returns the document at a path after its scripts have run; *login* is written into the URL."""
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")

    def see(path: str, login: str | None = None) -> str:
        login = f"{shown.told['user']}:{shown.told['password']}@" if login is None else login
        command = [CHROMIUM, "--headless", "--disable-gpu", f"--user-data-dir={tmp_path}"]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []  # chromium refuses to make one as root
        command += [f"--virtual-time-budget={_SCRIPTS_MS}", "--dump-dom"]
        url = f"http://{login}{urlsplit(shown.told['url']).netloc}{path}"
        ended = subprocess.run([*command, url], capture_output=True, text=True, timeout=_PAGE_S, check=True)
        return ended.stdout

    return see


def test_the_dashboard_shows_nothing_without_user_and_password(see: See) -> None:
    nothing, wrong = see("/0/view/queues", login=""), see("/0/view/queues", login="alice:wrong@")

    assert "Queues" not in nothing + wrong


def test_the_queues_page_shows_queues_with_their_lengths(see: See) -> None:
    page = see("/0/view/queues")

    assert "<td>email</td>" in page
    assert "Loading" not in page
    assert 'href="/0/view/jobs/email/queued/8/asc/1">1</a>' in page
    assert 'href="/0/view/jobs/default/failed/8/asc/1">1</a>' in page


@pytest.mark.parametrize(
    ("where", "schedule", "run"),
    [
        ("email/queued", "reminder-42", WAITS),
        ("default/finished", "digest", DONE),
        ("default/failed", "report", FAILED),
    ],
)
def test_a_queue_lists_runs_by_schedule_and_nominal_time(see: See, where: str, schedule: str, run: str) -> None:
    page = see(f"/0/view/jobs/{where}/8/asc/1")

    assert f"{schedule} · {NOMINAL} · " in page
    assert f'href="/0/view/job/{run}"' in page


def test_a_runs_page_has_schedule_nominal_time_and_result(see: See) -> None:
    page = see(f"/0/view/job/{DONE}")

    assert f">digest · {NOMINAL} · {tasks.__name__}.remind</div>" in page
    assert '"user": "secret-user"' in page
    assert "<title>RQ dashboard</title>" in page  # what the result has of markup has not run


def test_a_failed_runs_page_has_the_whole_traceback(see: See) -> None:
    page = see(f"/0/view/job/{FAILED}")

    assert f"report · {NOMINAL} · {as_text(BOLD)} report" in page
    assert f"ValueError: {as_text(tasks.MARKUP)}" in page
    assert "<title>RQ dashboard</title>" in page
