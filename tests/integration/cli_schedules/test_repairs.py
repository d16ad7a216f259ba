"""``zsched cancel``, ``pause`` and ``resume`` with filters."""

from __future__ import annotations

import json

import pytest

from tests.integration.cli_schedules.ground import FUNC, Zsched
from zsched import Client
from zsched.cli import repairs
from zsched.cli.program import DONE, FAILED, INTERRUPTED, USAGE

pytestmark = pytest.mark.once


@pytest.fixture
def campaign(zsched: Zsched) -> Zsched:
    for number in range(12):
        zsched("add", f"mail-{number:02}", FUNC, "--after", "5m", "--tag", "sale", "--queue", "email")
    zsched("add", "beat", FUNC, "--every", "90s")
    return zsched


def test_a_dry_run_prints_the_count_and_the_first_ids(campaign: Zsched) -> None:
    result = campaign("cancel", "--tag", "sale", "--dry-run")

    ids = [f"mail-{number:02}" for number in range(10)]
    assert (DONE, [*ids, "… and 2 more", "12 schedules would be cancelled"]) == (
        result.exit_code,
        result.stdout.splitlines(),
    )
    assert 13 == len(campaign.ids())


def test_schedules_are_paused_resumed_and_cancelled_by_filters(campaign: Zsched) -> None:
    campaign("pause", "mail-03")

    paused = campaign("pause", "--queue", "email", "--note", "provider down")
    resumed = campaign("resume", "--match", "mail-*")
    cancelled = campaign("cancel", "--tag", "sale", "--state", "active")

    assert ["11 schedules paused", "12 schedules resumed", "12 schedules cancelled"] == [
        result.stdout.strip() for result in (paused, resumed, cancelled)
    ]
    assert ["beat"] == campaign.ids()


def test_many_schedules_are_refused_without_yes(campaign: Zsched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairs, "UNASKED", 10)

    refused = campaign("cancel", "--tag", "sale")
    sure = campaign("cancel", "--tag", "sale", "--yes", "--json")

    assert USAGE == refused.exit_code
    assert "12 schedules are found, more than 10, and nothing was changed" in refused.stderr
    assert "zsched cancel … --yes" in refused.stderr
    assert (DONE, 12) == (sure.exit_code, json.loads(sure.stdout)["done"])


@pytest.mark.parametrize("command", ["cancel", "pause", "resume"])
def test_neither_and_both_of_ids_and_filters_are_usage_errors(campaign: Zsched, command: str) -> None:
    neither, both = campaign(command), campaign(command, "beat", "--tag", "sale")

    assert [USAGE, USAGE] == [neither.exit_code, both.exit_code]
    assert f"which schedules?; give ids, or filters such as: zsched {command} --" in neither.stderr
    assert "ids and filters contradict each other" in both.stderr
    assert 13 == len(campaign.ids("--state", "active"))


def test_options_without_a_filter_are_a_usage_error(campaign: Zsched) -> None:
    result = campaign("cancel", "--yes")

    assert (USAGE, True) == (result.exit_code, "no filter is given" in result.stderr)


def test_a_refused_schedule_is_printed_with_its_reason(campaign: Zsched, redis_url: str) -> None:
    client = Client.from_url(redis_url, serializer="json")
    client.cancel_many(tag="sale")
    client._link.execute("ZREM", client._keys.due_normal(), "beat")  # its rule has ended

    result = campaign("pause", "--match", "beat", "--state", "ended")

    assert FAILED == result.exit_code
    assert result.stdout.startswith("beat: refused (")
    assert result.stdout.endswith("0 schedules paused; 1 refused\n")


def test_ctrl_c_says_how_far_the_command_came(campaign: Zsched, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(client: Client, on_progress: object, **given: object) -> object:
        on_progress(5, 12)  # type: ignore[operator]
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "cancel_many", interrupted)

    result = campaign("cancel", "--tag", "sale", "--yes")

    assert INTERRUPTED == result.exit_code
    assert "stopped after 5 of 12 schedules, or up to 100 more; the same command continues" in result.stderr
