"""``zsched doctor``: all checks of what zsched stands on, each with a verdict and a remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from zsched.cli.exits import DONE, UNHEALTHY
from zsched.cli.invocation import Invocation, echo_array, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.tables import lines
from zsched.core.wording import plural

if TYPE_CHECKING:
    from zsched.health.check import Finding

_HEADER = ("VERDICT", "CHECK", "FOUND")


@click.command(cls=Subcommand)
@click.option(
    "--role",
    "roles",
    type=click.Choice(["client", "daemon", "worker", "dashboard"]),
    multiple=True,
    default=["daemon"],
    show_default=True,
    help="What the user's rights are compared with; may be repeated.",
)
@click.option("--user", metavar="NAME", help="Whose rights, by ACL DRYRUN (Redis 7); else the connection's user's.")
@pass_invocation
def doctor(invocation: Invocation, roles: tuple[str, ...], user: str | None) -> int:
    """
    Look at everything that zsched stands on: Redis (version, role, eviction, memory, persistence, clock, the rights of
    its users, the Lua sandbox), files of passwords, the namespace (key types, format, daemons, archives, zone rules,
    leftovers) and RQ (workers, the queues in use, other schedulers); and all that `zsched status` judges. Each check
    says ok, warning, problem or skipped, and what to do.

    It writes nothing, needs no daemon, and no right but to read: what it may not ask is skipped, with the reason.
    Exit code 4 when there is a problem, 1 when Redis cannot be asked.

    \b
    Examples:
      zsched doctor
      zsched doctor --json | jq '.[] | select(.verdict != "ok")'
      zsched doctor --role client --user shop
    """
    from zsched.health.check import Severity
    from zsched.health.doctor import examine  # other commands need not wait for it
    from zsched.storage.connection import Link
    from zsched.storage.rights import Role

    settings = invocation.settings()
    redis = settings.redis
    link = Link.from_url(redis.url, redis.timeout_s, redis.read_password())
    findings = list(examine(settings, link, tuple(map(Role, roles)), user, config_file=invocation.config_file))
    if invocation.wants_json:
        echo_array(map(_to_dict, findings))
    else:
        invocation.answer(None, *lines(_HEADER, _rows(findings)), "", _summary(findings))
    is_unwell = any(finding.severity is Severity.PROBLEM for finding in findings)
    return UNHEALTHY if is_unwell else DONE


def _to_dict(finding: Finding) -> dict[str, str]:
    return {
        "check": finding.group,
        "verdict": finding.severity.value,
        "said": finding.text,
        "remedy": finding.remedy,
    }


def _rows(findings: list[Finding]) -> Iterator[tuple[str, str, str]]:
    """A line per finding, and below it what to do."""
    for finding in findings:
        yield finding.severity.value, finding.group, finding.text
        if finding.remedy:
            yield "", "", f"-> {finding.remedy}"


def _summary(findings: list[Finding]) -> str:
    """``1 problem, 2 warnings, 20 ok``."""
    count = Counter(finding.severity.value for finding in findings)
    parts = [plural(count[word], word) for word in ("problem", "warning") if count[word]]
    return ", ".join([*parts, *(f"{count[word]} {word}" for word in ("skipped", "ok") if count[word])])
