"""A call that takes options beside a payload; `make pages` writes it from the table of options."""

from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar
from zoneinfo import ZoneInfo

from zsched.core.choices import CatchUpWord, IfExistsWord, OnLostWord, OnUncertainWord, OverlapWord, PriorityWord
from zsched.core.forms import CallbackValue, DurationValue, FoldWord, GapWord, RateLimitValue, RetryValue

Result = TypeVar("Result", covariant=True)

class TaskCall(Protocol[Result]):
    def __call__(
        self,
        *,
        at: datetime | None = ...,
        after: DurationValue | None = ...,
        every: float | str | timedelta | None = ...,
        cron: str | None = ...,
        rrule: str | None = ...,
        tz: str | ZoneInfo | None = ...,
        starts: datetime | None = ...,
        ends: datetime | None = ...,
        count: int | None = ...,
        gap: GapWord | None = ...,
        fold: FoldWord | None = ...,
        queue: str = ...,
        priority: PriorityWord = ...,
        at_front: bool = ...,
        on_uncertain: OnUncertainWord = ...,
        on_lost: OnLostWord | None = ...,
        pause_after_failures: int | None = ...,
        overlap: OverlapWord | None = ...,
        overlap_limit: int | None = ...,
        catch_up: CatchUpWord | None = ...,
        catch_up_window: DurationValue | None = ...,
        catch_up_limit: int | None = ...,
        jitter: DurationValue | None = ...,
        expires_after: DurationValue | None = ...,
        urgency: str | None = ...,
        timeout: DurationValue | None = ...,
        result_ttl: DurationValue | None = ...,
        failure_ttl: DurationValue | None = ...,
        retry: RetryValue | None = ...,
        rate_limit: RateLimitValue | None = ...,
        meta: dict[str, Any] | None = ...,
        on_success: CallbackValue | None = ...,
        on_failure: CallbackValue | None = ...,
        description: str | None = ...,
        tags: list[str] | tuple[str, ...] | set[str] | frozenset[str] = ...,
        owner: str | None = ...,
        durable: bool = ...,
        allow_past: bool = ...,
        if_version: str | None = ...,
        enabled: bool | None = ...,
        id: str | None = ...,
        if_exists: IfExistsWord = ...,
        unique_for: DurationValue | None = ...,
        **payload: Any,
    ) -> Result: ...
