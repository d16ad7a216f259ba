"""``zsched status`` of archives: a line each for people, all fields for programs, and the problems."""

from typing import Any

import pytest
import redis
from click.testing import Result

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonThread, archive_of_its_own
from tests.builders.leaders import know
from tests.integration.standing import KEYS, LAST_T, NOBODY_FOLLOWS, now_ms, problems, report, status, verdict
from tests.waiting import eventually
from zsched import Client
from zsched.cli.program import DONE, UNHEALTHY
from zsched.config.settings import ArchiveSettings
from zsched.core.model import iso

pytestmark = pytest.mark.once


def archives(result: Result) -> list[str]:
    """Return the texts of the archives' lines."""
    return [line.split(maxsplit=1)[1] for line in result.stdout.splitlines() if line.startswith("archive ")]


@pytest.mark.parametrize(
    ("at", "state", "about", "line"),
    [
        (f"3-12 {LAST_T}", "following", {}, "following, up to date, complete since the beginning"),
        (f"3-11 {LAST_T - 1}", "following", {}, "following, 1 entry behind, complete since the beginning"),
        (f"2-9 {LAST_T - 9}", "following", {}, "following, 3 entries behind, complete since the beginning"),
        (
            f"3-12 {LAST_T}",
            "following",
            {"complete_since": "1767225600123456"},
            "following, up to date, complete since 2026-01-01T00:00:00.123Z",
        ),
        ("- 0", "bootstrapping", {"complete_since": None}, "bootstrapping, nothing on its disk yet"),
        (f"3-12 {LAST_T - 1}", "refused", {"complete_since": ""}, "refused, at 3-12, which this log does not have"),
        (f"4-13 {LAST_T + 1}", "failed", {"complete_since": ""}, "failed, at 4-13, which this log does not have"),
        (
            f"3-2 {LAST_T - 10}",
            "failed",
            {"trouble": "disk full"},
            "failed, 10 entries behind, complete since the beginning: disk full",
        ),
    ],
)
def test_status_shows_each_archive_in_one_line(
    zsched: Zsched, led: redis.Redis, at: str, state: str, about: dict[str, Any], line: str
) -> None:
    report(led, "archive-1", at, state=state, **about)

    assert [f"box:/var/archive-1.db, {line}"] == archives(zsched("status"))


def test_archives_are_listed_by_host_and_path(zsched: Zsched, led: redis.Redis) -> None:
    report(led, "c", ago_ms=2)
    report(led, "a", ago_ms=1)
    report(led, "b", ago_ms=3)

    lines = archives(zsched("status"))

    assert ["box:/var/a.db", "box:/var/b.db", "box:/var/c.db"] == [line.split(",")[0] for line in lines]


@pytest.mark.parametrize(
    ("ago_ms", "ends"),
    [
        (25_000, ["complete since the beginning"]), (300_000, ["last report 5m ago"]),
        (3_500_000, ["last report 58m 20s ago"]), (3_601_000, []),
    ],
)  # fmt: skip
def test_a_silent_archive_is_shown_with_the_time_of_its_last_report_for_an_hour(
    zsched: Zsched, led: redis.Redis, ago_ms: int, ends: list[str]
) -> None:
    report(led, ago_ms=ago_ms)

    assert ends == [line.rpartition(", ")[2] for line in archives(zsched("status"))]
    assert len(ends) == len(status(zsched)["archives"])


def test_only_the_current_archive_of_a_daemon_is_shown(zsched: Zsched, led: redis.Redis) -> None:
    report(led, "none-d1", "- 0", state="failed", ago_ms=500, daemon="d1", trouble="disk full")
    report(led, "mended", ago_ms=10, daemon="d1")
    report(led, "other", ago_ms=400, daemon="d2")

    result = zsched("status")

    assert DONE == result.exit_code
    assert ["box:/var/mended.db", "box:/var/other.db"] == [line.split(",")[0] for line in archives(result)]


