"""
Options of calls as services write them: accepted by mypy, and refused by mypy.

A wrong line names the mistake that mypy finds by ``type: ignore``. When mypy no longer finds it, the ignore has no use,
and that is an error of ``make lint``.
"""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type
from zoneinfo import ZoneInfo

from rq import Callback, RateLimit, Retry

from zsched import AsyncClient, Client, Schedule, Scheduled, ScheduleOptions, ScheduleRow, task
from zsched.core.options.choices import CatchUp, IfExists, OnLost, OnUncertain, Overlap, Priority
from zsched.core.triggers.spec import Fold, Gap

AT = datetime(2030, 1, 1, tzinfo=UTC)


@task(queue="email", id="reminder-{event_id}", expires_after=3600, priority="high")
def remind(event_id: str, minutes: int = 60) -> None: ...


def takes_every_option(client: Client) -> None:
    once = client.schedule("app.task", at=AT, id="a", if_exists="keep", allow_past=True, durable=True, args=(1, "x"))
    assert_type(once, Scheduled)
    client.schedule(remind, after=timedelta(minutes=5), kwargs={"k": [1]}, tz=ZoneInfo("Asia/Seoul"), urgency="asap")
    client.schedule("app.task", after="5m", timeout="1h30m", result_ttl="1d", expires_after="30s")
    client.schedule("app.task", every=0.5, starts=AT, ends=AT, count=3, gap="skip", fold=Fold.BOTH, jitter=5)
    client.schedule(
        "app.task", cron="0 9 * * *", gap=Gap.SHIFT, fold="first", tz="UTC", overlap="queue", overlap_limit=3
    )
    client.schedule("app.task", rrule="FREQ=DAILY", catch_up="all", catch_up_window=60, catch_up_limit=3)
    client.schedule("app.task", every=5, overlap=Overlap.SKIP, catch_up=CatchUp.NONE, pause_after_failures=3)
    client.schedule("app.task", after=5, queue="email", priority="low", at_front=True, on_lost="fail")
    client.schedule("app.task", after=5, priority=Priority.HIGH, on_lost=OnLost.RETRY, on_uncertain=OnUncertain.SKIP)
    client.schedule(
        "app.task", after=5, on_uncertain="skip", if_exists=IfExists.ERROR, expires_after=timedelta(hours=1)
    )
    client.schedule("app.task", after=5, timeout="5m", retry=3, result_ttl=60, failure_ttl=timedelta(days=1), meta={})
    client.schedule("app.task", after=5, retry=Retry(max=3, interval=[60, 300]), on_success=Callback(remind))
    client.schedule("app.task", after=5, retry={"max": 3}, on_success="app.done", on_failure={"func": "app.failed"})
    client.schedule("app.task", after=5, rate_limit=RateLimit("mail", 3))
    client.schedule("app.task", after=5, rate_limit={"key": "mail", "concurrency": 3})
    client.enqueue("app.task", rate_limit=("mail", 3))
    client.update("a", rate_limit="mail:3")
    client.update("a", rate_limit=None)
    client.schedule("app.task", after=5, description="x", tags=["a"], owner="file:x")
    client.enqueue("app.task", (1,), {"k": 1}, id="a", queue="email", priority="high", expires_after=30)
    client.update("a", func=remind, args=(2,), at=AT, priority="low", ends=None)
    client.preview(every=5, starts=AT, tz="UTC")
    client.preview("a", n=3)


def refuses_names_that_are_no_options(client: Client) -> None:
    client.schedule("app.task", at=AT, quee="email")  # type: ignore[call-arg]
    client.schedule("app.task", eta=AT)  # type: ignore[call-arg]
    client.enqueue("app.task", quee="email")  # type: ignore[call-arg]
    client.enqueue("app.task", at=AT)  # type: ignore[call-arg]
    client.update("a", quee="email")  # type: ignore[call-arg]
    client.update("a", if_exists="keep")  # type: ignore[call-arg]
    client.preview(every=5, queue="email")  # type: ignore[call-arg]
    client.schedule_many([{"func": "app.task", "at": AT, "quee": "email"}])  # type: ignore[typeddict-unknown-key]
    task(quee="email")  # type: ignore[call-overload]


def refuses_values_of_other_types(client: Client) -> None:
    client.schedule("app.task", at="2030-01-01")  # type: ignore[arg-type]
    client.schedule("app.task", after=[5])  # type: ignore[arg-type]
    client.schedule("app.task", at=AT, priority="urgent")  # type: ignore[arg-type]
    client.schedule("app.task", at=AT, priority=None)  # type: ignore[arg-type]
    client.schedule("app.task", at=AT, tags="one")  # type: ignore[arg-type]
    client.schedule("app.task", at=AT, args=1)  # type: ignore[arg-type]
    client.enqueue("app.task", at_front="yes")  # type: ignore[arg-type]
    client.update("a", overlap="nothing")  # type: ignore[arg-type]
    client.preview(cron=5)  # type: ignore[arg-type]
    client.schedule_many([{"func": "app.task", "at": "soon"}])  # type: ignore[typeddict-item]
    client.schedule_many([{"at": AT}])  # type: ignore[typeddict-item]
    Client.from_url("redis://localhost", serialiser="json")  # type: ignore[call-arg]


def a_task_takes_options_beside_its_payload(client: Client) -> None:
    assert_type(remind.schedule(client, at=AT, event_id="e1", minutes=5), Scheduled)
    assert_type(remind.enqueue(client, event_id="e1", queue="sms"), Scheduled)
    assert_type(remind.row(at=AT, event_id="e1"), ScheduleRow)
    client.schedule_many(remind.row(after=5, event_id=id) for id in ("e1", "e2"))
    remind.schedule(client, at="soon", event_id="e1")  # type: ignore[arg-type]
    remind.enqueue(client, event_id="e1", priority="urgent")  # type: ignore[arg-type]
    remind.row(after=[5], event_id="e1")  # type: ignore[arg-type]
    remind.schedule(event_id="e1", at=AT)  # type: ignore[call-arg]


async def the_same_calls_are_awaited_with_an_asynchronous_client(client: AsyncClient) -> None:
    assert_type(await remind.schedule(client, at=AT, event_id="e1", minutes=5), Scheduled)
    assert_type(await remind.enqueue(client, event_id="e1", queue="sms"), Scheduled)
    await remind.schedule(client, at="soon", event_id="e1")  # type: ignore[arg-type]
    await remind.enqueue(client, event_id="e1", priority="urgent")  # type: ignore[arg-type]
    await assert_type(remind.schedule(client, at=AT, event_id="e1"), Coroutine[Any, Any, Scheduled])
    await remind.schedule("redis://h", at=AT, event_id="e1")  # type: ignore[arg-type]


def options_and_rows_may_be_made_beforehand(client: Client, func: Callable[[int], None]) -> None:
    options: ScheduleOptions = {"queue": "email", "expires_after": 60}
    options["at"] = AT
    client.schedule(func, **options)
    rows: list[ScheduleRow] = [{"func": func, "at": AT, "id": f"a{n}", "args": (n,)} for n in range(3)]
    assert client.schedule_many(rows).done == 3
    assert_type(client.get("a"), Schedule)
