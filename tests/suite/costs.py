"""
Tiers of tests by their measured cost.

``tests/costs.json`` has the CPU-seconds of tests from ``NOTED_S`` on, those of their processes included. A test that is
not in it is cheap, so a new test is in `make test` at once. `make test-all` measures every test and names those whose
tier is wrong; `make costs` writes the file. Nothing else decides on a tier but ``SMOKES``: of each kind of heavy tests,
one is in `make test`, too.
"""

import json
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

HEAVY_S: Final = 0.5  # of CPU: from here on a test is for `make test-all` only
NOTED_S: Final = 0.1  # from here on a test has a line in the file, and is not for `make check`
UNSURE: Final = 1.5  # a busy machine measures that much more: a tier is wrong only beyond
TIERS: Final = ("quick", "usual", "all")  # make check, make test, make test-all
# Of each kind of heavy tests, the one that `make test` runs, whatever it costs.
SMOKES: Final = {
    "a daemon": "tests/integration/test_service_manager.py"
    "::test_a_daemon_is_ready_when_redis_has_answered_and_not_before",
    "a worker": "tests/integration/test_daemon_with_rq.py"
    "::test_a_worker_restores_and_executes_scheduled_runs[installed-pickle]",
    "the web": "tests/integration/web/test_process.py::test_the_unit_starts_a_web_that_answers_as_its_own_user",
    "the command line": "tests/integration/test_cli.py"
    "::test_a_schedule_from_the_command_line_fires_and_a_real_worker_runs_it",
    "the wheel": "tests/integration/test_wheel.py::test_the_wheel_has_each_file_of_zsched_and_nothing_else",
    "a page in Chromium": "tests/integration/console/test_console_pages.py::test_a_change_appears_without_a_reload",
    "a cluster": "tests/faults/test_cluster.py::test_dispatch_continues_on_the_new_owner_after_a_failover[kill -9]",
    "a failover": "tests/faults/test_failover.py::test_every_run_is_queued_once_after_kill_9_of_the_leader",
    "promtool": "tests/unit/monitoring/test_alerts.py::test_prometheus_accepts_the_rules_and_the_example",
    "a rotation of keys": "tests/integration/guard/test_keys.py::test_a_rotation_of_keys_under_load_refuses_no_run",
    "garbage of other programs": "tests/integration/garbage/test_readers.py"
    "::test_garbage_fails_no_listing_and_hides_no_healthy_schedule[json]",
    "a recovery": "tests/faults/test_archive_redis_lost.py"
    "::test_an_emptied_redis_is_restored_and_both_histories_are_kept",
}
_USUAL_S: Final = 0.02  # of a test that is not in the file; for the sizes of units
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Costs:
    """The recorded costs of tests, and those that this run measures. In a fork, ``add`` is the parent's."""

    KEY: Final = pytest.StashKey["Costs"]()

    def __init__(self, file: Path) -> None:
        self._file = file
        self.recorded: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
        self.own: dict[str, float] = {}  # by test
        self.shared: dict[str, float] = {}  # by file, of the fixtures that its tests share
        self.add: Callable[[str, float, float], None] = self.note

    def of(self, nodeid: str) -> float:
        """Return the recorded CPU-seconds of a test."""
        return self.recorded.get(nodeid, _USUAL_S)

    def is_in(self, tier: str, item: pytest.Item) -> bool:
        """Return True if the test is of the *tier*."""
        match tier:
            case "quick":
                return self.of(item.nodeid) < NOTED_S and item.get_closest_marker("redis") is None
            case "usual":
                return self.of(item.nodeid) < HEAVY_S or item.nodeid.startswith(tuple(SMOKES.values()))
            case _:
                return True

    def note(self, nodeid: str, own_s: float, shared_s: float) -> None:
        """Note the cost of a test, and of the shared fixtures that it was the first to need."""
        self.own[nodeid] = own_s
        self.shared[_file(nodeid)] = self.shared.get(_file(nodeid), 0.0) + shared_s

    def measured(self) -> dict[str, float]:
        """Return the cost of each test that ran; each has the same part of the fixtures that its file shares."""
        number: dict[str, int] = {}
        for nodeid in self.own:
            number[_file(nodeid)] = number.get(_file(nodeid), 0) + 1
        return {nodeid: own + self.shared[_file(nodeid)] / number[_file(nodeid)] for nodeid, own in self.own.items()}

    def write(self) -> None:
        """Write the file: what this run measured, and what was known of tests that still exist and did not run."""
        kept = {nodeid: cost_s for nodeid, cost_s in self.recorded.items() if self._exists(nodeid)}
        noted = {nodeid: round(cost_s, 1) for nodeid, cost_s in (kept | self.measured()).items() if cost_s >= NOTED_S}
        self._file.write_text(json.dumps(noted, indent=0, sort_keys=True, ensure_ascii=False) + "\n")

    def _exists(self, nodeid: str) -> bool:
        file = self._file.parent.parent / _file(nodeid)
        return file.exists() and f"def {nodeid.partition('::')[2].partition('[')[0]}(" in file.read_text()

    def wrong(self) -> Iterator[str]:
        """Return a line for each test whose tier is wrong."""
        for nodeid, cost_s in self.measured().items():
            is_heavy = self.of(nodeid) >= HEAVY_S
            if cost_s >= HEAVY_S * UNSURE and not is_heavy:
                yield f"{nodeid} takes {cost_s:.1f} CPU-s: too much for `make test`. `make costs` notes it."
            elif cost_s < HEAVY_S / UNSURE and is_heavy:
                yield f"{nodeid} takes {cost_s:.1f} CPU-s: no longer heavy. `make costs` notes it."


