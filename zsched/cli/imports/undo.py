"""``zsched import undo``: an import is taken back, and what fires instead is said."""

from __future__ import annotations

from typing import Final

import click

from zsched.cli.exits import DONE, FAILED
from zsched.cli.imports.course import Ground
from zsched.cli.imports.options import DRY_RUN
from zsched.cli.imports.telling import tell_undone
from zsched.cli.invocation import Invocation, pass_invocation, say
from zsched.cli.program import Subcommand
from zsched.cli.progress import Progress
from zsched.core.wording import plural, some
from zsched.errors import InvalidSchedule
from zsched.imports import rqscheduled, rqscheduler
from zsched.imports.rqcron import owner_of
from zsched.imports.undoing import OWNERS, is_owner, owned, owners, undo
from zsched.storage.rivals import CRON_OWNER

_SHOWN: Final = 10  # owners in a message
_NEXT: Final = {  # what fires instead of schedules of these owners
    "crontab:": "their lines are back in cron",
    CRON_OWNER: "`rq cron` is started again",
    rqscheduler.OWNER: "rq-scheduler is started again",
}


@click.command("undo", cls=Subcommand)
@click.argument("owner")
@DRY_RUN
@pass_invocation
def undo_(invocation: Invocation, /, owner: str, dry_run: bool) -> int:
    """
    Take an import back: OWNER is what it told as the owner, such as crontab:/etc/cron.d/backup, rq-cron:app.cron,
    rq-scheduler or rq-scheduled. Its schedules are cancelled; what was moved waits where it was. What fires within
    30 s, and what cannot be given back, stays and is told, and the exit code is 1.

    \b
    Example:
      zsched import undo rq-scheduler --dry-run
    """
    if not is_owner(owner):
        names = f"{rqscheduler.OWNER}, {rqscheduled.OWNER}, {'…, '.join(OWNERS)}…"
        raise InvalidSchedule("owner", owner, "no import has such an owner", f"give one of {names}")
    if owner.startswith(CRON_OWNER):
        owner = owner_of(owner.removeprefix(CRON_OWNER))
    ground = Ground.of(invocation)
    if dry_run:
        ids = [schedule.id for schedule in owned(ground.client, owner)]
        invocation.answer(
            {"owner": owner, "dry_run": True, "ids": ids}, *ids, f"{plural(len(ids), 'schedule')} to undo"
        )
        _remark(ground, owner, bool(ids))
        return DONE
    with Progress("undoing", is_quiet=invocation.wants_json) as progress:
        undone = undo(ground.client, ground.link, owner, ground.now_ms, progress.at)
    tell_undone(invocation, owner, undone)
    back = [*undone.cancelled, *undone.given_back]
    _remark(ground, owner, bool(back or undone.kept))
    condition = next((said for start, said in _NEXT.items() if owner.startswith(start)), None)
    if back and condition is not None and not invocation.wants_json:
        say(f"nothing fires these until {condition}")
    return FAILED if undone.kept else DONE


def _remark(ground: Ground, owner: str, has_any: bool) -> None:
    """Say which owners there are, if nothing is of *owner*: it may be misspelt."""
    if not has_any and not ground.invocation.wants_json:
        say(
            f"nothing here is of {owner}; of other imports there is: {some(owners(ground.client), _SHOWN) or 'nothing'}"
        )
