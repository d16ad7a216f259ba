"""The routes of the HTTP API: what a limited account may do there, which of them write, and what they log."""

from typing import Any

import fastapi.routing

from zsched.aio.link import AsyncLink
from zsched.config.settings import Settings
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.web.app import PREFIX, make_api

LIMITS = {"funcs": ("app.mail.*",), "queues": ("mail",), "tags": ("shop",)}
WITHIN: dict[str, Any] = {"func": "app.mail.send", "after": 3600, "queue": "mail", "tags": ["shop"]}
READS = {"GET", "HEAD", "OPTIONS"}
READING_POSTS = {"/preview"}


def entries_by(name: str, link: Link) -> list[str]:
    """Return the kinds of the entries of the log that the account *name* wrote; a daemon writes its own meanwhile."""
    return [entry.kind for entry in Log(link, Keys("default")).entries() if entry.by == name.encode()]


def write_routes() -> list[tuple[str, str]]:
    """Return method and path of each route that writes, without the prefix."""
    app = make_api(Settings(), AsyncLink.from_url("redis://127.0.0.1:1", 1))
    routes: Any = getattr(fastapi.routing, "iter_route_contexts", iter)(app.routes)  # included routers
    found = [(method, path_of(route)) for route in routes for method in getattr(route, "methods", None) or ()]
    return sorted((method, path) for method, path in found if path and is_write(method, path))


def path_of(route: Any) -> str:
    """Return the path of *route* in the document, without the prefix; "" if it is not of the API."""
    path = str(route.path_format)
    return path.removeprefix(PREFIX) if path.startswith(f"{PREFIX}/") else ""


def is_write(method: str, path: str) -> bool:
    return method.upper() not in READS and path not in READING_POSTS
