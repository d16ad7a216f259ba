"""The daemons of a namespace: reports of real daemons, and the roles derived from reports, old and strange ones too."""

import platform
import socket
from importlib.metadata import version
from typing import Any

import pytest
import redis

import zsched
from tests.builders.daemons import DaemonProcess
from tests.faults.leases import lapse
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import SystemClock
from zsched.embedded.guard import Guard
from zsched.storage.archivers import REPORT_EVERY_MS, ArchiveState, Report
from zsched.storage.overview import SILENT_MS, DaemonRole, DaemonSeen, daemons_of
from zsched.zone_rules import installed

NOW_MS = 1_800_000_000_000
LEADS, STANDS_BY, SILENT = DaemonRole.LEADS, DaemonRole.STANDS_BY, DaemonRole.SILENT


def report(daemon: Any, *, ago_ms: int = 0, state: str = "following", **about: Any) -> Report:
    return Report(f"archive of {daemon}", None, NOW_MS - ago_ms, ArchiveState(state), {"daemon": daemon, **about})


def running(client: Client) -> list[DaemonSeen]:
    """Return the running daemons, once there are two and one of them leads."""

    def two() -> list[DaemonSeen]:
        found = list(client._overview().daemons)
        return found if len(found) == 2 and found[0].role is LEADS else []

    return eventually(two)


def test_daemons_report_their_identity_and_their_stop(redis_url: str, client: Client, guard: Guard) -> None:
    began_ms = SystemClock().now_ms()
    processes = [DaemonProcess(guard, redis_url) for _ in range(2)]

    leads, stands_by = running(client)
    by_pid = {process.pid: process for process in processes}
    by_pid[stands_by.pid].stop()
    after = client._overview().daemons

    assert (LEADS, STANDS_BY) == (leads.role, stands_by.role)
    assert {process.pid for process in processes} == {leads.pid, stands_by.pid}
    for one in (leads, stands_by):
        assert (socket.gethostname(), zsched.__version__) == (one.host, one.version)
        assert (platform.python_version(), redis.__version__) == (one.python, one.redis_py)
        assert one.rq == version("rq")
        assert installed().version == one.tzdata
        assert began_ms <= (one.started_ms or 0) <= SystemClock().now_ms()
    assert [(leads.id, LEADS), (stands_by.id, DaemonRole.STOPPED)] == [(one.id, one.role) for one in after]


def test_the_leader_is_listed_first_then_standbys() -> None:
    told = [report("b", host="y"), report("c", host="x"), report("gone", state="stopped"), report("a", ago_ms=60_000)]

    found = daemons_of(told, "b", NOW_MS)

    expected = [("b", LEADS), ("c", STANDS_BY), ("a", SILENT), ("gone", DaemonRole.STOPPED)]
    assert expected == [(one.id, one.role) for one in found]


def test_a_daemon_that_may_not_lead_is_barred_not_standby() -> None:
    told = [
        report("b", state="outdated", trouble="a newer zsched keeps it"),
        report("a", may_not_lead="Redis may evict"),
        report("gone", ago_ms=60_000, may_not_lead="Redis may evict"),
        report("c"),
    ]

    found = daemons_of(told, None, NOW_MS)

    assert [("c", STANDS_BY), ("a", DaemonRole.BARRED), ("b", DaemonRole.BARRED)] == [
        (one.id, one.role) for one in found if one.is_running
    ]
    assert [None, "Redis may evict", "a newer zsched keeps it", None] == [one.may_not_lead for one in found]
    assert {"gone": SILENT} == {one.id: one.role for one in found if not one.is_running}


AN_HOUR = {"ago_ms": 3_600_000}


