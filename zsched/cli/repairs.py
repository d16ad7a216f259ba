"""
Repairs in bulk on the command line: their options, the question before many changes, progress, and the result.

A command takes ids or filters, never both.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import click

from zsched.cli.output import Progress, Shown, stoppable
from zsched.cli.parameters import F, moment_at, stacked
from zsched.cli.program import DONE, FAILED, Invocation
from zsched.core.repair import AT_ONCE, CHANGED_PER_SECOND, PUSHED_PER_SECOND, SAMPLED, Repaired
from zsched.core.wording import plural

UNASKED: Final = 100  # changes that need no --yes
_MUCH: Final = 1000  # a progress bar is shown from this many candidates on
_BULK: Final = ("dry_run", "limit", "per_second", "yes")


@dataclass(frozen=True, slots=True)
class Repair:
    """A command that takes ids or filters. ``example``: of filters, without the program's name."""

    name: str
    done: str  # such as retried
    noun: str
    example: str

    def are_filters(self, ids: tuple[str, ...], given: dict[str, Any]) -> bool:
        """Return True if filters are given, False if *ids* are. Raises click.UsageError for both, or neither."""
        names = [name for name, value in given.items() if value not in (None, False)]
        has_filters = bool(names)
        if bool(ids) == has_filters:
            option = f"--{names[0].replace('_', '-')}" if names else ""
            problem = f"{option} is for filters, and ids are given" if ids else f"which {self.noun}s?"
            raise click.UsageError(f"{problem}; give ids, or filters such as: zsched {self.name} {self.example}")
        return has_filters

    def carry_out(self, invocation: Invocation, call: Callable[..., Repaired], given: dict[str, Any]) -> int:
        """Call the client's *call* with the filters and options in *given*, show the result, return the exit code."""
        options = {name: given.pop(name) for name in _BULK}
        confirm = None if options.pop("yes") else partial(self._is_confirmed, invocation)
        filters = {name: value for name, value in given.items() if value is not None}
        for name in ("since", "until"):
            if name in filters:
                filters[name] = moment_at(filters[name], name, None)
        progress = Progress(self.name, is_quiet=invocation.wants_json, least=_MUCH, counted=f"{self.noun}s")
        with stoppable(progress, partial(stopped, noun=self.noun, at_once=AT_ONCE)):
            result = call(**filters, **options, confirm=confirm, on_progress=progress.at)
        invocation.answer(result.to_dict(), *self._lines(result))
        if result.source is not None:
            invocation.tell_source(result.source)
        return FAILED if result.refused_count else DONE

    def _is_confirmed(self, invocation: Invocation, plan: Repaired) -> bool:
        """Return True for few changes, or if the terminal's user agrees. Raises click.UsageError."""
        if plan.found <= UNASKED:
            return True
        found = plural(plan.found, self.noun)
        if sys.stdin.isatty() and not invocation.wants_json:
            click.confirm(f"{self.name} {found}, the first is {plan.sample[0]}?", abort=True, err=True)
            return True
        remedy = f"look at them with --dry-run; then give --yes: zsched {self.name} … --yes"
        raise click.UsageError(f"{found} are found, more than {UNASKED}, and nothing was changed; {remedy}")

    def _lines(self, result: Repaired) -> Iterator[Shown]:
        """Yield the result for people."""
        if result.is_dry_run:
            yield from result.sample
            if result.found > SAMPLED:
                yield f"… and {result.found - SAMPLED:,} more"
            yield f"{plural(result.found, self.noun)} would be {self.done}"
            return
        yield from (f"{id}: refused ({reason})" for id, reason in result.refused[:SAMPLED])
        skipped = f"; {result.skipped:,} needed no change" if result.skipped else ""
        refused = f"; {result.refused_count:,} refused" if result.refused_count else ""
        yield f"{plural(result.done, self.noun)} {self.done}{skipped}{refused}"


def stopped(progress: Progress, noun: str, at_once: int, then: str = "the same command continues") -> str:
    """Report the progress of a stopped command, which acts on *at_once* of a *noun*, and how to continue."""
    if not progress.total:
        return "stopped before anything was changed"
    return f"stopped after {progress.done:,} of {plural(progress.total, noun)}, or up to {at_once} more; {then}"


def bulk_options(*, is_pushing: bool) -> Callable[[F], F]:
    """Add the options of changes by filter."""
    usual = PUSHED_PER_SECOND if is_pushing else CHANGED_PER_SECOND
    number = click.IntRange(min=1)
    return stacked(
        click.option("--dry-run", is_flag=True, help=f"Count them, list the first {SAMPLED}, and change nothing."),
        click.option("--limit", type=number, metavar="N", help="Only the first N."),
        click.option("--per-second", type=number, metavar="N", help=f"At most N a second; default {usual:,}."),
        click.option("--yes", is_flag=True, help=f"Also more than {UNASKED}, without a question."),
    )
