"""
Headers that make a request conditional (ETag, If-Match, If-None-Match), or safe to send again (Idempotency-Key).

The ETag of a schedule is its version and, where all of it is shown, a checksum of that: its next time changes without
its version. ``If-Match`` compares the version only.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from zlib import crc32

from fastapi import Request
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.core.options.arguments import VERSION
from zsched.storage.keys import keys_of
from zsched.web.access import Caller
from zsched.web.problems import Problem
from zsched.web.rendering import JsonAnswer

_KEY_BYTES: Final = 128  # of an Idempotency-Key
GIVE_A_KEY: Final = f"send Idempotency-Key with 1 to {_KEY_BYTES} bytes, such as a UUID"
_ETAG: Final = re.compile(r'"(.+?)(?:\.[0-9a-f]{8})?"')


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
    given = request.headers.get("if-none-match")
    if given not in (None, "*"):
        raise Problem(400, "bad-condition", f"If-None-Match: {given[:100]} is not *", "send If-None-Match: *, or none")
    return given is not None


def if_match(request: Request, options: Mapping[str, Any] | None = None) -> str | None:
    """
    Return the version in If-Match; None: there is none, as in If-Match: *. Raises Problem: *options* have one, too.
    """
    given = request.headers.get("if-match")
    if given is None:
        return None
    if options and options.get("if_version") is not None:
        raise Problem(400, "bad-condition", "If-Match and if_version are two conditions", "send one of them")
    if given == "*":
        return None
    if (found := _ETAG.fullmatch(given)) is None:
        raise Problem(400, "bad-condition", f"If-Match: {given[:100]} is not an ETag", 'send If-Match: "<version>"')
    return found[1]
