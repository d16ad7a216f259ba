"""The reconciler by itself: the effect of a growing or diverging log on a comparison."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from unittest.mock import Mock

import pytest

from tests.builders.entries import entry
from tests.builders.records import RUN, one_shot, open_run
from zsched.core.entry import Entry, Position
from zsched.core.record import Record
from zsched.core.recovery.difference import Branch, Recalled
from zsched.daemon.reconciler import HistoryChanged, Reconciler, lacking_rows
from zsched.storage.keys import Keys
from zsched.storage.restoring import ROWS, NotAbsent, Packed, Written, portions


def put(seq: int, id: str = "x", t_us: int = 100) -> Entry:
    """Return an entry of the log that touches schedule *id*."""
    return entry(seq, "put", id, t_us=t_us)


class Redis:
    """A log, and restores that are refused while it has entries that the caller did not read."""

    def __init__(self, *entries: Entry) -> None:
        self.entries = list(entries)
        self.come: list[list[Entry]] = []  # what others write just before each restore
        self.sizes: list[int] = []  # of portions
        self.held: set[str] = set()  # schedules that are there
        self.read_at: Position | None = None  # where the log stood when schedules were read; None: at its end

    @property
    def end(self) -> Position:
        return self.entries[-1].position

    def read(self, first: str, count: int) -> list[Entry]:
        after = 0 if first == "-" else int(first.partition("-")[2])
        return [one for one in self.entries if one.position.seq >= after][:count]

    def schedules(self, ids: Iterable[str]) -> Iterator[tuple[Position | None, list[Record]]]:
        yield self.read_at or self.end, [one_shot(id=id) for id in ids if id in self.held]

    def packed(self, rows: Iterable[Record]) -> Iterator[Packed]:
        return (Packed(portion.rows, 0, b"") for portion in portions(rows))

    def restore(
        self, portion: Packed, seen: Position | None, meanwhile: Callable[[], None], *, if_absent: bool = False
    ) -> Written | None:
        rows = portion.rows
        meanwhile()
        self.sizes.append(len(rows))
        self.entries += self.come.pop(0) if self.come else []
        if seen != self.end:
            return None
        if if_absent and not self.held.isdisjoint(row.id for row in rows):
            raise NotAbsent
        self.entries.append(entry(self.end.seq + 1, "restore", *(one.id for one in rows), t_us=200))
        return Written(self.end, list(rows))


class All:
    """A policy in which everything recalled has to be restored."""

    def __init__(self) -> None:
        self.taken_in: list[int] = []
        self.judged: list[list[str]] = []
        self.put_back: list[str] = []

    def add_entry(self, entry: Entry) -> set[str]:
        self.taken_in.append(entry.position.seq)
        return {text.decode() for text in entry.body}

    def judge(self, page: Sequence[Recalled], held: Mapping[str, Record]) -> list[Record]:
        self.judged.append([one.id for one in page])
        return [one_shot(id=one.id) for one in page]

    def record_restored(self, rows: Sequence[Record]) -> None:
        self.put_back += [one.id for one in rows]


@pytest.fixture
def redis() -> Redis:
    return Redis(put(1))


@pytest.fixture
def policy() -> All:
    return All()


def reconciler(redis: Redis, policy: All) -> Reconciler:
    seen = redis.entries[0].position
    return Reconciler(redis, redis, redis, policy, seen)  # type: ignore[arg-type]  # in their place


def page(*ids: str) -> list[Recalled]:
    return [Recalled(id, None, None, ()) for id in ids]


def test_schedules_changed_meanwhile_are_compared_again(redis: Redis, policy: All) -> None:
    redis.come = [[put(2, "b")]]

    steps = list(reconciler(redis, policy).reconcile(page("a", "b")))

    assert [["a", "b"], ["b"]] == policy.judged
    assert ["a", "b"] == policy.put_back
    assert steps


def test_the_reconcilers_own_entries_are_not_taken_in(redis: Redis, policy: All) -> None:
    comparison = reconciler(redis, policy)
    list(comparison.reconcile(page("a")))
    list(comparison.reconcile(page("b")))

    assert ([], redis.end) == (policy.taken_in, comparison.seen)


def test_the_log_is_taken_in_exactly_up_to_the_position_of_the_read() -> None:
    redis, policy = Redis(*map(put, range(1, 60))), All()
    redis.read_at = redis.entries[40].position

    comparison = reconciler(redis, policy)
    comparison.compare(page("a"))

    assert (list(range(2, 42)), redis.read_at) == (policy.taken_in, comparison.seen)


@pytest.mark.parametrize(
    "at",
    [
        Position(1, 9, 100),  # the log ends before it: rolled back since
        Position(1, 2, 101),  # another entry has its id
        Position(1, 1, 99),  # another history's, as old as what was seen
    ],
)
def test_a_log_without_the_position_of_the_read_is_another_history(at: Position) -> None:
    redis = Redis(*map(put, range(1, 4)))
    redis.read_at = at

    with pytest.raises(HistoryChanged):
        reconciler(redis, All()).compare(page("a"))


def test_a_log_with_a_gap_or_without_the_entry_that_was_seen_is_another_history(redis: Redis, policy: All) -> None:
    comparison = reconciler(redis, policy)
    redis.entries = [put(1, t_us=99), put(2)]

    for each in (comparison, reconciler(Redis(put(1), put(3)), All())):
        with pytest.raises(HistoryChanged):
            each.compare(page("a"))


def test_portions_shrink_while_the_log_grows_quickly_and_grow_again(redis: Redis, policy: All) -> None:
    redis.come = [[put(2)], [put(3)], []]
    ids = [f"s{number}" for number in range(4 * ROWS)]

    list(reconciler(redis, policy).put_back([one_shot(id=id) for id in ids]))

    assert [ROWS, ROWS // 4, 25, 50, 100] == redis.sizes[:5]
    assert ROWS in redis.sizes[5:]
    assert ids == policy.put_back


def guessing(redis: Redis, policy: All) -> Reconciler:
    """Return a reconciler that has found nothing of the last page."""
    comparison = reconciler(redis, policy)
    comparison.compare(page("first"))
    policy.judged.clear()
    return comparison


def test_a_page_is_guessed_only_after_redis_had_nothing_of_the_last_one(redis: Redis, policy: All) -> None:
    redis.held = {"first"}
    comparison = reconciler(redis, policy)

    before = comparison.guess(page("a"))
    comparison.compare(page("first"))
    with_something = comparison.guess(page("a"))
    comparison.compare(page("second"))
    with_nothing = comparison.guess(page("a"))

    assert ([], []) == (before, with_something)
    assert ["a"] == [row.id for portion in with_nothing for row in portion.rows]


def test_a_right_guess_is_restored_without_a_comparison(redis: Redis, policy: All) -> None:
    comparison = guessing(redis, policy)

    list(comparison.reconcile(page("a", "b"), comparison.guess(page("a", "b"))))

    assert ([["a", "b"]], ["a", "b"]) == (policy.judged, policy.put_back)


def test_a_wrong_guess_is_compared_and_ends_guessing(redis: Redis, policy: All) -> None:
    comparison = guessing(redis, policy)
    guess = comparison.guess(page("a", "b"))
    redis.held = {"b"}

    list(comparison.reconcile(page("a", "b"), guess))

    assert ([["a", "b"]] * 2, ["a", "b"]) == (policy.judged, policy.put_back)
    assert [] == comparison.guess(page("c"))


def test_a_wrong_guess_of_a_later_portion_repeats_no_earlier_one(redis: Redis, policy: All) -> None:
    comparison = guessing(redis, policy)
    ids = [f"s{number}" for number in range(ROWS + 5)]
    guess = comparison.guess(page(*ids))
    redis.held = {ids[-1]}

    list(comparison.reconcile(page(*ids), guess))

    assert [ids, ids[ROWS:]] == policy.judged
    assert ids == policy.put_back


def test_schedules_changed_after_a_guess_are_compared(redis: Redis, policy: All) -> None:
    comparison = guessing(redis, policy)
    guess = comparison.guess(page("a", "b"))
    redis.entries.append(put(2, "b"))
    list(comparison.catch_up())

    list(comparison.reconcile(page("a", "b"), guess))

    assert [["a", "b"], ["b"]] == policy.judged
    assert ["a", "b"] == policy.put_back


def test_schedules_changed_during_the_restore_before_their_page_are_compared(redis: Redis, policy: All) -> None:
    comparison = guessing(redis, policy)
    guesses: list[list[Packed]] = []
    comparison._meanwhile = lambda: guesses or guesses.append(comparison.guess(page("b", "c")))
    redis.come = [[put(2, "c")]]

    list(comparison.reconcile(page("a"), comparison.guess(page("a"))))
    comparison._meanwhile = lambda: None
    list(comparison.reconcile(page("b", "c"), guesses[0]))

    assert ["c"] == policy.judged[-1]
    assert ["a", "b", "c"] == policy.put_back


def test_a_page_with_runs_is_not_guessed(redis: Redis, policy: All) -> None:
    comparison = guessing(redis, policy)
    [known] = page("a")

    assert comparison.guess([known])
    assert [] == comparison.guess([replace(known, runs=[one_shot("open")])])


def test_a_page_with_a_schedule_without_a_row_is_not_guessed(redis: Redis, policy: All) -> None:
    comparison = guessing(redis, policy)
    policy.judge = lambda page, held: [one_shot(id=page[0].id)]  # type: ignore[method-assign]  # nothing of the second

    assert [] == comparison.guess(page("a", "gone"))


def test_a_fired_run_among_other_runs_does_not_fire_unmarked() -> None:
    waits, other = one_shot(), open_run(run="5")
    fired = Recalled("a", None, 50, (other, replace(waits, place="open")))
    answers = {"HGET": b"%d" % (waits.due_ms - 1), "TIME": [b"0", b"0"], "HMGET": [None, None]}  # a doubt that ended
    redis = Mock(execute=lambda name, *rest: answers[name])

    rows = lacking_rows(redis, Keys("default"), [fired], {"a": waits}, Branch())

    assert [("gone", RUN), ("open", "5"), ("open", RUN)] == [(row.place, row.run) for row in rows]
