"""``zsched tokens``: the tokens of the HTTP API: made, listed, revoked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import click

from zsched.cli.program import DONE, NOT_FOUND, Invocation, Subcommand, connect, pass_invocation
from zsched.cli.values import duration
from zsched.core.arguments import check_by
from zsched.core.clock import SystemClock
from zsched.core.model import iso
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.tokens import Limits, Token, TokenRole, Tokens

_HEADER: Final = ("NAME", "ROLE", "FUNCTIONS", "QUEUES", "TAGS", "EXPIRES", "LAST USE")
_MS: Final = timedelta(milliseconds=1)


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
@click.option("--role", type=click.Choice([role.value for role in TokenRole]), required=True, help="What it may do.")
@click.option("--func", "funcs", multiple=True, metavar="GLOB", help="Only schedules of such a function.")
@click.option("--queue", "queues", multiple=True, metavar="GLOB", help="Only schedules of such a queue.")
@click.option("--tag", "tags", multiple=True, metavar="GLOB", help="Only schedules with such a tag.")
@click.option("--arguments", is_flag=True, help="It also reads arguments, results and tracebacks.")
@click.option(
    "--expires", type=duration, metavar="DURATION", help="How long it is valid, such as 90d; default: always."
)
@pass_invocation
def add(
    invocation: Invocation, /, name: str, role: str, expires: timedelta | None, arguments: bool, **given: Any
) -> int:
    """
    Make token NAME and print it. It is shown only here: Redis keeps its SHA-256. The log has NAME for what it changes.

    Roles: viewer reads; scheduler also changes schedules and runs; operator may do everything. The patterns limit both
    what it reads and what it changes; each may be repeated.

    \b
    Example:
      zsched tokens add shop --role scheduler --func 'app.tasks.*' --queue 'shop-*' --expires 90d
    """
    settings, now_ms = invocation.settings(), SystemClock().now_ms()
    token = Token(
        name=check_by(name),
        role=TokenRole(role),
        limits=Limits(given["funcs"], given["queues"], given["tags"]),
        sees_arguments=arguments,
        created_ms=now_ms,
        created_by=connect(settings).by,
        expires_ms=None if expires is None else now_ms + expires // _MS,
    )
    secret = Tokens(link_of(settings), keys_of(settings)).add(token)
    invocation.answer({**token.to_dict(), "token": secret}, secret)
    invocation.remark(f"{name} is a {role}. The token is shown only now.")
    return DONE


@tokens.command("list", cls=Subcommand)
@pass_invocation
def list_(invocation: Invocation) -> int:
    """List the tokens with their role, limits, expiry and last use. The tokens themselves are stored nowhere."""
    settings = invocation.settings()
    found = [(token, used_ms) for _, token, used_ms in Tokens(link_of(settings), keys_of(settings)).all()]
    rows = [
        (
            token.name,
            token.role.value,
            *(
                ", ".join(patterns) or "all"
                for patterns in (token.limits.funcs, token.limits.queues, token.limits.tags)
            ),
            iso(token.expires_ms) or "never",
            iso(used_ms) or "-",
        )
        for token, used_ms in found
    ]
    values = [token.to_dict(used_ms) for token, used_ms in found]
    invocation.answer_rows(values, _HEADER, rows, nothing="no tokens; zsched tokens add NAME --role viewer makes one")
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
