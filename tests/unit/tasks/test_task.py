"""The decorator, and the calls of a task."""

import asyncio
import inspect
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import fakeredis
import pytest

from tests.integration.reminders import digest, later, plain, poll, send_reminder, untyped
from tests.unit.tasks.defining import PATH, define
from zsched import Client, InvalidSchedule, InvalidTask, Next, NotImportable, Task, task
from zsched.storage.rqjob import function_path
from zsched.tasks.chaining import nexts_of

SOON = datetime(2030, 1, 1, tzinfo=UTC)
FITTING = {"event_id": "e1", "channel": "push"}
MODULE = "tests.integration.reminders"


@pytest.fixture
def client() -> Client:
    return Client(fakeredis.FakeRedis())


def test_calling_a_task_calls_its_function_and_returns_its_next_unchanged() -> None:
    assert "e1 by push, 60 minutes before" == send_reminder("e1", channel="push")
    assert ("anything", "done") == (plain("anything"), poll(3))
    assert Next(after=0, number=2) == poll(1) == asyncio.run(later(1))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'channel'"):
        send_reminder("e1")  # type: ignore[call-arg]  # that is the point


def test_a_task_looks_like_its_function_and_is_pickled_by_its_name() -> None:
    assert ("send_reminder", MODULE) == (send_reminder.__name__, send_reminder.__module__)  # type: ignore[attr-defined]
    assert (send_reminder.__doc__ or "").lstrip().startswith("Remind somebody")
    assert ["event_id", "channel", "minutes"] == list(inspect.signature(send_reminder).parameters)
    assert f"{MODULE}.send_reminder" == function_path(send_reminder) == send_reminder.path
    assert f"<Task {MODULE}.send_reminder>" == repr(send_reminder)
    assert send_reminder is pickle.loads(pickle.dumps(send_reminder))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"args": (1,)}, rf"^task {PATH}: args=\(1,\): each call has its own; leave it out"),
        ({"kwargs": {}}, "kwargs={}: each call has its own"),
        ({"job_timeout": 5}, r"job_timeout=5: no such option here; our option is timeout="),
        ({"prioritty": "high"}, r"prioritty='high': no such option here; our option is priority="),
        ({"priority": "urgent"}, "priority='urgent': not one of its values; give one of high, normal, low"),
        ({"queue": "two words"}, rf"^task {PATH}: queue='two words': not a usable queue name"),
        ({"timeout": "soon"}, "timeout='soon': not a duration"),
        ({"retry": 0}, "retry=0: not a number of retries"),
        ({"on_success": lambda: None}, "on_success=.*: a worker cannot import it"),
        ({"cron": "61 * * * *"}, "cron='61 "),
        ({"cron": "0 9 * * *", "every": 5}, rf"^task {PATH}: every and cron: more than one trigger; "),
        ({"count": 0}, "count=0: not a number of occurrences"),
        ({"catch_up": "all"}, "catch_up='all': with overlap="),
    ],
)
def test_a_bad_option_is_an_error_where_the_task_is_defined(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidTask, match=told):
        define("def send(): ...", **options)


def test_an_urgency_of_a_task_is_checked_by_the_client() -> None:
    urgent = define("def send(): ...", urgency="ours")

    with pytest.raises(InvalidSchedule, match="not an urgency"):
        Client(fakeredis.FakeRedis()).schedule(urgent, after=5)


def test_an_error_of_a_task_survives_pickling_unchanged() -> None:
    error = InvalidTask(PATH, "queue", "a b", "not a queue", "give a name")

    again = pickle.loads(pickle.dumps(error))

    assert f"task {PATH}: queue='a b': not a queue; give a name" == str(error) == str(again)
    assert (PATH, "queue", "a b") == (again.field, again.name, again.value)


OWN = {"tz": "Asia/Seoul", "jitter": 5, "id": "digest"}  # of digest
RECURRING = OWN | {"overlap": "queue", "pause_after_failures": 3, "count": 9}
REMINDER = {"queue": "email", "priority": "high", "tags": ["reminders"], "id": "reminder-e1", "kwargs": FITTING}
OTHERS = {"at": SOON, "queue": "sms", "kwargs": FITTING, "tags": None}


