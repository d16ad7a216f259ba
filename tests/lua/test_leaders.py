"""Scripts of the leader: none of them does anything without the current lease, or on another server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.lua.ground import Ground
from tests.lua.scene import CALLS, FENCE, contents, furnish
from tests.unit.test_scripts_headers import NAMES
from zsched.errors import ServerChanged, Stale
from zsched.storage.scripts import load

LEADERS = [name for name in NAMES if "token" in load(name).argv and "expected_server" in load(name).argv]
MORE: dict[str, Callable[[Ground], Any]] = {
    "audit": lambda g: g.call("audit", ["later", ""], **FENCE),
    "name": lambda g: g.call("name", gen="new", is_new=1, **FENCE),
}


@pytest.mark.parametrize("name", LEADERS)
def test_a_leaders_script_is_refused_without_the_current_lease_or_server(
    led: Ground, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    furnish(led)
    [call, *_] = [call for each, call in (CALLS | MORE).items() if each.split(" ")[0] == name]
    before, as_leader = contents(led), led.call

    for field, error in (("token", Stale), ("expected_server", ServerChanged)):
        monkeypatch.setattr(led, "call", lambda *texts, field=field, **given: as_leader(*texts, **given | {field: "x"}))
        with pytest.raises(error):
            call(led)

    assert before == contents(led)
