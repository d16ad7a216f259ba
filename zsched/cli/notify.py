"""``zsched notify``: the sinks of the notifier, as the settings of this machine name them."""

from contextlib import closing
from typing import Final

import click

from zsched.cli.output import Table
from zsched.cli.program import Invocation, command, group
from zsched.core.clock import SystemClock
from zsched.notify.message import Message
from zsched.notify.sinks import sinks_of
from zsched.storage.archivers import SinkSeen
from zsched.storage.keys import keys_of
from zsched.storage.overview import read_overview

_COLUMNS: Final = ("NAME", "KIND", "ADDRESS", "ON", "LAST MESSAGE", "FAILS")


@group("notify")
def notify() -> None:
    """
    List the sinks of the notifier, [notify.<name>] in the daemons' settings, and send a test message to one. The leader
    tells them what failed, was lost or came too late, without being asked.

    \b
    Examples:
      zsched notify list -c /etc/zsched/zsched.toml
      zsched notify test ops -c /etc/zsched/zsched.toml
    """


@command("list", of=notify)
def list_(invocation: Invocation) -> None:
    """List the sinks of the leader and of these settings: the last message of each, and why one fails."""
    settings = invocation.settings()
    link = invocation.link(settings)
    told = {sink.name: sink for sink in read_overview(link, keys_of(settings)).sinks}
    own = sinks_of(settings.notify, settings.namespace)
    here = {sink.name: SinkSeen(sink.name, sink.kind, sink.address, sink.on) for sink in own}
    found = (here | told).values()
    rows = [
        (one.name, one.kind, one.address, ", ".join(one.on) or "health", one.last or "-", one.error or "-")
        for one in found
    ]
    nothing = "neither the leader nor these settings have a [notify.<name>]"
    invocation.answer([one.to_dict() for one in found], Table(_COLUMNS, rows, nothing=nothing))


@command(of=notify)
@click.argument("name")
def test(invocation: Invocation, name: str) -> int:
    """Send a test message to sink NAME, from here. Exit code 1: it was not taken; 3: there is no such sink."""
    settings = invocation.settings()
    sink = next((one for one in sinks_of(settings.notify, settings.namespace) if one.name == name), None)
    if sink is None:
        return invocation.result(name, "not_found")
    message = Message.of_test(settings.namespace, name, SystemClock().now_ms())
    with closing(sink):
        sink.send(message)
    return invocation.result(name, "sent", id=message.id)
