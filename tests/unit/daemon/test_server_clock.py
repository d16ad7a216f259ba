import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.clock import LAST_MS, ManualClock
from zsched.daemon.tick import JUMP_MS, STEADY_MS, ServerClock

OFFSET_MS = 1_767_225_600_000.25  # of the server's clock from the monotonic one


class Server:
    """A server whose TIME is the monotonic clock plus ``offset_ms``, reached over a network with two delays."""

    def __init__(self, clock: ManualClock) -> None:
        self.offset_ms = OFFSET_MS
        self.told = ServerClock(clock)
        self._clock = clock

    @property
    def true_ms(self) -> float:
        return self._clock.monotonic_ms() + self.offset_ms

    def ask(self, there_ms: float = 0.1, back_ms: float = 0.1, grain_ms: float = 1.0) -> int:
        sent_ms = self._clock.monotonic_ms()
        self._clock.advance(there_ms)
        now_ms = self.true_ms // grain_ms * grain_ms
        self._clock.advance(back_ms)
        return self.told.observe(now_ms, sent_ms, grain_ms)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(elapsed_ms=5_000.0)


@pytest.fixture
def server(clock: ManualClock) -> Server:
    return Server(clock)


def test_the_window_before_the_first_reply_includes_every_time(server: Server) -> None:
    window = server.told.window()

    assert (0, LAST_MS) == (window.from_ms, window.until_ms)
    assert 0.0 == server.told.steady_in_ms()


def test_the_servers_time_is_known_within_the_round_trip_and_a_tick_after_a_reply(server: Server) -> None:
    server.ask(there_ms=0.2, back_ms=0.3)

    assert server.true_ms - 1.3 <= server.told.now_ms() <= server.true_ms


def test_a_reply_in_microseconds_bounds_the_servers_time_by_its_way_back_alone(server: Server) -> None:
    server.ask(there_ms=0.2, back_ms=0.3, grain_ms=0.001)

    assert server.true_ms - 0.302 <= server.told.now_ms() <= server.true_ms + 0.001  # a float of 13 digits


def test_the_most_precise_of_many_replies_counts(server: Server, clock: ManualClock) -> None:
    for there_ms, back_ms in ((5, 80), (1, 0.1), (300, 40)):
        server.ask(there_ms, back_ms)
        clock.advance(3)

    assert server.true_ms - 1.5 <= server.told.now_ms() <= server.true_ms


@given(st.lists(st.tuples(*[st.floats(0, 1500)] * 3), min_size=1, max_size=40), st.floats(0, 1))
def test_the_predicted_time_is_never_above_the_true(trips: list[tuple[float, float, float]], fraction: float) -> None:
    clock = ManualClock(elapsed_ms=777.0)
    server = Server(clock)
    server.offset_ms += fraction

    for there_ms, back_ms, pause_ms in trips:
        assert 0 == server.ask(there_ms, back_ms)
        assert server.told.now_ms() <= server.true_ms + 0.001  # a float of 13 digits is that coarse
        clock.advance(pause_ms)
        assert server.told.now_ms() <= server.true_ms + 0.001


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 20), st.floats(0, 1500)), min_size=1, max_size=40))
def test_a_clock_that_is_slewed_back_by_500_ppm_is_not_overtaken(trips: list[tuple[float, float, float]]) -> None:
    clock = ManualClock()
    server = Server(clock)

    for there_ms, back_ms, pause_ms in trips:
        before_ms = clock.monotonic_ms()
        assert 0 == server.ask(there_ms, back_ms)
        clock.advance(pause_ms)
        server.offset_ms -= (clock.monotonic_ms() - before_ms) * 499e-6
        assert server.told.now_ms() <= server.true_ms + 0.03  # the trip itself was not slewed


