"""
Two daemons, one of which ends: nothing is lost, nothing is pushed twice, and the pause without fires is measured.

Short by default; ``ZSCHED_TEST_LONG=1`` makes it 20,000 one-shots and the default lease throughout. It compares the
pauses, which are printed (``-rA``), with their limits: for an otherwise idle machine.
"""

from __future__ import annotations

import os
import signal
import sys

import redis

from tests.faults.ledger import assert_dense, doubles, entries, fired, longest_pause_ms, queued
from tests.faults.processes import STEADY, DaemonProcess, Start, eventually
from tests.faults.streams import schedule_stream
from tests.faults.threads import know
from tests.prefix import RQ
from zsched.embedded import EmbeddedRedis

IS_LONG = os.environ.get("ZSCHED_TEST_LONG") == "1"
RUNS = 20_000 if IS_LONG else 5_000  # one a millisecond


def two_daemons(start_daemon: Start, url: str, **settings: str) -> tuple[DaemonProcess, DaemonProcess]:
    """Start a leader and a standby; the leader's first hold is over."""
    leader = start_daemon(url, **settings)
    leader.wait_for("hold_ended")
    standby = start_daemon(url, **settings)
    standby.wait_for("daemon_started")
    return leader, standby


def assert_pause(watch: redis.Redis, most_ms: float) -> None:
    """Print the pause between two fires; in the long form, compare it with *most_ms*."""
    pause_ms = longest_pause_ms(watch)
    sys.stdout.write(f"measured: {pause_ms:.0f} ms without dispatching\n")
    assert pause_ms <= most_ms or not IS_LONG


def assert_each_once_and_never_early(watch: redis.Redis, expected: list[str]) -> None:
    runs = queued(watch)
    assert [] == doubles(runs)
    assert set(expected) == set(runs)
    told = fired(watch)
    assert [] == doubles([run for run, _ in told])
    assert [] == [run for run, t in told if t < int(run.rpartition("-")[2]) * 1000]
    assert_dense(watch)


def test_every_run_is_queued_once_after_kill_9_of_the_leader(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    leader, standby = two_daemons(start_daemon, server.url)
    expected = schedule_stream(server.url, watch, RUNS)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > RUNS // 4)

    leader.send(signal.SIGKILL)

    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= RUNS, within_s=60)
    assert_each_once_and_never_early(watch, expected)
    assert_pause(watch, 2_500)
    assert -signal.SIGKILL == leader.wait()
    assert 0 == len(standby.of("term_lost"))


def test_a_clean_stop_hands_over_at_once(start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis) -> None:
    know(watch)
    leader = start_daemon(server.url, **STEADY)  # who waits for it to lapse comes too late
    leader.wait_for("term_began")
    standby = start_daemon(server.url, **STEADY)
    standby.wait_for("daemon_started")
    expected = schedule_stream(server.url, watch, 2_000)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > 500)

    leader.send(signal.SIGTERM)

    standby.wait_for("term_began")
    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= 2_000, within_s=60)
    assert_each_once_and_never_early(watch, expected)
    assert_pause(watch, 100)
    assert 0 == leader.wait()
    assert 1 == len(leader.of("term_ended"))


def test_a_suspended_leader_that_resumes_logs_its_lost_term_and_repeats_no_run(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    lease = {} if IS_LONG else {"DAEMON_LEASE_MS": "500", "DAEMON_RENEW_MS": "100"}
    leader, standby = two_daemons(start_daemon, server.url, **lease)
    expected = schedule_stream(server.url, watch, RUNS)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > RUNS // 4)

    leader.send_to_all(signal.SIGSTOP)
    standby.wait_for("term_began")
    taken_over = watch.llen(f"{RQ}:queue:default")
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > taken_over + RUNS // 4)
    leader.send_to_all(signal.SIGCONT)

    leader.wait_for("term_lost")
    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= RUNS, within_s=60)
    assert_each_once_and_never_early(watch, expected)
    assert 2 == len({entry.fields["daemon"] for entry in entries(watch, "term")})
    assert 0 == len(standby.of("term_lost"))
