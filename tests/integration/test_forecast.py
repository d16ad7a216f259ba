"""``client.forecast`` and ``zsched forecast``: what will fire, compared with what then fires."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis

from tests.builders.command_line import Zsched
from zsched import AsyncClient, Client, InvalidSchedule
from zsched.cli.program import DONE, USAGE
from zsched.client import timeline as reading
from zsched.core.clock import to_ms
from zsched.core.options.allowed import Limits
from zsched.core.runs.run_id import RunId
from zsched.testing import ManualScheduler

pytestmark = pytest.mark.once
START = datetime(2026, 3, 1, tzinfo=UTC)  # clocks change within the 90 days
SEND, PAGE = "app.mail.send", "app.web.page"


def test_a_forecast_of_90_days_is_what_the_scheduler_then_fires(redis_client: redis.Redis) -> None:
    with ManualScheduler(redis_client, start=START) as scheduler:
        client = scheduler.client
        client.schedule(SEND, id="daily", cron="30 2 * * *", tz="America/New_York", gap="shift")
        client.schedule(SEND, id="spread", cron="30 2 * * *", tz="America/New_York", jitter="2h")
        client.schedule(SEND, id="other", cron="30 2 * * *", tz="Europe/Berlin", jitter="2h", fold="both")
        client.schedule(SEND, id="thrice", every="7d", count=3)
        client.schedule(PAGE, id="weekly", rrule="FREQ=WEEKLY;INTERVAL=2;BYDAY=SU;BYHOUR=1", tz="Europe/Berlin")
        client.schedule(PAGE, id="once", after="40d", jitter="1h")
        client.schedule(PAGE, id="never", every="1d", enabled=False)

        foreseen = client.forecast("90d", limit=10_000)
        counted = client.forecast("90d", by="function", bucket="1d")
        fired = scheduler.advance(days=90)

    assert [(one.due_ms, one.id, one.nominal_ms) for one in foreseen.occurrences] == sorted(
        (to_ms(run.at), run.schedule_id, nominal_of(run.id)) for run in fired
    )
    assert {"paused": 1} == foreseen.left_out
    assert {PAGE: 7, SEND: len(fired) - 7} == {one.key: one.number for one in counted.loads}


def nominal_of(run_id: str) -> int:
    parts = RunId.parse(run_id)
    assert parts is not None
    return parts.nominal_ms


@pytest.fixture
def client(redis_url: str) -> Client:
    found = Client.from_url(redis_url)
    for n in range(3):
        found.schedule(SEND, id=f"mail-{n}", every=60, queue="email", tags=["shop"])
    found.schedule(PAGE, id="page", cron="* * * * *", queue="web")
    return found


def test_a_forecast_is_of_the_schedules_that_its_filters_choose(client: Client) -> None:
    found = [client.forecast("10m", **given) for given in ({}, {"queue": "email"}, {"tag": "shop"}, {"match": "p*"})]

    assert [4, 3, 3, 1] == [one.schedules for one in found]
    assert {"page"} == {one.id for one in found[-1].occurrences}


def test_a_client_with_limits_forecasts_only_what_it_may_see(client: Client) -> None:
    client.schedule("app.pay", id="pay", every=60, enabled=False)

    found = client.acting_as("shop", Limits(queues=("email",))).forecast("10m", workers={"email": 1, "web": 1})

    assert {"email"} == {one.schedule.queue for one in found.occurrences}
    assert (3, {}) == (found.schedules, found.left_out)


def test_a_forecast_of_too_many_schedules_ends_where_it_is_complete(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.schedule(PAGE, id="late", after="5m")
    monkeypatch.setattr(reading, "_READ", 4)

    found = client.forecast("10m")

    assert found.is_cut
    late_ms = client.get("late").next_ms
    assert late_ms == found.end_ms
    assert all(one.due_ms < late_ms for one in found.occurrences)
    assert found.occurrences[-1].due_ms > late_ms - 65_000


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"end": "soon"}, "end"),
        ({"end": datetime(2020, 1, 1, tzinfo=UTC)}, "end"),
        ({"end": "1d", "start": datetime(2026, 1, 1)}, "start"),
        ({"end": "1d", "by": "tag"}, "by"),
        ({"end": "1d", "bucket": 0}, "bucket"),
        ({"end": "1000d", "by": "minute"}, "bucket"),
        ({"end": "1d", "workers": {"email": 0}}, "workers"),
        ({"end": "1d", "workers": {"a b": 1}}, "workers"),
        ({"end": "1d", "limit": 0}, "limit"),
        ({"end": "1d", "suggest": 1}, "suggest"),
        ({"end": "1d", "quiet_window": "-5m"}, "quiet_window"),
        ({"end": "1d", "queue": ""}, "queue"),
    ],
)
def test_a_bad_argument_is_refused_with_its_name(client: Client, given: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        client.forecast(**given)

    assert field == refused.value.field


def test_an_async_client_forecasts_the_same_with_a_callback_that_it_awaits(client: Client, redis_url: str) -> None:
    seen = []

    async def on_progress(done: int, total: int) -> None:
        seen.append((done, total))

    async def ask() -> int:
        async with AsyncClient.from_url(redis_url) as other:
            found = await other.forecast("10m", by="queue", on_progress=on_progress)
            return found.loads[0].number

    assert asyncio.run(ask()) in (29, 30)
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1]


def test_the_command_lists_counts_and_finds_a_gap(client: Client, redis_url: str) -> None:
    zsched = Zsched(redis_url)
    client.pause("page")

    listed = zsched("forecast", "--to", "2m")
    counted = zsched("forecast", "--to", "1h", "--by", "queue", "--workers", "email=2")
    minutes = zsched("forecast", "--to", "1h", "--by", "minute")
    quiet = zsched("forecast", "--to", "1h", "--match", "mail-0", "--quiet-window", "50s")
    none = zsched("forecast", "--to", "1h", "--match", "mail-0", "--quiet-window", "5m")

    assert [DONE] * 5 == [one.exit_code for one in (listed, counted, minutes, quiet, none)]
    assert ["FIRES", "ID", "QUEUE", "FUNCTION"] == listed.stdout.splitlines()[0].split()
    assert "left out: 1 paused" in listed.stderr
    assert ["MINUTE", "OCCURRENCES", "MOST"] == minutes.stdout.splitlines()[0].split()
    assert " app.mail.send in email" in minutes.stdout.splitlines()[1]
    assert "email with 2 workers: nothing waits; no duration is known of app.mail.send" in counted.stdout
    assert "quiet from " in quiet.stdout
    assert "there is no such gap" in none.stdout


@pytest.mark.parametrize("given", ["email", "=4", "email=x", "email=-1"])
def test_workers_in_another_form_are_refused_with_the_form(redis_url: str, given: str) -> None:
    refused = Zsched(redis_url)("forecast", "--workers", given)

    assert USAGE == refused.exit_code
    assert "give one such as email=4" in refused.stderr


def test_a_forecast_may_begin_later(client: Client) -> None:
    start = datetime.now(UTC) + timedelta(days=1)

    found = client.forecast("1h", start, queue="web")

    assert 60 == len(found.occurrences)
    assert min(one.due_ms for one in found.occurrences) >= to_ms(start)


def test_a_dry_run_shows_the_difference_in_times_and_changes_nothing(
    client: Client, redis_url: str, tmp_path: Path
) -> None:
    client.schedule(PAGE, id="daily", cron="0 9 * * *", tz="Asia/Seoul")
    before, zsched = client.get("daily"), Zsched(redis_url)
    file = tmp_path / "a.toml"
    file.write_text(f'[schedules.daily]\nfunc = "{PAGE}"\ncron = "0 9 * * 1-5"\ntz = "Asia/Seoul"\n')

    told = zsched("set", "daily", "--cron", "0 9 * * 1-5", "--dry-run")
    applied = zsched("apply", str(file), "--take-over", "--dry-run")
    shown = json.loads(zsched("set", "daily", "--args", "[1]", "--dry-run", "--json").stdout)

    assert ["7 → 5 a week" in one.stdout and " Sat " in one.stdout for one in (told, applied)] == [True, True]
    assert "dry run, nothing was written" in told.stdout
    assert ([], [], [7, 7], "the times stay") == tuple(shown[name] for name in ("gone", "come", "per_week", "text"))
    assert before.version == client.get("daily").version


def test_an_update_does_what_its_difference_said(redis_client: redis.Redis) -> None:
    with ManualScheduler(redis_client, start=START) as scheduler:
        client = scheduler.client
        client.schedule(PAGE, id="a", every="36h")
        said = client.difference("a", cron="0 9 * * *", tz="Europe/Berlin", jitter="1h")
        client.update("a", cron="0 9 * * *", tz="Europe/Berlin", jitter="1h")
        fired = scheduler.advance(days=4)

    assert [to_ms(run.at) for run in fired] == list(said.come[:4])


def test_a_difference_of_a_bad_change_is_refused_as_the_change(client: Client) -> None:
    with pytest.raises(InvalidSchedule, match="cron"):
        client.difference("page", cron="61 * * * *")