@pytest.mark.parametrize(
    ("task", "given", "at_once", "expected"),
    [
        (send_reminder, OTHERS, False, REMINDER | OTHERS),
        (send_reminder, {"id": "mine", "kwargs": FITTING}, False, REMINDER | {"id": "mine"}),
        (send_reminder, {"kwargs": FITTING}, True, REMINDER),
        (digest, {}, False, RECURRING | {"cron": "0 9 * * *"}),
        (digest, {"every": 60}, False, RECURRING | {"every": 60}),
        (digest, {"after": 60}, False, OWN | {"after": 60}),
        (digest, {}, True, {}),  # no options of times, and no id of the recurring schedule
        (digest, {"id": "now"}, True, {"id": "now"}),
    ],
)
def test_an_option_of_the_call_wins_over_the_decorators_option(
    task: Task[..., Any], given: dict[str, Any], at_once: bool, expected: dict[str, Any]
) -> None:
    assert expected == task.complete_options(given, at_once=at_once)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"event_id": "e1", "chanel": "push"}, r"chanel='push': task .*; did you mean channel\?"),
        ({"event_id": "e1", "channel": "push", "job_timeout": 5}, r"our option is timeout="),
        ({"event_id": "e1", "channel": "push", "prioriti": 1}, r"our option is priority="),
        ({"event_id": "e1"}, "channel: task .* needs it; give channel=…"),
        ({"event_id": "e1", "channel": "fax"}, "channel='fax'"),
        ({"kwargs": {"event_id": "e1", "channel": "push"}}, "kwargs=.*takes its parameters by name"),
        ({"event_id": "e 1", "channel": "push"}, "event_id='e 1': it cannot be part of an id"),
    ],
)
def test_a_wrong_name_or_value_is_refused_before_a_write(client: Client, given: dict[str, Any], told: str) -> None:
    for call in (send_reminder.schedule, send_reminder.enqueue):
        with pytest.raises(InvalidSchedule, match=told):
            call(client, **given | ({} if call == send_reminder.enqueue else {"after": 5}))
    assert [] == list(client.list())


def test_a_parameter_may_be_called_client_or_func(client: Client) -> None:
    named = define("def send(client: str, func: str, self: str): ...")

    assert {"client": "a", "func": "b", "self": "c"} == named.row(client="a", func="b", self="c")["kwargs"]


def test_a_row_is_checked_by_the_client_that_receives_it() -> None:
    assert {"func": send_reminder, "kwargs": {"channel": "fax"}} == send_reminder.row(channel="fax")
    assert {"func": plain, "kwargs": {"value": 1}, "after": 5} == plain.row(value=1, after=5)


def test_the_decorator_works_with_and_without_options() -> None:
    assert isinstance(plain, Task)
    assert {} == plain.options
    assert isinstance(task(queue="a")(plain._func), Task)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "at: a Next without a time"),
        ({"at": SOON, "after": 5}, "at and after: a Next with more than one time"),
        ({"every": 60}, "every=60: a Next runs once"),
        ({"cron": "0 9 * * *", "at": None}, "cron='0 9 * * *': a Next runs once"),
        ({"after": 5, "rrule": "FREQ=DAILY"}, "rrule='FREQ=DAILY': a Next runs once"),
    ],
)
def test_a_next_needs_exactly_one_time(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        Next(**given)

    assert f"{told}; give zsched.Next(at=… or after=…, …)" == str(caught.value)


@pytest.mark.parametrize(
    ("func", "told"),
    [
        (lambda: None, "a worker cannot import it by name"),
        (7, "func=7: not a function with a name"),
        ("nodots", "func='nodots': not a dotted path"),
        ("__main__.send", "a worker has another __main__"),
    ],
)
def test_a_next_refuses_functions_that_a_client_would_refuse(func: Any, told: str) -> None:
    with pytest.raises(NotImportable, match=told):
        Next(func, after=1)


@pytest.mark.parametrize("func", [print, untyped, send_reminder, "app.tasks.send", None])
def test_a_next_accepts_a_function_a_task_or_a_path(func: Any) -> None:
    assert func is Next(func, after=1).func


def test_a_next_keeps_all_of_its_arguments() -> None:
    following = Next(plain, after=timedelta(seconds=5), value=1, queue="a")

    assert following == Next(plain, after=timedelta(seconds=5), value=1, queue="a")
    assert following != Next(plain, after=timedelta(seconds=5), value=2, queue="a")
    assert following == pickle.loads(pickle.dumps(following))
    assert {"after": timedelta(seconds=5), "value": 1, "queue": "a"} == following.given


@pytest.mark.parametrize("result", [None, "done", [], (), ["done"], {"next": 1}, [[Next(after=1)]]])
def test_a_result_without_a_next_is_returned_unchanged(result: object) -> None:
    assert nexts_of(result) is None


def test_nexts_come_alone_or_in_a_list() -> None:
    one = Next(after=1)

    assert [one] == nexts_of(one) == nexts_of([one])
    assert [one, one] == nexts_of((one, one))
    with pytest.raises(InvalidSchedule, match="return=None: a task returned it in a list with Nexts"):
        nexts_of([one, None])


def test_a_function_that_yields_is_refused_as_a_task() -> None:
    def yielding() -> Any:
        yield 1

    yielding.__qualname__ = "yielding"

    with pytest.raises(NotImportable, match="a generator has no return value; let it return"):
        task(yielding)
