"""The options and the columns of accounts, shared by ``zsched tokens`` and ``zsched users``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import click

from zsched.cli.program import connect
from zsched.cli.values import duration
from zsched.config import Settings
from zsched.core.arguments import check_by
from zsched.core.clock import SystemClock
from zsched.core.model import iso
from zsched.storage.accounts import Account, AccountRole, Limits

F = TypeVar("F", bound=Callable[..., Any])

COLUMNS: Final = ("NAME", "ROLE", "FUNCTIONS", "QUEUES", "TAGS", "ARGUMENTS", "EXPIRES")
_MS: Final = timedelta(milliseconds=1)
_ROLES: Final = click.Choice([role.value for role in AccountRole])
_EXPIRES: Final = "How long the account is valid, such as 90d; default: always."
_OPTIONS: Final = (
    click.option("--role", type=_ROLES, required=True, help="What the account may do."),
    click.option("--func", "funcs", multiple=True, metavar="GLOB", help="Only schedules of such a function."),
    click.option("--queue", "queues", multiple=True, metavar="GLOB", help="Only schedules of such a queue."),
    click.option("--tag", "tags", multiple=True, metavar="GLOB", help="Only schedules with such a tag."),
    click.option("--arguments", is_flag=True, help="Also read arguments, results and tracebacks."),
    click.option("--expires", type=duration, metavar="DURATION", help=_EXPIRES),
)


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
