"""``zsched status`` and ``zsched doctor``, which check the health, and ``zsched ack``: failures that are known."""

import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click
from click.exceptions import Exit

from zsched.cli.formats import due_text
from zsched.cli.output import Style, Table, TableRow, printable, say_lines
from zsched.cli.parameters import duration, zone_option
from zsched.cli.program import DONE, UNHEALTHY, Invocation, command
from zsched.cli.status_screen import status_lines, watch
from zsched.config.settings import Settings
from zsched.core.wording import plural
from zsched.errors import ArchiveError, RedisUnavailable
from zsched.health.facts import Finding, Severity
from zsched.health.status import looking
from zsched.health.verdict import causes_of
from zsched.storage.rights import USERS

_EVERY_S = 2.0  # between two looks
_KNOWN: Final = ("NAME", "FUNCTION", "ERROR", "UNTIL", "BY", "NOTE")


@command()
@click.option("--watch", "is_watched", is_flag=True, help="Live on this terminal, until Ctrl-C; needs zsched[ops].")
@click.option(
    "--every", type=click.FloatRange(0.2, 3600), metavar="SECONDS", help=f"With --watch; default {_EVERY_S:g}."
)
@zone_option()
def status(invocation: Invocation, /, is_watched: bool, every: float | None, tz: str) -> int:
    """
    Show a verdict: healthy, or each problem with its remedy. Below it: daemons, backlog, activity, next fires, failures
    and archives. It reads only Redis. The exit code is 4 when there is an alarm or Redis cannot be reached; warnings
    leave it at 0. docs/reference/status.md has the names of both, and the keys of --json.

    \b
    Examples:
      zsched status --watch --tz Asia/Seoul
      zsched status --json | jq .problems
    """
    if is_watched and invocation.wants_json:
        raise click.UsageError("--watch and --json contradict each other; give one of them")
    if is_watched and not sys.stdout.isatty():
        raise click.UsageError("--watch shows a live screen, and stdout is not a terminal; leave --watch out")
    if every is not None and not is_watched:
        raise click.UsageError("--every is the interval of --watch; give both, or neither")
    settings = invocation.settings()
    look = looking(settings, invocation.link(settings))
    if is_watched:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # the terminal is restored then, too
        watch(lambda: status_lines(look(), tz), every or _EVERY_S, tz)
        return DONE
    with reaching(invocation, lambda: _by_archive(settings, tz)):
        view = look()
    invocation.answer(view.to_dict(), *status_lines(view, tz), tz=tz)
    return DONE if view.verdict.is_healthy else UNHEALTHY


@contextmanager
def reaching(
    invocation: Invocation, instead: Callable[[], tuple[dict[str, Any], Sequence[str]]] = lambda: ({}, ())
) -> Iterator[None]:
    """
    Report an unreachable Redis with the remedy, and exit as UNHEALTHY: checks count it as a problem. *instead*: returns
    more about it, for JSON and for people.
    """
    try:
        yield
    except RedisUnavailable as error:
        keys, lines = instead()
        invocation.tell_error(error.problem, error, **keys)
        if not invocation.wants_json:
            say_lines("  nothing is lost; daemons continue when Redis answers", *lines)
        raise Exit(UNHEALTHY) from None


def _by_archive(settings: Settings, tz: str) -> tuple[dict[str, Any], Sequence[str]]:
    """Return what an archive on this disk knows, or whom to ask, for JSON and for people."""
    from zsched.cli.archived import ArchivedState  # other answers need no archive

    try:
        state = ArchivedState.here(settings)
    except ArchiveError as error:
        return {"archived": None, "archive_problem": str(error)}, (str(error),)
    return {"archived": state.to_dict(), "archive_problem": None}, list(state.lines(tz))


