"""Bodies of requests: read within bounds, as strict JSON, as the options of the client."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import ClientDisconnect, Request

from zsched.core.clock import LAST_MS, from_ms
from zsched.core.options.arguments import refuse_constant
from zsched.core.options.forms import ValueType
from zsched.core.options.table import options_taking
from zsched.core.wording import duration_argument, in_a_line
from zsched.errors import NOT_GIVEN, InvalidSchedule, show
from zsched.web.answers import Problem

BODY_BYTES: Final = 1_048_576
FORM_BYTES: Final = 16_384
FIELDS: Final = 10  # of a form
_LENGTH_DIGITS: Final = 18
_DEEPEST: Final = 100  # levels of lists and objects
_TIMES: Final = frozenset(options_taking(ValueType.TIME))
_DUE: Final = frozenset({"due_after", "due_before"})
_TOO_LARGE: Final = f"send at most {BODY_BYTES:,} bytes; arguments of this size belong into a store of their own"


async def read_object(request: Request) -> dict[str, Any]:
    """
    Return the JSON object of *request*; {} for an empty body. The whole body must come within [web] timeout_s. Raises
    Problem.
    """
    body = await _whole(request, BODY_BYTES, _TOO_LARGE)
    found: dict[str, Any] = parsed(body) if body.strip() else {}
    return found


async def read_form(request: Request, most: int = FIELDS) -> ImmutableMultiDict[str, str]:
    """Return the fields of a page's form, *most* at most. Raises Problem."""
    body = await _whole(request, FORM_BYTES, f"send at most {FORM_BYTES:,} bytes")
    try:
        fields = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=most)
        return ImmutableMultiDict(fields)
    except ValueError:
        raise Problem(400, "not-a-form", "the form has too many fields", "send it as the page has it") from None


async def read_lines(request: Request) -> AsyncIterator[list[bytes]]:
    """Yield the lines of *request*, without empty ones, as many at once as have come. Raises Problem."""
    rest = b""
    async for part in _parts(request):
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > BODY_BYTES:
            raise Problem(413, "too-large", "a line is too large", _TOO_LARGE)
        if lines:
            yield [line for line in lines if line and not line.isspace()]
    if rest.strip():
        yield [rest]


async def read_rows(request: Request) -> Any:
    """Return the JSON array or object of *request*, which must come within [web] timeout_s. Raises Problem."""
    return parsed(await _whole(request, BODY_BYTES, f"send at most {BODY_BYTES:,} bytes, or NDJSON"), (dict, list))


def parsed(text: bytes, kinds: tuple[type, ...] = (dict,)) -> Any:
    """
    Return the object (or one of *kinds*) of a JSON *text*: no NaN, no number beyond a float, no key twice, no more than
    100 levels. Raises Problem.
    """
    try:
        found = _DECODER.decode(text.decode("utf-8-sig"))
        if text.count(b"[") + text.count(b"{") > _DEEPEST:
            _demand_few_levels(found)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "not-json", f"the body is not JSON: {error}", "send a JSON object (RFC 8259)") from None
    if not isinstance(found, kinds):
        raise Problem(400, "not-json", f"the body is a JSON {type(found).__name__}", "send a JSON object")
    return found


