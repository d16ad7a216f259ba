"""
A product and its tests, written with README and docs/how-to/schedule.md alone: typed tasks, a service, a file of
schedules.

So it uses only names of zsched in these pages, and the fixture that products are offered.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.product import outside, service, tasks
from tests.product.outside import Channel
from zsched import InvalidFile, InvalidSchedule
from zsched.testing import ManualScheduler

FILE = Path(__file__).with_name("schedules.toml")
BERLIN = ZoneInfo("Europe/Berlin")
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _new_world() -> None:
    outside.EVENTS.clear()
    outside.SUBSCRIBERS.clear()
    outside.DELIVERED.clear()


def mails(*texts: str) -> list[tuple[str, str]]:
    return [("email", text) for text in texts]


# -- reminders ------------------------------------------------------------------------------------------


def test_a_reminder_comes_an_hour_before_its_event(scheduler: ManualScheduler) -> None:
    begins_at = scheduler.now + 5 * HOUR

    service.save_event(scheduler.client, "concert", begins_at)
    runs = scheduler.advance(days=1, work=True)

    assert [begins_at - HOUR] == [run.at for run in runs]
    assert [("push", "concert begins soon")] == outside.DELIVERED


def test_an_edited_event_reminds_once_at_its_new_time_by_its_new_channel(scheduler: ManualScheduler) -> None:
    begins_at = scheduler.now + 5 * HOUR
    service.save_event(scheduler.client, "concert", begins_at)

    service.save_event(scheduler.client, "concert", begins_at + 3 * HOUR, "sms")
    runs = scheduler.advance(days=1, work=True)

    assert [("sms", begins_at + 2 * HOUR)] == [(run.queue, run.at) for run in runs]
    assert [("sms", "concert begins soon")] == outside.DELIVERED


def test_an_event_postponed_after_its_reminder_reminds_again(scheduler: ManualScheduler) -> None:
    begins_at = scheduler.now + 2 * HOUR
    service.save_event(scheduler.client, "concert", begins_at)
    scheduler.advance(hours=1, work=True)

    service.save_event(scheduler.client, "concert", begins_at + 24 * HOUR)
    runs = scheduler.advance(days=2, work=True)

    assert [begins_at + 23 * HOUR] == [run.at for run in runs]
    assert 2 == len(outside.DELIVERED)


@pytest.mark.parametrize(("begins_in", "sent"), [(MINUTE, [("push", "concert begins soon")]), (-MINUTE, [])])
def test_an_event_that_begins_within_the_hour_reminds_at_once_unless_it_has_begun(
    scheduler: ManualScheduler, begins_in: timedelta, sent: list[tuple[str, str]]
) -> None:
    service.save_event(scheduler.client, "concert", scheduler.now + begins_in)

    scheduler.advance(work=True)
    assert sent == outside.DELIVERED
    scheduler.advance(days=1, work=True)
    assert sent == outside.DELIVERED


def test_a_deleted_event_sends_no_reminder(scheduler: ManualScheduler) -> None:
    service.save_event(scheduler.client, "concert", scheduler.now + 2 * HOUR)

    service.delete_event(scheduler.client, "concert")

    assert [] == scheduler.advance(days=1)


def test_a_reminder_that_waits_for_a_worker_is_not_sent_once_its_event_begins(scheduler: ManualScheduler) -> None:
    service.save_event(scheduler.client, "concert", scheduler.now + 2 * HOUR)
    scheduler.advance(hours=1)

    scheduler.advance(hours=1, seconds=1)

    assert [] == scheduler.work()
    assert ["reminder-concert"] == [run.schedule_id for run in scheduler.client.runs(status="expired")]
    assert [] == outside.DELIVERED


def test_a_reminder_that_waits_for_a_worker_is_not_sent_when_its_event_was_moved(scheduler: ManualScheduler) -> None:
    begins_at = scheduler.now + 2 * HOUR
    service.save_event(scheduler.client, "concert", begins_at)
    scheduler.advance(hours=1)

    service.save_event(scheduler.client, "concert", begins_at + 24 * HOUR)
    waited = scheduler.work()

    assert (1, []) == (len(waited), outside.DELIVERED)
    scheduler.advance(days=2, work=True)
    assert [("push", "concert begins soon")] == outside.DELIVERED


@pytest.mark.parametrize(("name", "value"), [("channel", "fax"), ("event_id", 7), ("chanel", "push")])
def test_a_reminder_with_a_wrong_argument_is_refused(scheduler: ManualScheduler, name: str, value: object) -> None:
    arguments = {"event_id": "concert", "begins_at": scheduler.now + HOUR, "channel": "push", name: value}

    with pytest.raises(InvalidSchedule, match=f"^{name}={value!r}: "):
        tasks.remind.schedule(scheduler.client, after=60, **arguments)

    assert [] == scheduler.advance(days=1)


# -- the campaign ---------------------------------------------------------------------------------------


def test_the_mails_of_a_campaign_come_days_apart_and_each_once(scheduler: ManualScheduler) -> None:
    began = scheduler.now + service.SECOND_THOUGHTS

    service.sign_up(scheduler.client, "ada")
    runs = scheduler.advance(days=60, work=True)

    assert [0, 2, 7] == [(run.at - began).days for run in runs]
    assert mails("welcome, ada", "tips, ada", "offer, ada") == outside.DELIVERED


@pytest.mark.parametrize("days", [0, 1, 30])
def test_a_second_sign_up_sends_no_mail_twice(scheduler: ManualScheduler, days: int) -> None:
    service.sign_up(scheduler.client, "ada")
    scheduler.advance(days=days, work=True)

    service.sign_up(scheduler.client, "ada")
    scheduler.advance(days=60, work=True)

    assert mails("welcome, ada", "tips, ada", "offer, ada") == outside.DELIVERED


def test_an_unsubscribed_user_gets_no_more_mails(scheduler: ManualScheduler) -> None:
    service.sign_up(scheduler.client, "ada")
    service.sign_up(scheduler.client, "bob")
    scheduler.advance(days=1, work=True)

    service.unsubscribe(scheduler.client, "ada")
    runs = scheduler.advance(days=60, work=True)

    assert ["campaign-bob", "campaign-bob"] == [run.schedule_id for run in runs]
    assert mails("welcome, ada", "welcome, bob", "tips, bob", "offer, bob") == outside.DELIVERED


def test_a_queued_mail_is_not_sent_to_an_unsubscribed_user(scheduler: ManualScheduler) -> None:
    service.sign_up(scheduler.client, "ada")
    scheduler.advance(hours=1)

    service.unsubscribe(scheduler.client, "ada")
    waited = scheduler.work()

    assert (1, []) == (len(waited), outside.DELIVERED)
    assert [] == scheduler.advance(days=60, work=True)


def test_a_refused_mail_is_sent_a_minute_later(scheduler: ManualScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(channel: Channel, text: str) -> None:
        monkeypatch.undo()
        raise ConnectionError("the provider is down")

    monkeypatch.setattr(outside, "deliver", refuse)
    began = scheduler.now + service.SECOND_THOUGHTS

    service.sign_up(scheduler.client, "ada")
    runs = scheduler.advance(days=60, work=True)

    assert mails("welcome, ada", "tips, ada", "offer, ada") == outside.DELIVERED
    assert began + timedelta(days=2, minutes=1) == runs[1].at


def test_a_reminder_goes_before_a_mail_that_is_due_at_the_same_time(scheduler: ManualScheduler) -> None:
    service.sign_up(scheduler.client, "ada")
    service.save_event(scheduler.client, "concert", scheduler.now + service.SECOND_THOUGHTS + HOUR)

    runs = scheduler.advance(hours=1)

    assert ["reminder-concert", "campaign-ada"] == [run.schedule_id for run in runs]


# -- digests --------------------------------------------------------------------------------------------


def test_digests_keep_their_hour_in_berlin_when_clocks_change(scheduler: ManualScheduler) -> None:
    scheduler.advance_to(datetime(2026, 3, 27, tzinfo=UTC))  # a Friday; summer time begins on the 29th

    scheduler.apply(FILE)
    runs = scheduler.advance(days=4)

    assert [("daily", "Fri 09:00"), ("weekly", "Sun 18:30"), ("daily", "Mon 09:00")] == [
        (run.kwargs["edition"], f"{run.at.astimezone(BERLIN):%a %H:%M}") for run in runs
    ]
    assert [8, 16, 7] == [run.at.hour for run in runs]


def test_a_digest_goes_to_every_subscriber_and_its_record_counts_them(scheduler: ManualScheduler) -> None:
    outside.SUBSCRIBERS.update(["ada", "bob"])
    scheduler.apply(FILE)

    scheduler.advance(days=1, work=True)

    assert mails("daily digest, ada", "daily digest, bob") == outside.DELIVERED
    assert [{"sent": 2}] == [run.note for run in scheduler.client.runs("digest-daily")]


def test_a_mistake_in_the_file_is_reported_with_its_line(scheduler: ManualScheduler, tmp_path: Path) -> None:
    mistaken = tmp_path / FILE.name
    mistaken.write_text(FILE.read_text().replace('"daily"', '"dayly"'))

    with pytest.raises(InvalidFile, match=r"schedules\.toml:10: \[schedules\.digest-daily\]: edition='dayly'"):
        scheduler.apply(mistaken)
