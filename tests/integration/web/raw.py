"""HTTP by hand: requests that are cut, too slow, too large or malformed; and what the server's process costs."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.builders.web import Web
from tests.waiting import WITHIN_S


class Answer(NamedTuple):
    """An answer of the API."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class Api:
    """A connection that is kept, for many small requests: it costs a third of what httpx does."""

    def __init__(self, web: Web, secret: str) -> None:
        self._connection = HTTPConnection(*address_of(web), timeout=WITHIN_S)
        self._secret = secret

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Return the answer to a request; *headers* are written with _ for -."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        text = None if body is None else json.dumps(body)
        sent = {"Authorization": f"Bearer {self._secret}", **given}
        self._connection.request(method, f"/api/v1{path}", text, sent)
        answer = self._connection.getresponse()
        found = answer.read().decode()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, found)


def address_of(web: Web) -> tuple[str, int]:
    host, _, port = web.url.removeprefix("http://").rpartition(":")
    return host, int(port)


def connected(web: Web, receive_bytes: int | None = None) -> socket.socket:
    """Return a new connection; *receive_bytes*: the size of its buffer for what the server sends."""
    made = socket.socket()
    if receive_bytes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.settimeout(WITHIN_S)
    made.connect(address_of(web))
    return made


def head(method: str, path: str, secret: str, *headers: str) -> bytes:
    """Return the header of a request, with its empty line."""
    lines = [f"{method} /api/v1{path} HTTP/1.1", "Host: x", f"Authorization: Bearer {secret}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def put_bytes(path: str, secret: str, body: Any, *headers: str) -> bytes:
    """Return a whole PUT."""
    text = json.dumps(body).encode()
    return head("PUT", path, secret, f"Content-Length: {len(text)}", *headers) + text


def cut(one: socket.socket) -> None:
    """End a connection at once, as a killed client or a lost network does: what was sent may be lost, too."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()


def status_of(one: socket.socket) -> int:
    """Return the status of the answer that comes; 0: the connection ended without one."""
    found = b""
    while b"\r\n" not in found:
        try:
            part = one.recv(4096)
        except ConnectionError:
            return 0
        if not part:
            return 0
        found += part
    return int(found.split()[1])


def read_until(one: socket.socket, text: bytes) -> None:
    """Read until *text* has come."""
    found = b""
    while text not in found:
        part = one.recv(65_536)
        assert part, found
        found = found[-len(text) :] + part


def rest_of(one: socket.socket) -> bytes:
    """Return all that comes until the connection ends."""
    return b"".join(_parts(one))


def _parts(one: socket.socket) -> Iterator[bytes]:
    try:
        while part := one.recv(65_536):
            yield part
    except ConnectionError:
        return


def is_ended(one: socket.socket) -> bool:
    """Return True if the other side has ended the connection. What came before is dropped."""
    try:
        while one.recv(65_536, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def refused(answer: httpx.Response, *statuses: int) -> Any:
    """Return the problem of an answer that has one of *statuses*, and is short."""
    assert answer.status_code in statuses, answer.text[:500]
    assert "application/problem+json" == answer.headers["content-type"]
    assert len(answer.content) < 20_000
    problem = answer.json()
    assert answer.status_code == problem["status"]
    return problem


def peak_kib(web: Web) -> int:
    """Return the most memory that the server's process has had, in KiB."""
    status = Path(f"/proc/{web.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