def call_options(body: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a call from JSON: times are datetimes, and the others stay. Raises InvalidSchedule."""
    times = {name: rfc3339(name, body[name]) for name in _TIMES & body.keys()}
    return {**body, **times} if times else body


def func_of(options: dict[str, Any]) -> str:
    """Take the function's path out of *options*. Raises InvalidSchedule."""
    func = options.pop("func", None)
    if not isinstance(func, str):
        given = NOT_GIVEN if func is None else func
        raise InvalidSchedule("func", given, "not a dotted path", "give one such as app.tasks.remind")
    return func


def only(body: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return *body* if it has no other members than *names*. Raises InvalidSchedule."""
    for name in body.keys() - set(names):
        raise InvalidSchedule(name, body[name], "no such member here", f"give {', '.join(names) or 'an empty body'}")
    return body


def with_times(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return *filters* of schedules, as the client takes them. Raises InvalidSchedule."""
    return {**filters, **{name: aware(name, filters[name]) for name in _DUE & filters.keys()}}


def aware(name: str, text: Any) -> datetime | None:
    """Return an RFC 3339 time with an offset as a datetime. Raises InvalidSchedule."""
    at = rfc3339(name, text)
    if at is not None and at.utcoffset() is None:
        raise InvalidSchedule(name, text, "it has no offset", "give one such as 2026-12-24T18:00:00+09:00")
    return at


def around(name: str, text: str, now_ms: int, sign: int) -> datetime | None:
    """Return a time with an offset, or one a duration before (*sign* -1) or after *now_ms*. Raises InvalidSchedule."""
    if "T" in text:
        return aware(name, text)
    span = duration_argument(name, text)
    at_ms = now_ms + sign * round(span.total_seconds() * 1000)
    if not 0 <= at_ms <= LAST_MS:
        raise InvalidSchedule(name, text, "not a time from 1970 to 9999", "give a shorter duration")
    return from_ms(at_ms)


def rfc3339(name: str, value: Any) -> datetime | None:
    """Return an RFC 3339 time as a datetime; without an offset it is local in ``tz``. Raises InvalidSchedule."""
    if value is None:
        return None
    with suppress(ValueError, TypeError):
        if "T" in value:
            return datetime.fromisoformat(value)
    raise InvalidSchedule(name, value, "not a time", "give one such as 2026-12-24T18:00:00+09:00")


async def _whole(request: Request, most: int, remedy: str) -> bytes:
    _demand_plain(request)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > _LENGTH_DIGITS or int(length) > most):
        raise Problem(413, "too-large", "the body is too large", remedy)
    parts, size = list[bytes](), 0
    async with _in_time(request):
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise Problem(413, "too-large", "the body is too large", remedy)
            parts.append(part)
    return b"".join(parts)


async def _parts(request: Request) -> AsyncIterator[bytes]:
    """Yield the parts of the body. Each must come within [web] timeout_s."""
    _demand_plain(request)
    stream = aiter(request.stream())
    while True:
        async with _in_time(request):
            part = await anext(stream, None)
        if part is None:
            return
        yield part


def _demand_plain(request: Request) -> None:
    """Check that the body is not compressed. Raises Problem."""
    if (given := request.headers.get("content-encoding", "identity").lower()) != "identity":
        problem = f"a body with Content-Encoding {in_a_line(given)} is not read"
        raise Problem(415, "unsupported-encoding", problem, "send it unchanged", {"Accept-Encoding": "identity"})


@asynccontextmanager
async def _in_time(request: Request) -> AsyncIterator[None]:
    """Bound a read of the body by [web] timeout_s. Raises Problem: it is too slow, or the body ends too early."""
    try:
        async with asyncio.timeout(request.app.state.settings.web.timeout_s):
            yield
    except TimeoutError:
        remedy, headers = "send it without pauses, or raise [web] timeout_s", {"Connection": "close"}
        raise Problem(408, "too-slow", "the body came too slowly", remedy, headers) from None
    except ClientDisconnect:
        raise Problem(400, "not-json", "the body ended too early", "send it again") from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]}… is too large")
    return value


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        [(double, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {show(double)} is repeated")
    return found


def _demand_few_levels(found: Any) -> None:
    level = [found]
    for _ in range(_DEEPEST):
        parts = (each.values() if isinstance(each, dict) else each for each in level)
        level = [one for part in parts for one in part if isinstance(one, dict | list)]
        if not level:
            return
    raise ValueError(f"it has more than {_DEEPEST} levels")


_DECODER: Final = json.JSONDecoder(
    parse_constant=refuse_constant, parse_float=_finite, object_pairs_hook=_without_doubles
)