@command()
@click.option("--func", metavar="GLOB", help="Of functions like this.")
@click.option("--error", metavar="GLOB", help="With errors like this, as zsched history shows them.")
@click.option("--for", "for_", type=duration, metavar="DURATION", help="How long, 90d at most; default 7d.")
@click.option("--note", metavar="TEXT", help="Why, one line.")
@click.option("--remove", metavar="NAME", help="Take it back.")
@zone_option()
def ack(invocation: Invocation, /, remove: str | None, tz: str, **given: Any) -> int:
    """
    Make failures known: `zsched status` and messages leave them out for a time; history and counts show them. They are
    failed, lost or refused runs that match both globs. The same globs again replace time and note. Without options,
    list them. Exit code 3: --remove finds nothing.

    \b
    Examples:
      zsched ack --func 'app.mail.*' --error 'SMTPServerDisconnected*' --for 2d --note 'the provider mends it'
      zsched ack
      zsched ack --remove 0f5a1c77
    """
    client, given = invocation.client(), {name: value for name, value in given.items() if value is not None}
    if remove is not None and given:
        raise click.UsageError("--remove takes one back, and the other options make one; give --remove alone")
    if remove is not None:
        return invocation.result(remove, "removed" if client.remove_ack(remove) else "not_found")
    found = [client.ack(**given)] if given else client.known_failures()
    cells = ((one.func or "*", one.error or "*", due_text(one.until_ms, tz), one.by, one.note) for one in found)
    rows = [(one.name, *map(printable, each)) for one, each in zip(found, cells, strict=True)]
    answer = [one.to_dict() for one in found]
    nothing = "no failure is known; zsched ack --func GLOB --error GLOB makes some so"
    invocation.answer(answer[0] if given else answer, Table(_KNOWN, rows, nothing=nothing), tz=tz)
    return DONE


# -- zsched doctor ----------------------------------------------------------------------------------


_HEADER = ("VERDICT", "CHECK", "FOUND")
_STYLES: Final = {"problem": Style.BAD, "warning": Style.WARNING, "ok": Style.PLAIN}


@command()
@click.option(
    "--role",
    "roles",
    type=click.Choice(["client", "daemon", "worker", "scheduling-worker", "web"]),
    multiple=True,
    default=["daemon"],
    show_default=True,
    help="Check the rights that this kind of process needs; may be repeated.",
)
@click.option("--user", metavar="NAME", help="Check this user's rights (Redis 7); default: the connection's user.")
@click.option("--deep", is_flag=True, help="Also compare each schedule with its history in an archive on this disk.")
def doctor(invocation: Invocation, roles: tuple[str, ...], user: str | None, deep: bool) -> int:
    """
    Check all that `zsched status` checks, and the surroundings: Redis and the rights of its users, files with
    passwords, RQ; with --role web also the HTTP API. It writes nothing. A check without its right is skipped. The exit
    code is 4 when there is a problem, or Redis cannot be reached.

    \b
    Examples:
      zsched doctor
      zsched doctor --deep
      zsched doctor --json | jq '.[] | select(.verdict != "ok")'
      zsched doctor --role client --user shop
    """
    from zsched.health.doctor import examine  # other commands need not wait for it

    settings = invocation.settings()
    link, asked = invocation.link(settings), tuple(role for name in roles for role in USERS[f"zsched-{name}"])
    with reaching(invocation):
        findings = causes_of(examine(settings, link, asked, user, config_file=invocation.config_file))
        if deep:
            from zsched.cli.archived import deep_findings

            findings += deep_findings(settings, link)
    invocation.answer(map(_to_dict, findings), Table(_HEADER, _rows(findings)), "", _summary(findings))
    return UNHEALTHY if any(finding.severity is Severity.PROBLEM for finding in findings) else DONE


def _to_dict(finding: Finding) -> dict[str, str]:
    return {"check": finding.group, "verdict": finding.severity.value, "said": finding.text, "remedy": finding.remedy}


def _rows(findings: list[Finding]) -> Iterator[TableRow]:
    """Yield a line per finding, and its remedy below; several skipped checks have one line, the last."""
    skipped = [finding for finding in findings if finding.severity.value == "skipped"]
    for finding in findings if len(skipped) < 2 else [each for each in findings if each not in skipped]:
        style = _STYLES.get(finding.severity.value, Style.PLAIN)
        yield TableRow((finding.severity.value, finding.group, finding.text), style)
        if finding.remedy:
            yield TableRow(("", "", f"→ {finding.remedy}"))
    if len(skipped) > 1:
        yield TableRow(("skipped", f"{len(skipped)} checks", ", ".join(dict.fromkeys(one.group for one in skipped))))
        yield TableRow(("", "", "→ zsched doctor --json says why; the operator of users.acl may ask for all"))


def _summary(findings: list[Finding]) -> str:
    """``1 problem, 2 warnings, 20 ok``."""
    count = Counter(finding.severity.value for finding in findings)
    parts = [plural(count[word], word) for word in ("problem", "warning", "note") if count[word]]
    return ", ".join([*parts, *(f"{count[word]} {word}" for word in ("skipped", "ok") if count[word])])
