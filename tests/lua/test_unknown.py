"""An id or a run that nobody knows: each script says so, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.lua.ground import Ground
from tests.lua.test_note import note
from tests.lua.test_retry import retry

RUN = "unknown-1767225600000"

CALLS: dict[str, tuple[Callable[[Ground], Any], Any]] = {
    "cancel": (lambda g: g.call("cancel", ["unknown"])[1], "NOTFOUND"),
    "pause": (lambda g: g.call("pause", ["unknown"], note="")[1], "NOTFOUND"),
    "resume": (lambda g: g.call("resume", ["unknown", ""], missed="fire")[1], "NOTFOUND"),
    "resume with skip": (lambda g: g.call("resume", ["unknown", ""], missed="skip")[1], "NOTFOUND"),
    "run_now": (lambda g: g.call("run_now", id="unknown")[0], "NOTFOUND"),
    "backfill": (lambda g: g.call("backfill", [1, "once"], id="unknown", planned_version="")[0], "NOTFOUND"),
    "cancel_run": (lambda g: g.call("cancel_run", ["unknown", RUN, "", "{}"], most_waiting=50)[1], "UNKNOWN"),
    "retry": (lambda g: retry(g, RUN, "unknown", op="-", keep_op_ms=0)[0], "GONE"),
    "get": (lambda g: g.call("get", ["unknown"])[1:], ["", "", ""]),  # nor is there an entry in the log
    "note": (lambda g: note(g, "{}"), "GONE"),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_unknown_id_or_run_is_named_as_such_and_nothing_is_written(ground: Ground, name: str) -> None:
    call, expected = CALLS[name]
    before = ground.keyspace()

    assert expected == call(ground)
    assert before == ground.keyspace()
