"""Chromium without a window, for tests of pages: driven over its DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.faults.processes import eventually
from zsched.embedded.guard import Guard

CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_WITHIN_S: Final = 60.0  # for chromium to start, and for each page
# DevTools' events of an error that a page has.
_TROUBLE: Final = ("Log.entryAdded", "Runtime.exceptionThrown")


class Browser:
    """A chromium with one page. ``trouble`` has the page's errors, such as of the content policy."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._ids, self.trouble = socket, count(1), list[str]()
        for domain in ("Page", "Log", "Runtime"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Open *url*, and wait until it is loaded."""
        self._call("Page.navigate", url=url)
        eventually(lambda: self.value("document.readyState === 'complete' && location.href !== 'about:blank'"))

    def value(self, expression: str) -> Any:
        """Return the value of an *expression* of JavaScript in the page."""
        return self._call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait_for(self, text: str) -> str:
        """Wait until the document has *text*, and return the document."""
        return eventually(lambda: (page := self.document()) and text in page and page, within_s=_WITHIN_S)

    def document(self) -> str:
        """Return the document as it is now."""
        return str(self.value("document.documentElement.outerHTML") or "")

    def submit(self, **fields: str) -> None:
        """Fill in the page's form as a person does, and send it."""
        for name, text in fields.items():
            self.value(f"document.querySelector('[name={name}]').value = {json.dumps(text)}")
        self.value("document.querySelector('form button').click()")

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            told = json.loads(self._socket.recv(_WITHIN_S))
            if told.get("method") in _TROUBLE:
                self.trouble.append(json.dumps(told["params"]))
            if told.get("id") == number:
                result: dict[str, Any] = told.get("result", {})
                return result


@contextmanager
def chromium_in(folder: Path) -> Iterator[Browser]:
    """A chromium for the block, with its files in *folder*; the test is skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    command = [CHROMIUM, "--headless", "--disable-gpu", f"--user-data-dir={folder}", "--remote-debugging-port=0"]
    command += ["--no-sandbox"] if os.geteuid() == 0 else []  # chromium refuses to make one as root
    with Guard() as guard:
        guard.spawn([*command, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with connect(eventually(lambda: _page_in(folder), within_s=_WITHIN_S), max_size=None) as socket:
            yield Browser(socket)


def _page_in(folder: Path) -> str:
    """Return the address of the page's protocol; "" before chromium has written its port."""
    file = folder / "DevToolsActivePort"
    port = file.read_text().partition("\n")[0] if file.exists() else ""
    targets = httpx.get(f"http://127.0.0.1:{port}/json/list").json() if port else []
    return next((str(target["webSocketDebuggerUrl"]) for target in targets if target["type"] == "page"), "")
