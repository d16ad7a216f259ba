"""
Each test of this folder runs with ``Client``, and each of ``ALSO_ASYNC`` also with ``AsyncClient``, under the same
name; in `make test-all` each one does. A client.
"""

from collections.abc import Iterator
from typing import Any

import pytest

import zsched
from tests.breadth import everything
from tests.integration.client.in_a_loop import ClientsInALoop, LoopThread
from tests.waiting import WITHIN_S

# Each method, and each error. The code behind both classes is the same: aio/test_async_client.py compares them.
ALSO_ASYNC = frozenset(
    """
test_a_bad_namespace_is_refused
test_a_bad_preview_is_refused
test_a_change_of_a_schedule_that_is_gone_says_so
test_a_change_with_another_version_names_both_and_writes_nothing
test_a_client_reconnects_after_a_restart_of_redis
test_a_client_that_trusts_all_writers_opens_objects_of_any_class
test_a_durable_call_after_all_daemons_stopped_writes_nothing
test_a_durable_put_that_nobody_archives_says_that_redis_has_it
test_a_durable_update_is_on_an_archives_disk_when_it_returns
test_a_json_namespace_refuses_what_json_would_reshape
test_a_key_of_another_type_raises_redis_refused
test_a_listing_applies_every_filter_and_lists_paused_schedules_last
test_a_naive_time_with_fold_1_is_the_second_pass
test_a_namespace_has_one_serializer
test_a_past_time_raises_schedule_in_past_with_the_servers_time
test_a_put_returns_the_version_that_a_reader_gets
test_a_recurring_schedule_is_read_with_its_rule
test_a_retry_and_a_cancelled_run_are_recorded_under_a_views_name
test_a_row_whose_plans_are_always_outdated_is_reported
test_a_schedule_tells_who_paused_it
test_a_silent_redis_is_given_up_after_the_timeout
test_a_wrong_or_missing_password_or_database_is_refused
test_an_abandoned_call_reports_its_id_and_may_have_been_applied
test_an_error_raised_by_the_row_generator_is_not_a_lost_connection
test_an_id_enqueued_with_keep_runs_once_unless_it_is_cancelled
test_an_invalid_update_is_refused_with_its_field
test_an_overview_has_the_counts_of_schedules
test_an_unreachable_redis_is_reported_without_the_password
test_an_update_overtaken_at_every_attempt_raises_contended
test_cancel_returns_the_outcome
test_durable_rows_are_on_an_archives_disk_when_the_call_returns
test_if_exists_error_refuses_an_existing_schedule
test_life_cycle_calls_with_unknown_ids_or_bad_options_are_refused
test_lost_replies_cause_no_duplicate
test_pages_of_schedules_due_in_one_millisecond_are_complete
test_refused_rows_are_raised_after_all_others_were_written
test_an_overdue_one_shot_fires_or_is_removed
test_run_now_uses_up_a_one_shot_and_keeps_a_rule
test_schedules_are_previewed_in_their_zone
test_the_clients_own_settings_of_a_redis_client_are_kept
test_valid_rows_are_scheduled_and_invalid_rows_reported_by_index
""".split()
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "clients" in metafunc.fixturenames:
        is_both = everything() or metafunc.function.__name__ in ALSO_ASYNC
        metafunc.parametrize("clients", ["Client", "AsyncClient"] if is_both else ["Client"], indirect=True)


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(autouse=True)
def clients(request: pytest.FixtureRequest, loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The class that the test's module has under the name ``Client``."""
    if request.param == "Client":
        yield zsched.Client
        return
    clients = ClientsInALoop(loop_thread)
    monkeypatch.setattr(request.module, "Client", clients, raising=False)
    yield clients
    clients.close()


@pytest.fixture
def client(clients: Any, redis_url: str) -> Any:
    return clients.from_url(redis_url, timeout_s=WITHIN_S)
