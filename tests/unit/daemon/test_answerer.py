"""The part of a history in one answer."""

from __future__ import annotations

import pytest

from zsched.core.log import Entry, Position
from zsched.daemon import answerer


@pytest.mark.parametrize(("sizes", "held"), [([4, 4, 4], 2), ([4, 6, 1], 2), ([20, 1], 1), ([4, 20], 1)])
def test_an_answer_holds_the_entries_that_its_bound_allows_and_the_first_always(
    sizes: list[int], held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answerer, "_ENTRY_BYTES", 10)
    entries = [Entry(Position(1, seq, 5), "", (b"x" * size,)) for seq, size in enumerate(sizes, 1)]

    assert entries[:held] == list(answerer._within_bounds(entries))
