"""``zsched tokens``: the tokens of the HTTP API: made, listed, revoked."""

from __future__ import annotations

from typing import Any

import click

from zsched.cli.accounts import COLUMNS, account_by, account_options, account_row
from zsched.cli.program import DONE, NOT_FOUND, Invocation, Subcommand, pass_invocation
from zsched.core.model import iso
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.tokens import Tokens


@click.group("tokens", params=Subcommand(None).params, context_settings={"help_option_names": ["-h", "--help"]})
def tokens() -> None:
    """
    Make, list and revoke the tokens of `zsched web`. They lie outside of the keys that services may write, so this
    needs a user of Redis such as `operator` of deploy/redis/users.acl.

    \b
    Examples:
      zsched tokens add grafana --role viewer
      zsched tokens add shop --role scheduler --func 'app.tasks.*' --queue 'shop-*' --expires 90d
    """


@tokens.command(cls=Subcommand)
@click.argument("name")
@account_options
@pass_invocation
def add(invocation: Invocation, /, name: str, **given: Any) -> int:
    """
    Make token NAME and print it. It is shown only here: Redis keeps its SHA-256. The log has NAME for what it changes.

    Roles: viewer reads; scheduler also changes schedules and runs; operator may do everything. The patterns limit both
    what it reads and what it changes; each may be repeated.

    \b
    Example:
      zsched tokens add shop --role scheduler --func 'app.tasks.*' --queue 'shop-*' --expires 90d
    """
    settings = invocation.settings()
    account = account_by(settings, name, given)
    secret = Tokens(link_of(settings), keys_of(settings)).add(account)
    invocation.answer({**account.to_dict(), "token": secret}, secret)
    invocation.remark(f"{name} has the role {account.role}. The token is shown only now.")
    return DONE


@tokens.command("list", cls=Subcommand)
@pass_invocation
def list_(invocation: Invocation) -> int:
    """List the tokens with their role, limits, expiry and last use. The tokens themselves are stored nowhere."""
    settings = invocation.settings()
    found = [(account, iso(used_ms)) for _, account, used_ms in Tokens(link_of(settings), keys_of(settings)).all()]
    values = [{**account.to_dict(), "used_at": used_at} for account, used_at in found]
    rows = [(*account_row(account), used_at or "-") for account, used_at in found]
    nothing = "no tokens; zsched tokens add NAME --role viewer makes one"
    invocation.answer_rows(values, (*COLUMNS, "LAST USE"), rows, nothing=nothing)
    return DONE


@tokens.command(cls=Subcommand)
@click.argument("name")
@pass_invocation
def revoke(invocation: Invocation, name: str) -> int:
    """Revoke token NAME: within a second it admits nobody. Exit code 3: there is no such token."""
    settings = invocation.settings()
    was_there = Tokens(link_of(settings), keys_of(settings)).revoke(name)
    word = "revoked" if was_there else "not_found"
    invocation.answer({"name": name, "result": word}, f"{name}: {word}")
    return DONE if was_there else NOT_FOUND
