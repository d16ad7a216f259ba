"""Receivers of the notifier's messages: an HTTP server that checks signatures, and a mail server."""

import asyncio
import base64
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message as Mail
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.handlers import Message as MailHandler
from aiosmtpd.smtp import SMTP


@dataclass(frozen=True)
class Request:
    """One request, as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        """Return True if it is signed as Standard Webhooks 1.0 says."""
        key = base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        wanted = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
        return f"v1,{wanted}" == self.headers["webhook-signature"]


class Receiver:
    """An HTTP server on loopback. ``answer`` returns the status and the body of the answer to a request."""

    def __init__(self) -> None:
        self.seen: list[Request] = []  # in order
        self.taken: list[Request] = []  # those that were answered with success
        self.answer: Callable[[Request], tuple[int, bytes]] = lambda request: (200, b"ok")
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer is one packet: two wait for each other

            def _take(self) -> None:
                length = int(self.headers.get("content-length", 0))
                body = self.rfile.read(length)
                if len(body) < length:  # its sender was killed
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, body)
                receiver.seen.append(request)
                status, said = receiver.answer(request)
                if status < 300:
                    receiver.taken.append(request)
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_DELETE = _take

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda request, address: None  # type: ignore[method-assign]  # a client has left
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages that were taken, without repeats of an id."""
        return list({one.json["id"]: one.json for one in self.taken}.values())


@contextmanager
def mail_server(host: str = "127.0.0.1") -> Iterator[tuple[str, list[Mail]]]:
    """A mail server on a loopback address: its URL, and the mails that it took."""
    mails: list[Mail] = []

    class Kept(MailHandler):
        def handle_message(self, message: Mail) -> None:
            mails.append(message)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    server = run(loop.create_server(lambda: SMTP(Kept()), host, 0))
    yield f"smtp://{host}:{server.sockets[0].getsockname()[1]}", mails
    loop.call_soon_threadsafe(server.close)  # in its own thread: it looks at the connections
    run(server.wait_closed())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
