"""A flood of logins: one password is checked at a time, few wait for it, and nobody else does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from zsched import AsyncClient
from zsched.aio.bridge import wait
from zsched.config.settings import Settings
from zsched.core.clock import SystemClock
from zsched.web.access import Access
from zsched.web.problems import Problem
from zsched.web.proxy import Proxy

pytestmark = pytest.mark.anyio
WAITING = 20


class SlowPeople:
    """People whose passwords are checked when the gate opens; all are wrong."""

    def __init__(self) -> None:
        self.gate, self.at_once, self.most = asyncio.Event(), 0, 0

    def admitted(self, *_: object) -> None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        wait(self.gate.wait())
        self.at_once -= 1

    def of_session(self, *_: object) -> None: ...

    find = of_session


async def test_logins_beyond_the_twentieth_are_refused_at_once_and_passwords_are_checked_one_by_one() -> None:
    people: Any = SlowPeople()
    client = AsyncClient.from_url("redis://127.0.0.1:1/0")
    access = Access(client, people, people, Proxy(Settings()), Settings(), SystemClock())
    waiting = [asyncio.create_task(access.log_in("ann", "wrong")) for _ in range(WAITING)]
    await asyncio.sleep(0)  # each has begun

    with pytest.raises(Problem, match="too many others log in") as refused:
        await access.log_in("bob", "right")
    people.gate.set()

    assert 429 == refused.value.status
    assert [None] * WAITING == await asyncio.gather(*waiting)
    assert 1 == people.most