@pytest.mark.parametrize(
    ("about", "is_gone"),
    [
        ({"daemon": "d1", "ago_ms": 31_000}, True), ({"daemon": "d1", "ago_ms": 1_200_000}, True),
        ({"daemon": "d1", "ago_ms": 31_000, "host": "other"}, False),
        ({"daemon": "d1", "ago_ms": 31_000, "path": "/var/other.db"}, False),
        ({"daemon": "d1", "ago_ms": 31_000, "path": None}, False),
        ({"daemon": "d1", "ago_ms": 10_000}, False),
    ],
    ids=["gone", "long gone", "on another host", "another file", "an unknown file", "two daemons with one file"],
)  # fmt: skip
def test_the_archive_of_a_process_that_is_gone_is_not_shown_beside_the_living_one_of_its_file(
    zsched: Zsched, led: redis.Redis, about: dict[str, Any], is_gone: bool
) -> None:
    report(led, "none-d1", "- 0", **{"path": "/var/a.db", "pid": 12719} | about)
    report(led, "a", daemon="somebody")

    told = status(zsched)

    assert (1 if is_gone else 2) == len(told["archives"]) == len(told["daemons"])
    silent = [one["remedy"] for one in told["warnings"] if one["name"] == "archive_silent"]
    assert (about["ago_ms"] > 30_000 and not is_gone) is bool(silent)
    assert all(one.startswith("see whether its daemon, pid 12719 runs there, and its log") for one in silent)


def test_an_archive_of_a_daemon_inside_a_worker_on_a_disk_that_does_not_stay_is_a_warning(
    zsched: Zsched, led: redis.Redis
) -> None:
    report(led, "a", daemon="d1", worker="w1", fleeting="overlay")
    report(led, "b", daemon="d2", worker="w2")

    shown, told = zsched("status").stdout, status(zsched)

    assert "box (worker w1)" in shown
    assert [
        (
            "archive_fleeting",
            "archive box:/var/a.db is on an ephemeral disk, lost with its container or machine (overlay)",
            "mount a volume there, or give the worker an [archive] path on one",
        )
    ] == [tuple(one.values()) for one in told["warnings"] if one["name"] == "archive_fleeting"]
    assert {"w1", "w2"} == {one["worker"] for one in told["daemons"] if one["id"] in ("d1", "d2")}


@pytest.mark.parametrize(
    "about",
    [
        {}, {"host": 1, "path": ["x"]}, {"complete_since": 5}, {"complete_since": "9" * 40},
        {"path": "/a\x1b[2J\nleader  me", "trouble": "\x07", "complete_since": "\x1b"},
    ],
)  # fmt: skip
def test_a_report_with_odd_values_is_shown_without_terminal_codes(
    zsched: Zsched, led: redis.Redis, about: dict[str, Any]
) -> None:
    report(led, **{"host": None, "path": None, "daemon": ["?"]} | about)

    result = zsched("status")

    assert (DONE, 1) == (result.exit_code, len(archives(result)))
    assert not {"\x1b", "\x07"} & set(result.stdout)


def test_json_has_every_field_of_each_archive(zsched: Zsched, led: redis.Redis) -> None:
    told_ms = report(led, "archive-1", f"3-2 {LAST_T - 10}", complete_since="1767225600123456")
    failed_ms = report(led, "archive-2", "- 0", state="failed", complete_since=None, trouble="disk full", ago_ms=5)
    whole_ms = report(led, "archive-3")

    told = status(zsched)

    expected = [
        {
            "id": "archive-1", "host": "box", "path": "/var/archive-1.db", "state": "following", "position": "3-2",
            "behind": 10, "complete_since": "2026-01-01T00:00:00.123Z", "told_at": iso(told_ms), "trouble": None,
        },
        {
            "id": "archive-2", "host": "box", "path": "/var/archive-2.db", "state": "failed", "position": None,
            "behind": None, "complete_since": None, "told_at": iso(failed_ms), "trouble": "disk full",
        },
        {
            "id": "archive-3", "host": "box", "path": "/var/archive-3.db", "state": "following", "position": "3-12",
            "behind": 0, "complete_since": "start", "told_at": iso(whole_ms), "trouble": None,
        },
    ]  # fmt: skip
    assert expected == told["archives"]