@pytest.mark.parametrize(
    ("reports", "leader", "expected"),
    [
        ({"a": {"may_not_lead": "Redis may evict"}}, "a", {"a": LEADS}),
        ({"a": AN_HOUR}, "a", {"a": LEADS}),
        ({"a": {"ago_ms": 10_000}, "b": {"ago_ms": 10_001}, "c": {"ago_ms": -10_001}}, None,
         {"a": STANDS_BY, "b": SILENT, "c": SILENT}),
        ({"a": {"ago_ms": 500, "leads": True}, "b": {}, "c": {"leads": "?"}}, None,
         {"a": SILENT, "b": STANDS_BY, "c": STANDS_BY}),
        ({"a": {"ago_ms": 500, "leads": True}, "b": {}, "c": {"leads": "?"}}, "b",
         {"a": SILENT, "b": LEADS, "c": STANDS_BY}),
        ({"a": {"leads": True, "state": "stopped"}}, None, {"a": DaemonRole.STOPPED}),
    ],
    ids=["the lease counts", "also long after", "silent when too old", "lost its lease", "to another", "stopped"],
)  # fmt: skip
def test_a_daemons_role_is_derived_from_lease_and_reports(
    reports: dict[str, dict[str, Any]], leader: str | None, expected: dict[str, DaemonRole]
) -> None:
    found = daemons_of([report(id, **about) for id, about in reports.items()], leader, NOW_MS)

    assert expected == {one.id: one.role for one in found}
    assert [None] * len(found) == [one.may_not_lead for one in found]


def test_a_killed_leader_is_not_a_standby(
    redis_url: str, client: Client, redis_client: redis.Redis, guard: Guard
) -> None:
    processes = [DaemonProcess(guard, redis_url) for _ in range(2)]
    running(client)
    first = eventually(lambda: _reported_leader(client))

    next(one for one in processes if one.pid == first.pid).send(9)
    lapse(redis_client)
    seen = eventually(lambda: found if (found := client._overview()).leader not in (None, first.id) else None)

    assert [SILENT] == [one.role for one in seen.daemons if one.id == first.id]
    assert [] == seen.of_role(STANDS_BY)


def _reported_leader(client: Client) -> DaemonSeen | None:
    """Return the leader, once its own report says that it leads."""
    seen = client._overview()
    leads = {report.about["daemon"] for report in seen.archives if report.about.get("leads")}
    return next((one for one in seen.daemons if one.id == seen.leader and one.id in leads), None)


def test_an_idle_daemon_reports_often_enough_not_to_be_silent() -> None:
    assert 3 * REPORT_EVERY_MS < SILENT_MS < 30_000


def test_a_report_of_an_older_version_is_read() -> None:
    [found] = daemons_of([report("a", host="box", path="/x.db", complete_since="start")], None, NOW_MS)

    assert ("a", "box", NOW_MS) == (found.id, found.host, found.told_ms)
    assert {None} == {
        found.pid,
        found.worker,
        found.started_ms,
        found.version,
        found.python,
        found.redis_py,
        found.rq,
        found.tzdata,
    }
    assert "box, pid ?" == found.place


@pytest.mark.parametrize("strange", [5, True, [], {}, None, -1, 10**30])
def test_corrupted_fields_of_a_report_are_unknown(strange: Any) -> None:
    names = ("host", "worker", "version", "python", "redis_py", "rq", "tzdata")

    about = dict.fromkeys((*names, "may_not_lead", "failing"), strange)
    [found] = daemons_of([report("a", pid=[strange], **about)], None, NOW_MS)

    assert {None} == {getattr(found, name) for name in (*names, "pid", "may_not_lead")}
    assert {} == found.failing
    assert STANDS_BY is found.role


@pytest.mark.parametrize("started", [True, -1, 10**30, "5", None])
def test_a_corrupted_start_time_is_unknown(started: Any) -> None:
    [found] = daemons_of([report("a", started=started)], None, NOW_MS)

    assert (None, None) == (found.started_ms, found.to_dict()["started_at"])


@pytest.mark.parametrize("daemon", [None, 5, ["?"]])
def test_a_report_without_a_daemon_id_is_ignored(daemon: Any) -> None:
    assert [] == daemons_of([report(daemon)], None, NOW_MS)
