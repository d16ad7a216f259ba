"""The commands of docs/how-to/use-the-http-api.md, run as written."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.documents import PROJECT
from tests.integration.web.ground import Web

pytestmark = pytest.mark.redis
PAGE = PROJECT / "docs" / "how-to" / "use-the-http-api.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on PATH")
def test_the_curl_commands_of_the_page_succeed_in_their_order(web: Web) -> None:
    text = PAGE.read_text()
    options = re.search(r"zsched tokens add (shop .*)", text)
    block = re.search(r"```\n(api=.*?)```", text, re.DOTALL)
    assert options is not None
    assert block is not None
    secret = web.cli("tokens", "add", *options[1].replace("'", "").split())["token"]
    commands = block[1].replace("zs_…", secret).replace("http://127.0.0.1:9180", web.url)

    told = commands.replace("curl ", "curl -s -o /dev/null -w '%{http_code} ' ")
    done = subprocess.run(["bash", "-c", told], capture_output=True, text=True, timeout=60, check=True)

    assert "201 200 200 200 200 200" == done.stdout.strip(), done.stderr
