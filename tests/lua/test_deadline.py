"""deadline.lua: missed deadlines are logged once, in the history of the archive that found them."""

from typing import Any

import pytest

from tests.builders.namespaces import Namespace
from tests.lua.scene import seen

A, B = ("a-1767225600000", "1767225660000 1", "is queued for 1 min"), ("b-5", "6 0", "never fired")


@pytest.fixture
def ns(led: Namespace) -> Namespace:
    """A leader with an entry in its log."""
    led.put(("a", 4_000_000_000_000))
    return led


def log(ns: Namespace, *missed: tuple[str, str, str], logged: str = "", **over: Any) -> list[Any]:
    return ns.call("deadline", [text for one in missed for text in one], **(seen(ns) | {"logged": logged} | over))


def logged(ns: Namespace) -> list[list[str]]:
    return [entry.rows for entry in ns.entries() if entry.kind == "deadline"]


def test_missed_deadlines_are_logged_in_one_entry_with_their_states(ns: Namespace) -> None:
    assert 1 == log(ns, A, B)[-1]

    assert [[" ".join(A), " ".join(B)]] == logged(ns)


def test_a_caller_that_lacks_the_last_entry_logs_nothing(ns: Namespace) -> None:
    log(ns, A)
    last = ns.last.id

    assert [0, 1] == [log(ns, A)[-1], log(ns, B, logged=last)[-1]]

    assert [[" ".join(A)], [" ".join(B)]] == logged(ns)


@pytest.mark.parametrize("over", [{"seen_entry": "9-9"}, {"seen_t": "5"}])
def test_a_caller_of_another_history_logs_nothing(ns: Namespace, over: dict[str, str]) -> None:
    assert ["LOST"] == log(ns, A, **over)

    assert [] == logged(ns)


def test_a_call_without_deadlines_adds_no_entry(ns: Namespace) -> None:
    assert 0 == log(ns)[-1]

    assert [] == logged(ns)
