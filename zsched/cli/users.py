"""``zsched users``: the people who log in to ``zsched web``: added, listed, removed, given a password, backed up."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from zsched.cli.accounts import COLUMNS, account_by, account_options, account_row, answer_restored, saved_lines
from zsched.cli.lines import Table
from zsched.cli.program import DONE, NOT_FOUND, Invocation, Subcommand, pass_invocation
from zsched.config.reading import SMALL_BYTES, read_password_file
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.people import People, Person, check_password

F = TypeVar("F", bound=Callable[..., Any])

_FILE: Final = "--password-file"
_FILE_HELP: Final = "A file with the password, - for stdin; default: it is asked for."
_password_option = click.option(_FILE, metavar="FILE", help=_FILE_HELP)


@click.group("users", params=Subcommand(None).params, context_settings={"help_option_names": ["-h", "--help"]})
def users() -> None:
    """
    Add, list and remove the people who log in to `zsched web` with a name and a password of their own. They lie outside
    of the keys that services may write, so this needs a user of Redis such as `operator` of deploy/redis/users.acl.

    People are not in the log or in an archive. A Redis that is lost loses them, unless `zsched users export` wrote a
    backup.

    \b
    Examples:
      zsched users add ann --role operator --arguments
      zsched users add bob --role scheduler --queue 'shop-*' --password-file bob.password
    """


@users.command(cls=Subcommand)
@click.argument("name")
@account_options
@_password_option
@pass_invocation
def add(invocation: Invocation, /, name: str, password_file: str | None, **given: Any) -> int:
    """
    Add person NAME, with a password of 8 characters or more. The log has NAME for what they change. Redis keeps only
    the password's scrypt hash.

    Roles: viewer reads; scheduler also changes schedules and runs; operator may do everything. The patterns limit both
    what they read and what they change; each may be repeated.

    \b
    Examples:
      zsched users add ann --role operator --arguments
      zsched users add bob --role scheduler --queue 'shop-*' --password-file bob.password
    """
    settings = invocation.settings()
    account = account_by(settings, name, given)
    People(link_of(settings), keys_of(settings)).add(account, _password(password_file))
    invocation.answer(account.to_dict(), f"{name} has the role {account.role}")
    return DONE


@users.command("list", cls=Subcommand)
@pass_invocation
def list_(invocation: Invocation) -> int:
    """List the people with their role, limits and expiry."""
    settings = invocation.settings()
    found = [person.account for person in People(link_of(settings), keys_of(settings)).all()]
    rows, nothing = map(account_row, found), "no people; zsched users add NAME --role viewer adds one"
    invocation.answer((account.to_dict() for account in found), Table(COLUMNS, rows, nothing=nothing))
    return DONE


@users.command(cls=Subcommand)
@click.argument("name")
@pass_invocation
def remove(invocation: Invocation, name: str) -> int:
    """Remove person NAME: within a second their sessions end. Exit code 3: there is no such person."""
    settings = invocation.settings()
    was_there = People(link_of(settings), keys_of(settings)).remove(name)
    return _said(invocation, name, "removed" if was_there else None)


@users.command(cls=Subcommand)
@click.argument("name")
@_password_option
@pass_invocation
def password(invocation: Invocation, /, name: str, password_file: str | None) -> int:
    """Give person NAME another password, and end their sessions. Exit code 3: there is no such person."""
    settings = invocation.settings()
    was_there = People(link_of(settings), keys_of(settings)).set_password(name, _password(password_file))
    return _said(invocation, name, "password_changed" if was_there else None)


@users.command(cls=Subcommand)
@pass_invocation
def export(invocation: Invocation) -> int:
    """
    Write all people to stdout, a line of JSON each, for `zsched users import`: role, limits, expiry, and the hash of
    the password. A reader of this file can try passwords without a limit: let only operators read it.

    \b
    Example:
      umask 077; zsched users export > users.jsonl
    """
    settings = invocation.settings()
    for person in People(link_of(settings), keys_of(settings)).all():
        click.echo(person.to_text())
    return DONE


@users.command("import", cls=Subcommand)
@click.argument("file", metavar="FILE")
@pass_invocation
def import_(invocation: Invocation, /, file: str) -> int:
    """
    Add the people of FILE that are missing; FILE is the output of `zsched users export`, and - is standard input. A
    person who is there with another password or other rights stays so, and the others are added; the exit code is 1
    then. If FILE has a mistake, nothing is added. A person who was removed after the export can log in again.

    \b
    Example:
      zsched users import users.jsonl
    """
    saved = saved_lines(file, lambda line: Person.of(json.loads(line)), lambda person: person.account, "user")
    settings = invocation.settings()
    return answer_restored(invocation, People(link_of(settings), keys_of(settings)).restore(saved), "user")


def _said(invocation: Invocation, name: str, result: str | None) -> int:
    word = result or "not_found"
    invocation.answer({"name": name, "result": word}, f"{name}: {word}")
    return NOT_FOUND if result is None else DONE


def _password(file: str | None) -> str:
    """Return the password from *file* or stdin, or as the terminal gives it twice. Raises UsageError, ConfigError."""
    if file == "-":
        return check_password(sys.stdin.read(SMALL_BYTES).rstrip("\r\n"))
    if file is not None:
        return check_password(read_password_file(file, _FILE))
    if not sys.stdin.isatty():
        raise click.UsageError(f"there is no terminal to ask for the password; give {_FILE} FILE, or - for stdin")
    return check_password(click.prompt("Password", hide_input=True, confirmation_prompt="The same again", err=True))
