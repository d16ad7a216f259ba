"""``zsched completion``: complete commands, options and ids of schedules in a shell."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import click

from zsched.cli.program import Invocation, command, connect, program
from zsched.errors import ZschedError

_MOST: Final = 100  # ids that are offered
_SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_ZSCHED_COMPLETE"  # with it set, click completes instead of running a command


@command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(invocation: Invocation, shell: str) -> None:
    """
    Print the code that makes SHELL complete commands, options and ids. Ids of schedules are read from Redis, by the
    settings in the environment and by the options that stand before them.

    \b
    Examples:
      echo 'eval "$(zsched completion bash)"' >> ~/.bashrc
      echo 'eval "$(zsched completion zsh)"' >> ~/.zshrc
      zsched completion fish > ~/.config/fish/completions/zsched.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # each of the shells is known to click
    invocation.answer({"shell": shell, "code": (code := found(program, {}, "zsched", _VARIABLE).source())}, code)


def completed_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return ids of schedules that begin with *incomplete*; none if Redis does not answer."""
    given: Any = context.find_object(Invocation)
    with suppress(ZschedError):
        client = connect((given or Invocation()).settings())
        return [schedule.id for schedule in client.list(match=f"{incomplete}*", limit=_MOST)]
    return []