@given(st.lists(st.tuples(st.floats(0.1, 5), st.floats(0, 5), st.floats(0, 50)), min_size=1, max_size=40))
def test_a_script_arrives_at_its_time_after_the_shortest_way_and_later_after_others(
    trips: list[tuple[float, float, float]],
) -> None:
    clock = ManualClock(elapsed_ms=777.0)
    server = Server(clock)
    for there_ms, back_ms, pause_ms in trips:
        server.ask(there_ms, back_ms, grain_ms=0.001)
        clock.advance(pause_ms)
    shortest_ms = min(there_ms for there_ms, _, _ in trips)

    due_ms = server.true_ms + 100
    clock.advance(due_ms - server.told.arrival_offset_ms() - clock.monotonic_ms())  # it is sent now
    clock.advance(shortest_ms)

    assert due_ms == pytest.approx(server.true_ms, abs=0.002 + 1.3)  # slewing by 500 ppm is allowed for, over 2.5 s


def test_the_offset_of_arrivals_follows_a_clock_that_runs_faster_or_slower(server: Server, clock: ManualClock) -> None:
    for drift in (400e-6, -400e-6):
        for _ in range(1000):
            server.ask(there_ms=0.2, grain_ms=0.001)
            clock.advance(100)
            server.offset_ms += 100 * drift

        assert server.offset_ms + 0.2 == pytest.approx(server.told.arrival_offset_ms(), abs=0.1)


def test_the_offset_of_arrivals_is_learned_again_after_a_jump(server: Server) -> None:
    server.ask(there_ms=0.2, grain_ms=0.001)
    server.offset_ms += 60_000

    server.ask(there_ms=0.3, grain_ms=0.001)

    assert server.offset_ms + 0.3 == pytest.approx(server.told.arrival_offset_ms(), abs=0.01)


def test_a_day_of_slewing_does_not_count_as_a_jump(server: Server, clock: ManualClock) -> None:
    jumps = []
    for _ in range(86_400 * 2):
        clock.advance(500)
        server.offset_ms += 500 * 400e-6
        jumps.append(server.ask())

    assert [0] * len(jumps) == jumps
    assert server.true_ms - 1.5 <= server.told.now_ms() <= server.true_ms


@pytest.mark.parametrize("by_ms", [JUMP_MS + 2, 2_500, 3_600_000, -JUMP_MS - 2, -2_500, -3_600_000])
def test_a_clock_jump_is_logged_and_holds_fire_until_it_is_steady(
    server: Server, clock: ManualClock, by_ms: int
) -> None:
    server.ask()

    server.offset_ms += by_ms

    assert by_ms == pytest.approx(server.ask(), abs=1.5)
    assert 2000 == STEADY_MS == server.told.steady_in_ms(), "protocol.md says two seconds"
    assert 0 == server.ask()
    clock.advance(STEADY_MS - 100)
    assert 0.0 < server.told.steady_in_ms() < 100
    clock.advance(100)
    assert 0.0 == server.told.steady_in_ms()
    assert server.true_ms - 2.5 <= server.told.now_ms() <= server.true_ms


def test_a_second_jump_restarts_the_wait(server: Server, clock: ManualClock) -> None:
    server.ask()
    server.offset_ms += 10_000
    server.ask()
    clock.advance(STEADY_MS - 1)

    server.offset_ms -= 10_000

    assert -10_000 == pytest.approx(server.ask(), abs=2.5)
    assert STEADY_MS == server.told.steady_in_ms()


@pytest.mark.parametrize(("there_ms", "back_ms"), [(4000, 0), (0, 4000), (30_000, 30_000)])
def test_a_slow_network_does_not_count_as_a_jump(server: Server, there_ms: float, back_ms: float) -> None:
    server.ask()

    assert 0 == server.ask(there_ms, back_ms)
    assert 0.0 == server.told.steady_in_ms()
    assert server.told.now_ms() <= server.true_ms


def test_a_step_back_below_the_limit_is_followed(server: Server) -> None:
    server.ask()

    server.offset_ms -= JUMP_MS / 2

    assert 0 == server.ask()
    assert server.true_ms - 1.5 <= server.told.now_ms() <= server.true_ms + 1.5


def test_the_window_holds_the_servers_time_but_not_a_jump(server: Server, clock: ManualClock) -> None:
    server.ask()
    clock.advance(700)

    window = server.told.window()

    assert window.from_ms < server.true_ms < window.until_ms
    assert not window.from_ms < server.true_ms + JUMP_MS + 2 < window.until_ms
    assert not window.from_ms < server.true_ms - JUMP_MS - 2 < window.until_ms
