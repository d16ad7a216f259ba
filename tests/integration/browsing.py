"""Chromium without a window, driven by Playwright, for tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NEEDED: Final = "ZSCHED_TEST_CHROMIUM"  # set where its absence is a failure
_QUIET: Final = (
    "--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-default-apps", "--no-first-run",
)  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium without a window. Where there is none, the test is skipped, or fails if one is needed."""
    if CHROMIUM is None:
        message = "no chromium on PATH: apt-get install chromium"
        pytest.fail(message) if os.environ.get(NEEDED) else pytest.skip(message)
    flags = [*_QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]  # as root it cannot make one
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()
