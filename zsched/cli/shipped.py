"""``zsched files``: what operators need beside the program, from the wheel or from a checkout."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

import click

from zsched.cli.lines import Table
from zsched.cli.program import DONE, Invocation, command

# By name, each with its purpose; pyproject.toml has their places in a checkout.
SHIPPED: Final = {
    "zsched.toml": "all settings, each with its unit and default",
    "schedules.toml": "schedules for `zsched apply`, as an example",
    "zsched.service": "systemd: a daemon",
    "zsched@.service": "systemd: more daemons on one machine",
    "zsched-web.service": "systemd: the console and the HTTP API",
    "zsched-web@.service": "systemd: more of them on one machine",
    "redis.conf": "settings of Redis",
    "users.acl": "users of Redis, for the namespace default; others: zsched acl",
    "prometheus.yml": "Prometheus: whom to scrape, as an example",
    "alerts.yml": "Prometheus: alerts",
    "alertmanager.yml": "Alertmanager: who gets which alert, as an example",
    "zsched.json": "Grafana: a dashboard to import",
}


@command("files")
@click.argument("name", required=False, type=click.Choice(list(SHIPPED)), metavar="[NAME]")
def shipped(invocation: Invocation, name: str | None) -> int:
    """
    List the files that operators need beside the program, or print the one with this NAME: units of systemd, settings,
    alerts. The command does not connect to Redis.

    \b
    Examples:
      zsched files
      zsched files zsched.service | sudo tee /etc/systemd/system/zsched.service
      zsched files alerts.yml > /etc/prometheus/rules/zsched.yml
    """
    if name is None:
        rows = [{"name": each, "about": about} for each, about in SHIPPED.items()]
        invocation.answer(rows, Table(("NAME", "WHAT IT IS"), SHIPPED.items()))
    else:
        invocation.answer({"name": name, "text": (text := _read(name))}, text.removesuffix("\n"))
    return DONE


def _read(name: str) -> str:
    """Return the text of a file."""
    in_wheel = resources.files("zsched") / "shipped" / name
    if in_wheel.is_file():
        return in_wheel.read_text()
    checkout = Path(__file__).parents[2]
    return next(path for place in ("config", "deploy") for path in (checkout / place).rglob(name)).read_text()
