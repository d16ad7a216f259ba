"""
The dashboard as a process: where it listens, and how it ends.

waitress serves it: a server made for production that is one small package of Python, runs threads in this one process,
and leaves signals alone. It speaks plain HTTP; for TLS a proxy stands before it.
"""

from __future__ import annotations

import logging
import os
import socket
from contextlib import suppress

import waitress.server
from flask import Flask

from zsched.errors import ConfigError

_THREADS = 8  # a browser asks for six things at once, and people who look are few
_BODY_BYTES = 4096  # of a request, which waitress takes before it asks who sends it; a page needs none


def resolve(listen: str) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """
    Family and address of ``host:port``.

    Raises:
        ConfigError: no such host.
    """
    host, _, port = listen.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(f"listen={listen!r}: {error.strerror}; give an address of this machine") from error
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


class DashboardServer:
    """Listens from when it is made, answers while ``run`` does."""

    def __init__(self, app: Flask, family: socket.AddressFamily, address: tuple[str, int]) -> None:
        """Raises ConfigError: somebody else listens at *address*, or it is not of this machine."""
        try:
            self._socket = socket.create_server(address, family=family)
        except OSError as error:
            remedy = "give another port or address by --listen or in [dashboard] listen"
            raise ConfigError(f"listen={_host_port(*address)!r}: {os.strerror(error.errno or 0)}; {remedy}") from error
        # It warns whenever more is asked for at once than it has threads; here that only takes a moment longer.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._server = waitress.server.create_server(
            app, sockets=[self._socket], threads=_THREADS, max_request_body_size=_BODY_BYTES, ident=None
        )

    @property
    def url(self) -> str:
        """The dashboard's URL for a browser on this machine."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{_host_port(host, port)}/"

    def run(self) -> None:
        """Answer until KeyboardInterrupt; what is being answered then is, within five seconds."""
        with suppress(KeyboardInterrupt):  # waitress takes it only while it waits
            self._server.run()
        self._server.close()


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
