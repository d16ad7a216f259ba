"""``zsched tokens``: the tokens of the HTTP API: made, listed, revoked, backed up."""

from __future__ import annotations

from typing import Any

import click

from zsched.cli.accounts import COLUMNS, account_by, account_options, account_row, answer_restored, saved_lines
from zsched.cli.lines import Table
from zsched.cli.program import DONE, NOT_FOUND, Invocation, Subcommand, pass_invocation
from zsched.core.model import iso
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.tokens import Saved, Tokens


@click.group("tokens", params=Subcommand(None).params, context_settings={"help_option_names": ["-h", "--help"]})
def tokens() -> None:
    """
    Make, list, revoke and back up the tokens of `zsched web`. They lie outside of the keys that services may write, so
    this needs a user of Redis such as `operator` of deploy/redis/users.acl.

    Tokens are not in the log or in an archive. A Redis that is lost loses them, unless `zsched tokens export` wrote a
    backup.

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
    values = ({**account.to_dict(), "used_at": used_at} for account, used_at in found)
    rows = [(*account_row(account), used_at or "-") for account, used_at in found]
    nothing = "no tokens; zsched tokens add NAME --role viewer makes one"
    invocation.answer(values, Table((*COLUMNS, "LAST USE"), rows, nothing=nothing))
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


@tokens.command(cls=Subcommand)
@pass_invocation
def export(invocation: Invocation) -> int:
    """
    Write all tokens to stdout, a line of JSON each, for `zsched tokens import`: role, limits, expiry, and the SHA-256
    of the token. The tokens themselves are stored nowhere, so nobody can use this file as a token.

    \b
    Example:
      zsched tokens export > tokens.jsonl
    """
    settings = invocation.settings()
    for digest, account, _ in Tokens(link_of(settings), keys_of(settings)).all():
        click.echo(Saved(digest, account).to_line())
    return DONE


@tokens.command("import", cls=Subcommand)
@click.argument("file", metavar="FILE")
@pass_invocation
def import_(invocation: Invocation, /, file: str) -> int:
    """
    Add the tokens of FILE that are missing; FILE is the output of `zsched tokens export`, and - is standard input. A
    token whose name another one has is refused, and the others are added; the exit code is 1 then. If FILE has a
    mistake, nothing is added. A token that was revoked after the export admits again.

    \b
    Examples:
      zsched tokens import tokens.jsonl
      ssh backup cat tokens.jsonl | zsched tokens import -
    """
    saved = saved_lines(file, Saved.of, lambda token: token.account, "token")
    settings = invocation.settings()
    return answer_restored(invocation, Tokens(link_of(settings), keys_of(settings)).restore(saved), "token")
