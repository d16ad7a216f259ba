"""
The API as its OpenAPI document describes it: schemathesis sends requests that the document allows and others. It checks
statuses, bodies, and that what the document forbids is refused. It runs as a process of its own: its plugin of pytest
would slow down the start of all tests.

Not checked: that all that the document allows is accepted. It cannot say that a schedule has exactly one trigger, and
much else. Not varied: the id of a schedule, so that there is one; test_malformed.py has bad ids.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.processes import ENDS_S, DaemonProcess
from tests.integration.web.ground import Web
from zsched import Client
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once
EXAMPLES = 8  # of each operation and mode, besides those that cover each keyword of the document
CONFIG = f"""
seed = 19
warnings = false
[cache]
enabled = false
[generation]
max-examples = {EXAMPLES}
deterministic = true
no-shrink = true
with-security-parameters = false
database = "none"
[checks]
positive_data_acceptance.enabled = false
missing_required_header.expected-statuses = [428]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 410, 412, 413, 422, 428, 503]
[parameters]
"path.id" = "a"
"""


def test_the_api_is_as_its_document_describes_it(
    guard: Guard, start_web: Callable[..., Web], redis_url: str, tmp_path: Path
) -> None:
    DaemonProcess(guard, redis_url).wait_for("archive_begins")  # without one, a look at the past takes 2 s
    web, config = start_web(ZSCHED_RQ_ALLOW_CALLABLES="*.*,*.*.*"), tmp_path / "schemathesis.toml"
    Client.from_url(redis_url).schedule("app.x", id="a", every=3600)
    config.write_text(CONFIG)
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{web.url}/api/v1/openapi.json",
        "--phases", "examples,coverage,fuzzing", "-H", f"Authorization: Bearer {web.token('ann')}",
        "--exclude-path", "/api/v1/events", "--exclude-path", "/api/v1/schedules:batch",  # streams of other media types
    ]  # fmt: skip

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=ENDS_S, check=False)

    assert 0 == done.returncode, done.stdout[-20_000:] + done.stderr[-2000:]
    assert "request_failed" not in web.log.read_text()
