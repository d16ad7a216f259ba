"""Parts that routes share: the caller, the body of a change, and parameters of the query and of the path."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.routing import APIRoute
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from zsched.core.options.arguments import FacetFilters
from zsched.core.options.forms import SCHEDULE_ID
from zsched.core.wording import in_a_line
from zsched.errors import InvalidSchedule
from zsched.web.access import Caller
from zsched.web.problems import bad_parameter
from zsched.web.reading import only, read_object


async def admitted(request: Request) -> Caller:
    """
    Return the caller of *request*. Raises Problem, also for a parameter of the query that the route does not have: with
    a typing error in a filter, all would be found.
    """
    found: Caller = request.app.state.access.caller(request)
    given, route = request.query_params, request.scope["route"]
    for name in given.keys() - route.known if isinstance(route, PlainRoute) else ():  # pages have others
        near = get_close_matches(name, route.known, 1, 0.6)
        remedy = f"did you mean {near[0]}?" if near else f"give {', '.join(sorted(route.known)) or 'none'}"
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
