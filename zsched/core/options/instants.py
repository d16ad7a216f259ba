"""Times among the arguments of the client, checked as in ``arguments``."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime

from zsched.core.clock import LAST_MS, to_ms
from zsched.core.triggers.spec import Fold, Gap
from zsched.core.triggers.zones import offset_s, resolve_local, zone
from zsched.errors import InvalidSchedule

_OF_A_ZONE = ("at", "starts", "ends")  # options beside ``tz``


def instant_ms(field: str, value: object, tz: str | None, gap: Gap = Gap.SHIFT, fold: Fold = Fold.FIRST) -> int:
    """
    Return the epoch milliseconds of a datetime, rounded up; a naive one is local time in *tz*. If it has ``fold=1``, it
    is the second pass of a repeated time (PEP 495), whatever *fold* says.

    Raises:
        InvalidSchedule: not a datetime, naive without a zone, before 1970 or after 9999, or a local
            time that *gap* skips; or its tzinfo has no offset for it.
    """
    if not isinstance(value, datetime):
        raise InvalidSchedule(field, value, "not a datetime", _datetime_instead(value))
    try:
        is_aware = value.utcoffset() is not None
    except Exception as error:  # of any tzinfo, or of pandas' NaT
        problem = f"it has no offset from UTC ({type(error).__name__}: {error})"
        raise InvalidSchedule(field, value, problem, 'give one with tzinfo=ZoneInfo("Area/City")') from error
    if is_aware:
        ms = to_ms(value)
    elif tz is None:
        remedy = "give an aware one, such as datetime(2026, 12, 24, 18, tzinfo=UTC)"
        if field in _OF_A_ZONE:
            remedy = 'give tz="Area/City" or an aware one'
        raise InvalidSchedule(field, value, "a naive datetime is ambiguous", remedy)
    else:
        if fold is Fold.BOTH:
            raise InvalidSchedule("fold", "both", "a single time cannot have two instants", "give first or second")
        times = resolve_local(value, zone(tz), gap, Fold.SECOND if value.fold else fold)
        if not times:
            raise InvalidSchedule(
                field, value, f"this local time does not exist in {tz}", "give gap=shift or another time"
            )
        ms = times[0] + (value.microsecond % 1000 > 0)  # resolve_local cuts off what is below a millisecond
    if not 0 <= ms <= LAST_MS:
        raise InvalidSchedule(field, value, "outside of the supported range", "give a time from 1970 to 9999")
    return ms


def local_offset_s(value: datetime, tz: str | None, ms: int) -> int | None:
    """Return the offset at *ms*, if the datetime *value* was local time in the zone *tz*; None for an aware one."""
    return None if tz is None or value.utcoffset() is not None else offset_s(zone(tz), ms // 1000)


def _datetime_instead(value: object) -> str:
    """Return the remedy for a *value* that is not a datetime."""
    if isinstance(value, date):
        return "give a datetime: a date alone has no time of day"
    with suppress(ValueError, TypeError):
        return f"give a datetime: datetime.fromisoformat({datetime.fromisoformat(value).isoformat()!r})"  # type: ignore[arg-type]  # a text, or TypeError
    return "give a datetime"
