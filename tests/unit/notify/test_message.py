"""Messages: which changes they report, how equal events are gathered, and the order of a schedule's events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.config.bounds import TOLD
from zsched.core.entry import Position
from zsched.core.facets import Facets
from zsched.core.occurrences.changes import Change, SearchCursor
from zsched.core.occurrences.outcomes import Outcome, What
from zsched.core.runs.run import Run, RunStatus
from zsched.notify import message
from zsched.notify.message import Gathered, Message, message_kind


def ended(id: str, error: str, status: RunStatus = RunStatus.FAILED, func: str = "app.f") -> Change:
    run = Run(f"{id}-5", status, 0, error=error)
    return Change(id, What.FIRED, 0, "1-1", run.id, 5, run=run, facets=Facets(func))


def gathered(*changes: Change) -> list[Message]:
    """Return the messages of *changes*, each in an entry of its own."""
    found = Gathered("default")
    for seq, change in enumerate(changes, 1):
        found.add(message_kind(change) or "", change, SearchCursor(Position(1, seq, seq * 1000), seq))
    return [one for _, one in found.messages()]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (ended("a", "ValueError"), "failed"),
        (ended("a", "not signed", RunStatus.REFUSED), "failed"),
        (ended("a", "", RunStatus.LOST), "lost"),
        (ended("a", "", RunStatus.EXPIRED), "expired"),
        (ended("a", "", RunStatus.CANCELLED), None),
        (ended("a", "", RunStatus.SUCCEEDED), None),
        (Change("a", What.EXPIRED, 0, "1-1"), "expired"),
        (Change("a", What.QUARANTINED, 0, "1-1", why="broken"), "quarantined"),
        (Change("a", What.COALESCED, 0, "1-1"), "missed"),
        (Change("a", What.SKIPPED, 0, "1-1", why=Outcome.MISSED.reason), "missed"),
        (Change("a", What.SKIPPED, 0, "1-1", why=Outcome.LIMIT.reason), "missed"),
        (Change("a", What.SKIPPED, 0, "1-1", why="overlap"), "skipped"),
        (Change("a", What.SKIPPED, 0, "1-1", why=Outcome.PAUSED.reason), None),
        (Change("a", What.SKIPPED, 0, "1-1", why=Outcome.BY_HAND.reason), None),
    ],
)
def test_the_kind_of_a_change_is_a_word_of_the_settings_unless_somebody_wanted_it(
    change: Change, kind: str | None
) -> None:
    assert kind == message_kind(change)
    assert kind is None or kind in TOLD


@pytest.mark.parametrize("kind", [kind for kind in TOLD if kind != "unhealthy"])
def test_a_search_for_a_kind_of_message_finds_some_change(kind: str) -> None:
    assert any(message.searched_for([kind]))


def test_equal_events_are_one_message_whose_reason_is_the_first_and_numbers_do_not_count() -> None:
    one, other = gathered(
        *(ended(f"job-{number}", f"ValueError: order {number}") for number in range(12)), ended("x", "KeyError")
    )

    assert "app.f failed 12 times: ValueError: order 0" == one.text
    assert ("app.f failed: KeyError", 1) == (other.text, other.count)
    assert (10, "and 2 more") == (len(one.events), one.details[-1])
    assert ("1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.012Z") == (one.at, one.until)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", "z"])), max_size=10)
)  # as many as a message shows
def test_the_events_of_a_schedule_keep_their_order_over_messages(events: list[tuple[str, str]]) -> None:
    messages = gathered(*(ended(id, error) for id, error in events))

    assert len(events) == sum(one.count for one in messages)
    for id in "abc":
        wanted = [error for other, error in events if other == id]
        sent = [one.reason for one in messages for event in one.events if event["id"] == id]
        assert wanted == sent


def test_the_id_of_a_message_depends_on_its_events_alone() -> None:
    events = [ended("a", "x"), ended("b", "x")]

    assert gathered(*events)[0].id == gathered(*events)[0].id
    assert gathered(*events)[0].id != gathered(*events, ended("c", "x"))[0].id


def test_problems_of_two_times_have_two_ids() -> None:
    first, second = (Message.of_problems("default", key, 0, {"late": "it is late"}) for key in "12")

    assert first.id != second.id
    assert "zsched default is not healthy: it is late" == first.text
    assert "zsched default is healthy again" == Message.of_problems("default", "3", 0, {}).text
