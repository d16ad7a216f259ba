"""The doctor's checks of clocks and zone rules."""

from __future__ import annotations

import re

import pytest
import redis

from tests.integration.doctor.ground import KEYS, command_of, examined, only, report, unwell
from zsched.core.clock import SystemClock
from zsched.health import checks_server
from zsched.health.check import Severity
from zsched.zone_rules import ZoneRules, installed


class WrongClock(SystemClock):
    """A clock of this machine with an error."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._by_ms


@pytest.mark.parametrize(
    ("by_ms", "severity"), [(0, Severity.OK), (-5_000, Severity.WARNING), (90_000, Severity.PROBLEM)]
)
def test_a_wrong_clock_is_reported_with_its_offset(url: str, by_ms: int, severity: Severity) -> None:
    said = only(examined(url, clock=WrongClock(by_ms))["clock"], severity).text

    told = re.search(r"is ([+-][\d,]+) ms from this machine's, to within", said)
    assert told is not None
    assert -by_ms == pytest.approx(int(told[1].replace(",", "")), abs=4000)


@pytest.mark.parametrize("field", ["offset_ms", "frozen_ms"])
def test_a_leftover_test_clock_is_a_problem(url: str, sound: redis.Redis, field: str) -> None:
    sound.hset(KEYS.meta(), field, 5000)

    finding = only(examined(url)["test clock"], Severity.PROBLEM)

    assert f"{field} = 5000" in finding.text
    assert 1 == sound.execute_command(*command_of(finding))
    assert "test clock" not in unwell(examined(url))


@pytest.mark.parametrize(
    ("tzdata", "severity", "text"),
    [
        (installed().version or "", Severity.OK, str(installed())),
        ("2001a", Severity.WARNING, "all is planned by tzdata 2001a"),
    ],
)
def test_tzdata_is_compared_with_the_namespaces(
    url: str, sound: redis.Redis, tzdata: str, severity: Severity, text: str
) -> None:
    sound.hset(KEYS.meta(), "tzdata", tzdata)

    assert text in only(examined(url)["tzdata"], severity).text


def test_tzdata_of_an_unknown_version_is_a_warning(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_server, "installed", lambda: ZoneRules(None, "nowhere"))

    assert "of an unknown version, from nowhere" in only(examined(url)["tzdata"], Severity.WARNING).text


def test_daemons_with_different_tzdata_are_a_warning(url: str, sound: redis.Redis) -> None:
    report(sound, "a", daemon="d1", host="north", tzdata="2025a")
    report(sound, "b", daemon="d2", host="south", tzdata="2025b")

    [said] = unwell(examined(url))["tzdata"]

    assert "daemons plan by different time zone rules: 2025a (north, pid ?), 2025b (south, pid ?)" == said


def test_a_daemon_that_reports_no_tzdata_is_ignored(url: str, sound: redis.Redis) -> None:
    report(sound, "a", daemon="d1", host="north")
    report(sound, "b", daemon="d2", host="south", tzdata="2025b")

    assert "tzdata" not in unwell(examined(url))
