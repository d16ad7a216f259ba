"""The surroundings of a command: the settings in force, a client, and ways to answer and to remark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import click

from zsched import config
from zsched.cli.texts import printable
from zsched.client import Client
from zsched.config import Settings


@dataclass
class Invocation:
    """
    One call of zsched. ``given`` are the shared options by name, from before and after the command; the
    later one wins. Nothing is read or connected before a command asks.
    """

    given: dict[str, Any] = field(default_factory=dict)

    @property
    def wants_json(self) -> bool:
        """True if results are to be JSON."""
        return bool(self.given.get("json"))

    @property
    def config_file(self) -> str | None:
        """Path of the configuration file, or None."""
        return self.given.get("config") or os.environ.get(config.FILE_VARIABLE) or None

    def settings(self) -> Settings:
        """Defaults < file < environment < options. Raises ConfigError."""
        flags = {"redis.url": self.given.get("redis_url"), "namespace": self.given.get("namespace")}
        return config.load_settings(self.given.get("config"), flags=flags)

    def client(self) -> Client:
        """A client by those settings. Raises ConfigError."""
        return connect(self.settings())

    def answer(self, value: Any, *lines: str) -> None:
        """Tell one result: *value* as JSON, else *lines*."""
        if self.wants_json:
            click.echo(json.dumps(value))
        else:
            for line in lines:
                click.echo(line)


def connect(settings: Settings) -> Client:
    """A client by the settings; no connection is made yet. Raises ConfigError."""
    redis = settings.redis
    return Client.from_url(
        redis.url,
        settings.namespace,
        timeout_s=redis.timeout_s,
        password=redis.read_password(),
        serializer=settings.rq.serializer,
        payload_limit=settings.limits.payload_bytes,
        urgencies=settings.urgencies,
    )


def echo_array(values: Iterable[Any]) -> None:
    """One JSON array on stdout, an element a line, written as *values* come: a cut-off one is no JSON."""
    separator = "[\n"
    for value in values:
        click.echo(separator + json.dumps(value), nl=False)
        separator = ",\n"
    click.echo("[]" if separator == "[\n" else "\n]")


def say(text: str) -> None:
    """A remark beside the answer: one line to stderr."""
    click.echo(f"zsched: {printable(text)}", err=True)


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)
