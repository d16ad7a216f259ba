"""``zsched keys``: the keys by which clients sign what they schedule, and workers check it."""

from functools import partial
from typing import Any

import click

from zsched.cli.parameters import schedule_filters
from zsched.cli.program import Invocation, command, group
from zsched.cli.repairs import Repair, bulk_options
from zsched.storage.keyfile import new_key_line

_SIGN = Repair("keys sign", "signed", "schedule", "--match '*'")


@group("keys")
def keys() -> None:
    """
    Make a signing key, and sign what waits. Clients sign by the first key in [signing] keys_file, and workers with a
    guard accept any of its keys. docs/how-to/sign-jobs.md has the steps.

    \b
    Examples:
      (umask 077; zsched keys new k1 > /etc/zsched/signing-keys)
      zsched keys sign --match '*'
    """


@command(of=keys)
@click.argument("id")
def new(invocation: Invocation, /, id: str) -> None:
    """
    Print a line with a new key. ID names it in its file and in each signature: 1 to 8 of a-z and 0-9, such as k1. The
    key is shown only here: write it into a file that its owner alone can read.

    \b
    Example:
      (umask 077; zsched keys new k1 > /etc/zsched/signing-keys)
    """
    line = new_key_line(id)
    invocation.answer({"id": id, "line": line}, line)


@command(of=keys)
@click.option("--unsigned", is_flag=True, help="Also sign unsigned schedules, unchanged: for the start of signing.")
@schedule_filters
@bulk_options(is_pushing=False)
def sign(invocation: Invocation, /, unsigned: bool, **given: Any) -> int:
    """
    Sign waiting schedules again by the first key: after a rotation, or before their signatures expire. They keep their
    times. A schedule whose signature is not good is refused: another program may have made it.

    \b
    Examples:
      zsched keys sign --match '*' --dry-run
      zsched keys sign --match '*' --unsigned --yes
    """
    call = partial(invocation.client().sign_many, unsigned)
    _SIGN.are_filters((), given)
    return _SIGN.carry_out(invocation, call, given)
