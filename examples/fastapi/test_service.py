# test_service.py: pip install 'zsched[testing,async]' 'fastapi[standard]'
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from service import app, client_of

from zsched.testing import ManualScheduler


@pytest.fixture
def service(scheduler: ManualScheduler) -> Iterator[TestClient]:
    app.dependency_overrides[client_of] = lambda: scheduler.async_client
    yield TestClient(app)
    app.dependency_overrides.clear()


def put(service: TestClient, event: str, begins_at: str) -> str:
    answer = service.put(f"/events/{event}", json={"begins_at": begins_at, "to": "ann@example.com"})
    return str(answer.json()["outcome"])


def test_a_reminder_moves_with_its_event(service: TestClient, scheduler: ManualScheduler) -> None:
    assert put(service, "concert", "2026-01-05T19:00:00+01:00") == "created"
    assert put(service, "concert", "2026-01-07T19:00:00+01:00") == "updated"

    [run] = scheduler.advance(days=14, work=True)  # from 2026-01-01 on

    assert run.nominal_at.isoformat() == "2026-01-07T17:00:00+00:00"
    assert run.kwargs == {"event": "concert", "to": "ann@example.com"}


def test_a_deleted_event_has_no_reminder(service: TestClient, scheduler: ManualScheduler) -> None:
    put(service, "talk", "2026-01-05T19:00:00+01:00")

    assert service.delete("/events/talk").json() == {"outcome": "cancelled"}

    assert scheduler.advance(days=14) == []
