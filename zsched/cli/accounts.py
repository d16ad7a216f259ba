"""Options, columns and backups of accounts, shared by ``zsched tokens`` and ``zsched users``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final, TypeVar

import click

from zsched.cli.program import DONE, FAILED, Invocation, connect
from zsched.cli.values import content, duration
from zsched.config.settings import Settings
from zsched.core.clock import SystemClock
from zsched.core.model import iso
from zsched.core.options.arguments import check_by
from zsched.core.wording import plural
from zsched.errors import ConfigError, ZschedError
from zsched.storage.accounts import Account, AccountRestored, AccountRole, Limits

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

COLUMNS: Final = ("NAME", "ROLE", "FUNCTIONS", "QUEUES", "TAGS", "ARGUMENTS", "EXPIRES")
_MS: Final = timedelta(milliseconds=1)
_ROLES: Final = click.Choice([role.value for role in AccountRole])
_EXPIRES: Final = "How long the account is valid, such as 90d; default: always."
_OPTIONS: Final = (
    click.option("--role", type=_ROLES, required=True, help="What the account may do."),
    click.option("--func", "funcs", multiple=True, metavar="GLOB", help="Only schedules whose functions all match."),
    click.option("--queue", "queues", multiple=True, metavar="GLOB", help="Only schedules of such a queue."),
    click.option("--tag", "tags", multiple=True, metavar="GLOB", help="Only schedules with such a tag."),
    click.option("--arguments", is_flag=True, help="Also read arguments, results and tracebacks."),
    click.option("--expires", type=duration, metavar="DURATION", help=_EXPIRES),
)
_REFUSED: Final = {
    AccountRestored.NAME_TAKEN: "another token has this name: revoke that one, then import again",
    AccountRestored.DIFFERENT: "it is there with another name, password, expiry or other rights, and stays so",
}


def account_options(function: F) -> F:
    """Add the options of an account to a command, for ``account_by``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def account_by(settings: Settings, name: str, given: dict[str, Any]) -> Account:
    """Return a new account *name* by the *given* options. Raises InvalidSchedule: nobody can have this name."""
    now_ms, expires = SystemClock().now_ms(), given["expires"]
    return Account(
        name=check_by(name),
        role=AccountRole(given["role"]),
        limits=Limits(given["funcs"], given["queues"], given["tags"]),
        sees_arguments=given["arguments"],
        created_ms=now_ms,
        created_by=connect(settings).by,
        expires_ms=None if expires is None else now_ms + expires // _MS,
    )


def account_row(account: Account) -> tuple[str, ...]:
    """Return the cells of an account under ``COLUMNS``."""
    limits = (account.limits.funcs, account.limits.queues, account.limits.tags)
    return (
        account.name,
        account.role.value,
        *(", ".join(patterns) or "all" for patterns in limits),
        "yes" if account.sees_arguments else "no",
        iso(account.expires_ms) or "never",
    )


def saved_lines(file: str, of: Callable[[bytes], T], account_of: Callable[[T], Account], noun: str) -> list[T]:
    """Return what the lines of a backup *file* have. Raises ConfigError: it cannot be read, or a line is no *noun*."""
    found, export = list[T](), f"the output of zsched {noun}s export"
    for number, line in enumerate(content(file, export).splitlines(), 1):
        if not line.strip():
            continue
        try:
            saved = of(line)
            check_by(account_of(saved).name)
        except (ValueError, KeyError, TypeError, ZschedError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            problem = f"not a {noun}: {reason}; nothing was imported; give {export}"
            raise ConfigError(f"{file}:{number}: {problem}") from None
        found.append(saved)
    return found


def answer_restored(invocation: Invocation, outcomes: Iterable[tuple[Account, AccountRestored]], noun: str) -> int:
    """Write what became of the accounts of a backup, and return the exit code: 1 if one was refused."""
    found = list(outcomes)
    count = Counter(outcome for _, outcome in found)
    values = [{"name": account.name, "result": outcome.value} for account, outcome in found]
    said = f"{plural(count[AccountRestored.ADDED], noun)} added, {count[AccountRestored.PRESENT]:,} there already"
    refused = [f"{account.name} is refused: {_REFUSED[outcome]}" for account, outcome in found if outcome in _REFUSED]
    invocation.answer(values, said)
    invocation.remark(*refused)
    return FAILED if refused else DONE
