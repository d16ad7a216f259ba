"""
Reminders of events, over HTTP:

    pip install 'zsched[async]' fastapi uvicorn
    uvicorn service:app
    curl -X PUT localhost:8000/events/concert -H 'Content-Type: application/json' \
      -d '{"begins_at": "2026-12-24T19:00:00+01:00", "to": "ann@example.com"}'
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, BaseModel, Field
from tasks import remind

from zsched import AsyncClient, InvalidSchedule, RedisRefused, RedisUnavailable


class Event(BaseModel):
    """An event, and the guest who gets its reminder."""

    begins_at: Annotated[AwareDatetime, Field(gt=datetime(2000, 1, 1, tzinfo=UTC))]
    to: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep one client for the whole service: it shares its connections among all requests."""
    async with AsyncClient.from_url(os.environ.get("ZSCHED_REDIS_URL", "redis://localhost:6379/0")) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


def client_of(request: Request) -> AsyncClient:
    """Return the client for a route. A test gives another one."""
    client: AsyncClient = request.app.state.client
    return client


Scheduling = Annotated[AsyncClient, Depends(client_of)]


@app.put("/events/{event}")
async def put_event(event: str, given: Event, client: Scheduling) -> dict[str, datetime | str | None]:
    """Save an event. Its reminder has an id of its own, so the same request again moves it, and doubles nothing."""
    at = given.begins_at - timedelta(hours=1)
    made = await remind.schedule(client, at=at, event=event, to=given.to, allow_past=True)
    return {"outcome": made.outcome, "reminder_at": made.next_at}


@app.delete("/events/{event}")
async def delete_event(event: str, client: Scheduling) -> dict[str, str]:
    """Delete an event, and cancel its reminder."""
    return {"outcome": await client.cancel(remind.id_of(event=event))}


@app.exception_handler(InvalidSchedule)
async def refuse(request: Request, error: InvalidSchedule) -> JSONResponse:
    """Answer that a value was refused, with its field and the remedy."""
    return JSONResponse({"detail": str(error), "field": error.field}, status_code=422)


@app.exception_handler(RedisRefused)
@app.exception_handler(RedisUnavailable)
async def wait(request: Request, error: RedisRefused | RedisUnavailable) -> JSONResponse:
    """Answer that the same request should come again: with an id, that is safe."""
    return JSONResponse({"detail": str(error)}, status_code=503, headers={"Retry-After": "2"})
