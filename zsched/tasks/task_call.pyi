"""Calls that take options beside a payload; `make pages` writes them from the table of options."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ParamSpec, Protocol, TypeVar
from zoneinfo import ZoneInfo

from zsched.core.options import choices, forms

P = ParamSpec("P")
T = TypeVar("T")
Result = TypeVar("Result", covariant=True)

class AnyClient(Protocol[Result]):
    """A `Client`, or an `AsyncClient` whose calls are awaited."""

    @property
    def schedule(self) -> Callable[..., Result]: ...

class ClientCall(Protocol[P]):
    """A call that takes a client before the options: its result is that of the client's own call."""

    def __call__(self, client: AnyClient[T], /, *args: P.args, **options: P.kwargs) -> T: ...

def options(
    *,
    id: str | None = ...,
    if_exists: choices.IfExistsWord = ...,
    at: datetime | None = ...,
    after: forms.DurationValue | None = ...,
    every: float | str | timedelta | None = ...,
    cron: str | None = ...,
    rrule: str | None = ...,
    tz: str | ZoneInfo | None = ...,
    starts: datetime | None = ...,
    ends: datetime | None = ...,
    count: int | None = ...,
    gap: forms.GapWord | None = ...,
    fold: forms.FoldWord | None = ...,
    exclude: list[str] | tuple[str, ...] | str | None = ...,
    on_excluded: forms.OnExcludedWord | None = ...,
    queue: str = ...,
    priority: choices.PriorityWord = ...,
    at_front: bool = ...,
    on_uncertain: choices.OnUncertainWord = ...,
    on_lost: choices.OnLostWord | None = ...,
    pause_after_failures: int | None = ...,
    overlap: choices.OverlapWord | None = ...,
    overlap_limit: int | None = ...,
    catch_up: choices.CatchUpWord | None = ...,
    catch_up_window: forms.DurationValue | None = ...,
    catch_up_limit: int | None = ...,
    jitter: forms.DurationValue | None = ...,
    expires_after: forms.DurationValue | None = ...,
    done_by: forms.DurationValue | None = ...,
    urgency: str | None = ...,
    timeout: forms.DurationValue | None = ...,
    result_ttl: forms.DurationValue | None = ...,
    failure_ttl: forms.DurationValue | None = ...,
    retry: forms.RetryValue | None = ...,
    rate_limit: forms.RateLimitValue | None = ...,
    meta: dict[str, Any] | None = ...,
    on_success: forms.CallbackValue | None = ...,
    on_failure: forms.CallbackValue | None = ...,
    description: str | None = ...,
    tags: list[str] | tuple[str, ...] | set[str] | frozenset[str] = ...,
    owner: str | None = ...,
    durable: bool = ...,
    allow_past: bool = ...,
    if_version: str | None = ...,
    enabled: bool | None = ...,
    unique_for: forms.DurationValue | None = ...,
    **payload: Any,
) -> None:
    """Take options and a payload, as each call of a task does."""
