"""Completion of commands, options and ids of schedules in a shell."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import click

from zsched.cli.program import Invocation, connect, program
from zsched.errors import ZschedError

_MOST: Final = 100  # ids that are offered
SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_ZSCHED_COMPLETE"  # with it set, click completes instead of running a command


def completion(shell: str) -> str:
    """Return the code that makes *shell* complete. It asks Redis for ids, by the settings in its environment."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # each of the shells is known to click
    return found(program, {}, "zsched", _VARIABLE).source()


def completed_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return ids of schedules that begin with *incomplete*; none if Redis does not answer."""
    given: Any = context.find_object(Invocation)
    with suppress(ZschedError):
        client = connect((given or Invocation()).settings())
        return [schedule.id for schedule in client.list(match=f"{incomplete}*", limit=_MOST)]
    return []
