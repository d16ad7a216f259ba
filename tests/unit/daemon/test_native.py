"""The times at which the leader looks for RQ's own delayed jobs, and its events: no Redis, a clock by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import structlog
from structlog.testing import LogCapture

from tests.prefix import RQ
from tests.unit.daemon.leading import Events
from zsched.core.clock import ManualClock
from zsched.daemon.releases import AT_ONCE, Native
from zsched.errors import RedisRefused, Stale
from zsched.storage.dispatch import MovedJobs
from zsched.storage.lease import Term

TERM = Term("token", 1, "server", 2000, 1e12, 0, 0)
NOW_MS = 1_800_000_000_250
SECOND_MS = 1_800_000_001_000  # the next whole one


@dataclass
class _Jobs:
    """A source of jobs with given answers, which remembers the requested queues."""

    names: list[bytes] = field(default_factory=lambda: [b"default"])
    empty: set[bytes] = field(default_factory=set)
    more: int = 0  # how many of the next calls leave something
    next_ms: int | None = None
    others: dict[bytes, str] = field(default_factory=dict)
    broken: dict[bytes, str] = field(default_factory=dict)
    odd: list[tuple[bytes, bytes, str]] = field(default_factory=list)
    error: Exception | None = None
    now_ms: int = NOW_MS
    asked: int = 0
    moved: list[list[bytes]] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    clock: ManualClock | None = None  # on which each job takes a tenth of a millisecond, from the second call on
    released: list[list[bytes]] = field(default_factory=list)

    def queues(self) -> list[bytes]:
        self.asked += 1
        return list(self.names)

    def with_jobs(self, queues: Sequence[bytes]) -> set[bytes]:
        return {queue for queue in queues if queue not in self.empty}

    def move(self, term: Term, queues: Sequence[bytes], limit: int) -> MovedJobs:
        self.moved.append(list(queues))
        self.limits.append(limit)
        if self.error:
            raise self.error
        if self.clock and len(self.moved) > 1:
            self.clock.advance(limit / 10)
        self.more -= 1
        next_ms = self.now_ms if self.more >= 0 else self.next_ms
        return MovedJobs(self.now_ms, next_ms, limit, limit, self.others, self.broken, self.odd)

    def release(self, term: Term, queues: Sequence[bytes]) -> None:
        self.released.append(list(queues))
        if self.error:
            raise self.error


@pytest.fixture(autouse=True)
def events() -> Events:
    capture = LogCapture()
    structlog.configure(processors=[capture], cache_logger_on_first_use=False)
    return capture.entries


def _native(jobs: _Jobs, chosen: bool | tuple[str, ...] = True, clock: ManualClock | None = None) -> Native:
    return Native(jobs, chosen, clock or ManualClock(NOW_MS))  # type: ignore[arg-type]  # the fake


def test_delayed_jobs_are_looked_for_at_once_and_when_the_next_second_begins() -> None:
    native = _native(jobs := _Jobs())

    looks = [native.look_if_due(TERM, at_ms, is_busy=False) for at_ms in (NOW_MS, SECOND_MS - 1, SECOND_MS)]

    assert [SECOND_MS] * 2 == looks[:2]
    assert 2 == len(jobs.moved)


@pytest.mark.parametrize(
    ("jobs", "next_ms", "moved"),
    [(_Jobs(next_ms=SECOND_MS - 500), SECOND_MS - 500, 1), (_Jobs(names=[]), SECOND_MS, 0)],
    ids=["due within the second", "no queues"],
)
def test_native_looks_again_when_a_job_is_due_or_a_second_later(jobs: _Jobs, next_ms: int, moved: int) -> None:
    assert next_ms == _native(jobs).look_if_due(TERM, NOW_MS, is_busy=False)
    assert moved == len(jobs.moved)


def test_a_queue_without_delayed_jobs_is_only_locked_again_every_ten_seconds() -> None:
    jobs = _Jobs(names=[b"a", b"empty"], empty={b"empty", b"new", b"other"})
    native = _native(jobs, clock=(clock := ManualClock(NOW_MS)))

    for second in range(11):
        jobs.names = [b"a", b"empty", b"new"] if second >= 3 else [b"a", b"empty"]
        native.look_if_due(TERM, SECOND_MS + 1000 * second, is_busy=False)
        clock.advance(1000)

    expected = [[b"a"]] * 11
    expected[0], expected[3], expected[10] = [b"a", b"empty"], [b"a", b"new"], [b"a", b"empty", b"new"]
    assert expected == jobs.moved


def test_a_queue_that_another_scheduler_serves_is_tried_each_second() -> None:
    jobs = _Jobs(names=[b"a"], empty={b"a"}, others={b"a": "worker-1"})
    native = _native(jobs, clock=(clock := ManualClock(NOW_MS)))

    for second in range(3):
        native.look_if_due(TERM, SECOND_MS + 1000 * second, is_busy=False)
        clock.advance(1000)

    assert [[b"a"]] * 3 == jobs.moved


def test_native_looks_within_a_second_after_a_jump_back() -> None:
    native = _native(jobs := _Jobs(), clock=(clock := ManualClock(NOW_MS)))
    native.look_if_due(TERM, NOW_MS, is_busy=False)

    clock.advance(1000)
    native.look_if_due(TERM, NOW_MS - 3_600_000, is_busy=False)

    assert 2 == len(jobs.moved)


def test_remaining_delayed_jobs_are_moved_at_once_one_script_per_pass_and_queues_take_turns() -> None:
    native = _native(jobs := _Jobs(names=[b"a", b"b", b"c"], more=2))

    looks = [native.look_if_due(TERM, NOW_MS, is_busy=False) for _ in range(3)]

    assert [True, True, False] == [look == AT_ONCE for look in looks]
    assert [b"a", b"b", b"c"] == [asked[0] for asked in jobs.moved]


def test_a_script_that_takes_long_is_followed_by_smaller_ones() -> None:
    jobs = _Jobs(more=100, clock=(clock := ManualClock(NOW_MS)))
    native = _native(jobs, clock=clock)

    for _ in range(12):
        native.look_if_due(TERM, NOW_MS, is_busy=False)

    assert 500 == jobs.limits[0]
    assert jobs.limits[-1] < 100, "2.5 ms are 25 jobs, and 50 is the least"


def test_many_queues_are_served_in_parts_and_completely() -> None:
    native = _native(jobs := _Jobs(names=[b"%d" % n for n in range(450)]))

    while native.look_if_due(TERM, NOW_MS, is_busy=False) == AT_ONCE:
        pass

    assert [100, 100, 100, 100, 50] == [len(part) for part in jobs.moved]
    assert jobs.names == [name for part in jobs.moved for name in part]


def test_zscheds_runs_go_first_for_a_second_and_then_rqs_jobs_get_a_share() -> None:
    native = _native(jobs := _Jobs())
    native.look_if_due(TERM, NOW_MS, is_busy=False)
    jobs.more = 10

    looks = []
    for after_ms in (0, 999, 1000, 1024, 1025, 1049, 1050):
        jobs.now_ms = SECOND_MS + after_ms
        native.look_if_due(TERM, jobs.now_ms, is_busy=True)
        looks.append(len(jobs.moved) - 1)

    assert [0, 0, 1, 1, 2, 2, 3] == looks


def test_the_list_of_queues_is_read_again_once_a_second() -> None:
    native = _native(jobs := _Jobs(more=100), clock=(clock := ManualClock(NOW_MS)))

    for _ in range(20):
        native.look_if_due(TERM, NOW_MS, is_busy=False)
        clock.advance(100)

    assert 2 == jobs.asked


@pytest.mark.parametrize(("chosen", "parts"), [(False, []), (("mail", "x"), [[b"mail", b"x"]]), (True, [[b"default"]])])
def test_native_serves_only_the_chosen_queues(chosen: bool | tuple[str, ...], parts: list[list[bytes]]) -> None:
    native = _native(jobs := _Jobs(), chosen)

    look = native.look_if_due(TERM, NOW_MS, is_busy=False)

    assert parts == jobs.moved
    assert (look is None) == (chosen is False)
    assert jobs.asked == (chosen is True)


def test_an_event_is_logged_when_another_process_begins_or_ends_to_serve_a_queue(events: Events) -> None:
    native = _native(jobs := _Jobs(names=[b"a", b"b"], broken={b"b": f"{RQ}:queue:b"}), clock=(clock := ManualClock(0)))

    for others in ({}, {}, {b"a": "worker-1"}, {b"a": "worker-1"}, {b"a": "worker-2"}, {}):
        jobs.others = others
        native.look_if_due(TERM, NOW_MS, is_busy=False)
        clock.advance(1000)

    told = [
        (event["event"], event["queue"], event.get("holder"), event["log_level"])
        for event in events
        if event["event"] != "native_jobs_queued"
    ]
    assert [
        ("native_queue_served", "a", None, "info"),
        ("native_queue_left", "b", None, "warning"),
        ("native_queue_left", "a", "worker-1", "info"),
        ("native_queue_left", "a", "worker-2", "info"),
        ("native_queue_served", "a", None, "info"),
    ] == told


def test_odd_jobs_are_logged_by_queue_and_reason(events: Events) -> None:
    odd = [(b"default", b"a", "finished"), (b"default", b"b", "finished"), (b"default", b"c", "gone")]

    _native(_Jobs(odd=odd)).look_if_due(TERM, NOW_MS, is_busy=False)

    told = [(event["count"], event["first"]) for event in events if event["event"] == "native_jobs_odd"]
    assert [(2, "a"), (1, "c")] == told


def test_a_refusal_by_redis_is_logged_once_and_tried_again_a_second_later(events: Events) -> None:
    native = _native(jobs := _Jobs(error=RedisRefused("NOPERM")))

    for at_ms in (NOW_MS, NOW_MS + 1, SECOND_MS):
        assert native.look_if_due(TERM, at_ms, is_busy=False) != AT_ONCE
    jobs.error = None
    native.look_if_due(TERM, SECOND_MS + 1000, is_busy=False)

    assert 3 == len(jobs.moved)
    assert ["native_refused", "native_resumed"] == [
        event["event"] for event in events if event["event"] in ("native_refused", "native_resumed")
    ]


def test_a_stale_term_raises_an_error() -> None:
    with pytest.raises(Stale):
        _native(_Jobs(error=Stale("over"))).look_if_due(TERM, NOW_MS, is_busy=False)


def test_a_clean_stop_releases_exactly_the_served_queues(events: Events) -> None:
    native = _native(jobs := _Jobs(names=[b"a", b"b"], others={b"b": "worker-1"}))
    native.look_if_due(TERM, NOW_MS, is_busy=False)

    native.end(TERM)
    jobs.error = Stale("over")
    native.end(TERM)

    assert [[b"a"], [b"a"]] == jobs.released
    assert "native_queues_not_released" == events[-1]["event"]
