"""``zsched tokens``: the accounts of ``zsched web``: added, listed, changed, revoked."""

from datetime import timedelta
from typing import Any, Final

import click

from zsched.cli.output import Table
from zsched.cli.parameters import duration, moment, moment_at
from zsched.cli.program import Invocation, command, group
from zsched.client.calls import caller
from zsched.core.clock import SystemClock, to_ms
from zsched.core.model import iso
from zsched.core.options.allowed import Limits
from zsched.core.options.arguments import check_by
from zsched.web.accounts import Account, AccountRole
from zsched.web.accounts_file import ADD, accounts_file

_COLUMNS: Final = ("NAME", "ROLE", "FUNCTIONS", "QUEUES", "TAGS", "ARGUMENTS", "EXPIRES", "LAST USE")
_ROLES: Final = click.Choice([role.value for role in AccountRole])


@group("tokens")
def tokens() -> None:
    """
    Add, list, set and revoke the accounts of `zsched web`: each is a token with a name, a role, limits and an expiry.
    Their file is [web] accounts_file. Run this on the web server's machine, as its user or as root.

    \b
    Examples:
      zsched tokens add ann --role operator --arguments
      zsched tokens set ann --expires 90d
    """


@command(of=tokens)
@click.argument("name")
@click.option("--role", type=_ROLES, required=True, help="What the account may do.")
@click.option("--func", "funcs", multiple=True, metavar="GLOB", help="Only schedules whose functions all match.")
@click.option("--queue", "queues", multiple=True, metavar="GLOB", help="Only schedules of such a queue.")
@click.option("--tag", "tags", multiple=True, metavar="GLOB", help="Only schedules with such a tag.")
@click.option("--arguments", is_flag=True, help="Also read arguments, results and tracebacks.")
@click.option("--expires", type=duration, metavar="DURATION", help="How long it is valid, such as 90d; default always.")
def add(
    invocation: Invocation, /, name: str, role: str, arguments: bool, expires: timedelta | None, **given: Any
) -> None:
    """
    Add account NAME and print its token, which is shown only here. Roles: viewer reads; scheduler also changes
    schedules and runs; operator may do everything. The patterns limit it; each may be repeated.

    \b
    Examples:
      zsched tokens add ann --role operator --arguments
      zsched tokens add shop --role scheduler --func 'app.tasks.*' --queue 'shop-*' --expires 90d
    """
    settings, now_ms = invocation.settings(), SystemClock().now_ms()
    account = Account(
        name=check_by(name),
        role=AccountRole(role),
        limits=Limits(**given),
        sees_arguments=arguments,
        created_ms=now_ms,
        created_by=caller(settings.by),
        expires_ms=None if expires is None else now_ms + expires // timedelta(milliseconds=1),
    )
    file = accounts_file(settings)
    secret = file.add(account)
    invocation.answer({**account.to_dict(), "token": secret}, secret)
    invocation.remark(f"{name} has the role {role}, in {file.path}. The token is shown only now.")


@command("list", of=tokens)
def list_(invocation: Invocation) -> None:
    """List the accounts with their role, limits, expiry and last use. The tokens themselves are stored nowhere."""
    file = accounts_file(invocation.settings())
    found = file.with_uses(file.read())
    values = ({**account.to_dict(), "used_at": iso(used_ms)} for account, used_ms in found)
    nothing = f"no account in {file.path}; {' '.join(ADD)} adds one"
    invocation.answer(values, Table(_COLUMNS, [_cells(*each) for each in found], nothing=nothing))


@command("set", of=tokens)
@click.argument("name")
@click.option("--expires", required=True, metavar="WHEN", help="A duration from now on, a time, or never.")
def set_(invocation: Invocation, name: str, expires: str) -> int:
    """Set the expiry of account NAME."""
    given = None if expires == "never" else moment(expires)
    at = moment_at(-given if isinstance(given, timedelta) else given, "expires", None)
    at_ms = None if at is None else to_ms(at)
    was_there = accounts_file(invocation.settings()).expire(name, at_ms)
    return invocation.result(name, "set" if was_there else "not_found", expires_at=iso(at_ms))


@command(of=tokens)
@click.argument("name")
def revoke(invocation: Invocation, name: str) -> int:
    """Revoke account NAME: its token and its sessions end at once."""
    was_there = accounts_file(invocation.settings()).revoke(name)
    return invocation.result(name, "revoked" if was_there else "not_found")


def _cells(account: Account, used_ms: int | None) -> tuple[str, ...]:
    return (
        account.name,
        account.role.value,
        *(", ".join(patterns) or "all" for patterns in account.limits),
        "yes" if account.sees_arguments else "no",
        iso(account.expires_ms) or "never",
        iso(used_ms) or "-",
    )
