"""The begin of a term: its log events. No Redis."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from tests.unit.daemon.leading import NOW_MS, TERM
from zsched.core.clock import ManualClock
from zsched.daemon.elector import Elector
from zsched.storage.lease import Term


class _Lease:
    """A lease that lets every daemon lead."""

    def __init__(self, term: Term) -> None:
        self._term = term

    def acquire(self, gen: str | None) -> Term:
        return self._term


@pytest.mark.parametrize(("until_ms", "told_ms"), [(0, 0), (NOW_MS - 1, 0), (NOW_MS, 0), (NOW_MS + 500, 500)])
def test_a_term_logs_the_length_of_its_hold(until_ms: int, told_ms: int) -> None:
    elector = Elector(_Lease(replace(TERM, hold_ms=until_ms)), ManualClock(), 500)  # type: ignore[arg-type]  # the fake

    with capture_logs() as told:
        assert elector.campaign() is None

    assert [("term_began", told_ms)] == [(one["event"], one["hold_ms"]) for one in told]