@pytest.mark.parametrize(
    ("reports", "found"),
    [
        ([{"at": f"3-2 {LAST_T - 10}"}], []),
        ([{"archive": "well"}, {"archive": "ill", "state": "failed", "trouble": "disk full"}],
         ["archive box:/var/ill.db failed: disk full"]),
        ([{"archive": "well"}, {"archive": "ill", "state": "refused", "trouble": "disk full"}],
         ["archive box:/var/ill.db refused: disk full"]),
        ([{"archive": "well"}, {"archive": "ill", "state": "failed", "trouble": "disk full", "ago_ms": 31_000}], []),
        ([{"ago_ms": 31_000}], [NOBODY_FOLLOWS]),
        ([{"state": "bootstrapping"}], [NOBODY_FOLLOWS]),
        ([{"state": "failed", "ago_ms": 40_000}], [NOBODY_FOLLOWS]),
        ([{"ago_ms": 4_000_000}], [NOBODY_FOLLOWS]),
        ([{"ago_ms": -60_000}], [NOBODY_FOLLOWS]),
        ([], [NOBODY_FOLLOWS]),
    ],
    ids=[
        "one follows", "one failed", "one refused", "an old failure of a silent one", "silent", "bootstrapping",
        "failed and silent", "silent for long", "before the clock was set back", "none",
    ],
)  # fmt: skip
def test_failed_archives_and_a_leader_without_a_following_one_are_problems(
    zsched: Zsched, led: redis.Redis, reports: list[dict[str, Any]], found: list[str]
) -> None:
    for each in reports:
        report(led, **each)

    assert (UNHEALTHY if found else DONE, found) == (zsched("status").exit_code, problems(zsched))


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"trouble": "Redis lost it: run zsched archive recover", "awaits_people": True}, "run zsched archive recover"),
        ({"trouble": "disk full"}, "Redis lost data; this archive is restoring it"),
        ({}, "Redis lost data; this archive is restoring it"),
    ],
)
def test_a_lost_history_is_a_problem_with_its_next_step(
    zsched: Zsched, led: redis.Redis, about: dict[str, Any], says: str
) -> None:
    report(led, "well")
    report(led, "other", f"3-12 {LAST_T - 1}", state="lost", **about)

    result = zsched("status")

    [problem] = problems(zsched)
    assert (UNHEALTHY, True, True) == (result.exit_code, says in problem, problem.startswith("archive box:/var/other"))
    assert archives(result)[0].startswith("box:/var/other.db, lost, at 3-12, which this log does not have")
    assert archives(result)[0].endswith(says)


def test_a_missing_leader_is_the_only_problem_without_a_leader(zsched: Zsched, led: redis.Redis) -> None:
    led.delete(KEYS.lease())

    assert ["no daemon is leading: none of this namespace is running"] == problems(zsched)


def test_the_archive_of_a_stopped_daemon_does_not_follow(zsched: Zsched, led: redis.Redis) -> None:
    report(led, state="stopped")

    assert [NOBODY_FOLLOWS] == problems(zsched)
    assert ["box:/var/archive-1.db, its daemon has stopped, up to date, complete since the beginning"] == archives(
        zsched("status")
    )


@pytest.mark.parametrize(
    ("hold_ms", "remedy"),
    [
        (50_000, "wait: the archives restore what Redis lost"),
        (-1, "wait while one is bootstrapping; else see archive_failed"),
    ],
)
def test_status_says_to_wait_for_the_archives_while_firing_is_on_hold(
    zsched: Zsched, led: redis.Redis, hold_ms: int, remedy: str
) -> None:
    led.hset(KEYS.meta(), "hold", now_ms(led) + hold_ms)

    said = verdict(zsched("status"))

    assert f"UNHEALTHY: {NOBODY_FOLLOWS}" == said[0]
    assert said[1].startswith(f"  → {remedy}")


def test_a_daemons_archive_is_soon_up_to_date_and_complete(
    redis_url: str, zsched: Zsched, redis_client: redis.Redis
) -> None:
    know(redis_client)
    path = archive_of_its_own()
    with DaemonThread(redis_url, archive=ArchiveSettings(path=path)) as daemon:
        daemon.wait_for("archive_bootstrapped")
        daemon.wait_for("term_began")
        Client.from_url(redis_url).schedule("app.run", id="a", after=3600)

        [archive] = eventually(lambda: [one for one in status(zsched)["archives"] if one["behind"] == 0])
        told = status(zsched)

    assert {"path": path, "state": "following", "complete_since": "start", "trouble": None}.items() <= archive.items()
    assert (True, []) == (told["healthy"], told["problems"])