class Meter:
    """A plugin of pytest: measures each test in the process that runs it."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._depth, self._shared_s, self._session_s = 0, 0.0, 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._shared_s = self._session_s = 0.0
        before_s = cpu_s()
        result = yield
        self._costs.add(item.nodeid, cpu_s() - before_s - self._shared_s - self._session_s, self._shared_s)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function" or self._depth:
            return (yield)
        self._depth, before_s = 1, cpu_s()
        try:
            return (yield)
        finally:
            self._depth, spent_s = 0, cpu_s() - before_s
            if fixturedef.scope == "session":
                self._session_s += spent_s
            else:
                self._shared_s += spent_s


def cpu_s() -> float:
    """Return the CPU-seconds of this process and of all that it started, the living and the dead."""
    return sum(os.times()[:4]) + sum(map(_ticks, _children("self"))) / _TICKS


def _ticks(pid: str) -> int:
    """Return the clock ticks of a process and its descendants; proc(5): utime, stime, cutime, cstime."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15])) + sum(map(_ticks, _children(pid)))


def _children(pid: str) -> Iterator[str]:
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            yield from Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
    except OSError:  # it ended meanwhile
        return


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("suite")
    group.addoption("--tier", choices=TIERS, default="all", help="which tests: by their recorded cost")
    group.addoption("--costs", choices=["look", "write"], help="measure each test; look: name those of a wrong tier")


def pytest_configure(config: pytest.Config) -> None:
    costs = config.stash[Costs.KEY] = Costs(config.rootpath / "tests" / "costs.json")
    if config.option.costs:
        config.pluginmanager.register(Meter(costs))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    costs, tier = config.stash[Costs.KEY], config.option.tier
    left_out = [item for item in items if not costs.is_in(tier, item)]
    items[:] = [item for item in items if costs.is_in(tier, item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        config.stash[_LEFT_OUT] = (len(left_out), sum(costs.of(item.nodeid) for item in left_out))


_LEFT_OUT: Final = pytest.StashKey[tuple[int, float]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    costs = config.stash[Costs.KEY]
    if config.option.costs == "write":
        costs.write()
    for line in costs.wrong():
        terminalreporter.write_line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last what did not run."""
    number, cost_s = config.stash.get(_LEFT_OUT, (0, 0.0))
    if number:
        config.get_terminal_writer().line(
            f"not run: {number} of the heavier tests ({cost_s:.0f} CPU-seconds); `make test-all` runs all"
        )
