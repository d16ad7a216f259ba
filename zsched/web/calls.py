"""
Parts that routes share: the caller, the body of a change, and parameters of the query and of the path; and headers that
make a request conditional (ETag, If-Match, If-None-Match), or safe to send again (Idempotency-Key).

The ETag of a schedule is its version and, where all of it is shown, a checksum of that: its next time changes without
its version. ``If-Match`` compares the version only.
"""

import hashlib
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, Final
from zlib import crc32

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.routing import APIRoute
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.config.parsing import suggest
from zsched.core.options.arguments import VERSION, FacetFilters
from zsched.core.options.forms import SCHEDULE_ID
from zsched.core.wording import in_a_line
from zsched.errors import InvalidSchedule
from zsched.storage.keys import keys_of
from zsched.web.access import Caller
from zsched.web.answers import JsonAnswer, Problem, bad_parameter
from zsched.web.reading import only, read_object

_KEY_BYTES: Final = 128  # of an Idempotency-Key
GIVE_A_KEY: Final = f"send Idempotency-Key with 1 to {_KEY_BYTES} bytes, such as a UUID"
_ETAG: Final = re.compile(r'"(.+?)(?:\.[0-9a-f]{8})?"')


async def admitted(request: Request) -> Caller:
    """
    Return the caller of *request*. Raises Problem, also for a parameter of the query that the route does not have: with
    a typing error in a filter, all would be found.
    """
    found: Caller = request.app.state.access.caller(request)
    given, route = request.query_params, request.scope["route"]
    for name in given.keys() - route.known if isinstance(route, PlainRoute) else ():  # pages have others
        remedy = suggest(name, sorted(route.known)) if route.known else "give none"
        raise bad_parameter(InvalidSchedule(in_a_line(name), given[name], "no such parameter", remedy))
    return found


Admitted = Annotated[Caller, Depends(admitted)]


async def changing(request: Request, call: Admitted) -> dict[str, Any]:
    """Return the body of a change: its members are those that the route describes. Raises Problem, InvalidSchedule."""
    call.demand_write()
    [content] = request.scope["route"].openapi_extra["requestBody"]["content"].values()
    return only(await read_object(request), *content["schema"]["properties"])


Body = Annotated[dict[str, Any], Depends(changing)]


class PlainRoute(APIRoute):
    """
    A route whose endpoint takes the request, the caller, the body, and texts of the path. FastAPI describes it, but
    does not solve its dependencies, as there is nothing else to solve: that would take a fifth of the time of a PUT
    (measured).
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler; that of FastAPI for a route with other parameters."""
        named = self.dependant
        self.known = {field.alias for each in (named, *named.dependencies) for field in each.query_params}
        if named.query_params or named.header_params or named.cookie_params or named.body_params:
            return super().get_route_handler()
        endpoint, request_name = self.endpoint, named.request_param_name
        has_body = any(each.name == "body" for each in named.dependencies)

        async def handle(request: Request) -> Response:
            call = await admitted(request)
            given = {**request.path_params, "call": call}
            if has_body:
                given["body"] = await changing(request, call)
            if request_name is not None:
                given[request_name] = request
            answer: Response = await endpoint(**given)
            return answer

        return handle


def routes(tag: str) -> APIRouter:
    """Return a router for routes of the API."""
    return APIRouter(tags=[tag], route_class=PlainRoute)


class PlainConvertor(StringConvertor):
    """A part of a path without a colon, which begins a custom method: else ``{id}`` would also match ``a:pause``."""

    regex = "[^/:]+"


register_url_convertor("plain", PlainConvertor())  # before the routes, which name it

PathId = Annotated[str, Path(json_schema_extra=SCHEDULE_ID.schema)]
QueryText = Annotated[str | None, Query()]
QueryTime = Annotated[str | None, Query(description="RFC 3339, with an offset.")]


# A plain function would run in a thread, and FastAPI gives the thread pool an argument called func.
async def _filters(
    match: QueryText = None, func: QueryText = None, queue: QueryText = None, tag: QueryText = None,
    name: QueryText = None, owner: QueryText = None,
) -> FacetFilters:  # fmt: skip
    return FacetFilters(match=match, func=func, queue=queue, tag=tag, name=name, owner=owner)


Filters = Annotated[FacetFilters, Depends(_filters)]


# -- conditions -------------------------------------------------------------------------------------


def tagged(answer: JsonAnswer, version: str | None) -> JsonAnswer:
    """Return *answer*, which shows a schedule of *version*, with its ETag."""
    answer.headers.update(etag(version, f".{crc32(answer.body):08x}"))
    return answer


def unless_known(request: Request, answer: Response) -> Response:
    """Return *answer*, or 304 if the caller has it already: If-None-Match names its ETag."""
    tag = answer.headers.get("etag")
    known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
    return answer if tag is None or known.isdisjoint({"*", tag}) else Response(status_code=304, headers={"ETag": tag})


def etag(version: str | None, end: str = "") -> dict[str, str]:
    """Return a version as a header, unless another program wrote it and it cannot be one."""
    is_usable = version is not None and VERSION.fullmatch(version) and '"' not in version
    return {"ETag": f'"{version}{end}"'} if is_usable else {}


async def operation_of(request: Request, call: Caller, asked: dict[str, Any]) -> tuple[str | None, str]:
    """
    Return the id of the operation of what is *asked* by its Idempotency-Key (None: there is none), and that of a
    schedule that it makes: of caller and key only, so another request with the key meets it. ``state.is_replay`` of the
    request is True if it was done before. Raises Problem.
    """
    key, state = request.headers.get("idempotency-key"), request.app.state
    request.state.is_replay = False
    if key is None:
        return None, ""
    if not 1 <= len(key.encode()) <= _KEY_BYTES or not key.isprintable():
        raise Problem(400, "bad-idempotency-key", "Idempotency-Key is empty, too long or not printable", GIVE_A_KEY)
    own = hashlib.sha256(f"{call.account.name}\0{key}".encode()).hexdigest()
    op = hashlib.sha256(f"{own}\0{json.dumps(asked, sort_keys=True)}".encode()).hexdigest()[:32]
    request.state.is_replay = await run(state.link.execute, "EXISTS", keys_of(state.settings).op(op)) == 1
    return op, own[:32]


def only_creates(request: Request) -> bool:
    """Return True for If-None-Match: *. Raises Problem for any other condition of that header."""
    if (given := request.headers.get("if-none-match")) not in (None, "*"):
        raise Problem(400, "bad-condition", f"If-None-Match: {given[:100]} is not *", "send If-None-Match: *, or none")
    return given is not None


def if_match(request: Request, options: Mapping[str, Any] | None = None) -> str | None:
    """
    Return the version in If-Match; None: there is none, as in If-Match: *. Raises Problem: *options* have one, too.
    """
    if (given := request.headers.get("if-match")) is None:
        return None
    if options and options.get("if_version") is not None:
        raise Problem(400, "bad-condition", "If-Match and if_version are two conditions", "send one of them")
    if given == "*":
        return None
    if (found := _ETAG.fullmatch(given)) is None:
        raise Problem(400, "bad-condition", f"If-Match: {given[:100]} is not an ETag", 'send If-Match: "<version>"')
    return found[1]
