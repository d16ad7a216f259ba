"""``zsched simulate``: what would become of the schedules of a file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import click

from zsched.cli.files import client_and_checks, refuse
from zsched.cli.forecast import WORKERS, backlog_text, tell_left_out
from zsched.cli.lines import Table
from zsched.cli.output import Progress
from zsched.cli.program import DONE, Invocation, command
from zsched.cli.values import by_name, content, duration
from zsched.core.occurrences.outcomes import Outcome
from zsched.core.occurrences.simulation import Simulated, for_json
from zsched.core.options.forms import zone_name
from zsched.core.wording import duration_text, some
from zsched.errors import InvalidFile
from zsched.files.applying import Application
from zsched.files.reading import read

_DAY: Final = timedelta(days=1)


@command()
@click.argument("file", metavar="FILE")
@click.option("--days", type=click.IntRange(1, 3660), default=90, show_default=True, metavar="N", help="From now on.")
@click.option(
    "--workers", multiple=True, callback=WORKERS, metavar="QUEUE=N", help="Workers of a queue; default: enough for all."
)
@click.option(
    "--took", multiple=True, callback=by_name(duration, "app.report=90s"), metavar="FUNC=DURATION",
    help="Duration of its runs; default: the median of its last ones."
)  # fmt: skip
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="Show times in this zone.")
def simulate(
    invocation: Invocation, /, file: str, days: int, workers: dict[str, int], took: dict[str, timedelta], tz: str
) -> int:
    """
    Simulate the schedules of FILE, a TOML file for `zsched apply`: how many occurrences run, are skipped for overlap,
    expire or wait, if runs last as the archive knows. Nothing is written. - is standard input.

    \b
    Examples:
      zsched simulate schedules.toml
      zsched simulate schedules.toml --days 7 --workers email=2 --took app.report=90s
    """
    zone_name(tz)
    client, checks = client_and_checks(invocation, file)
    try:
        application = Application(client, read(file, content(file, "a TOML file of schedules"), checks))
        with Progress("simulating", is_quiet=invocation.wants_json) as progress:
            found, left_out = application.simulate(days * _DAY, workers, took, progress.at)
    except InvalidFile as error:
        return refuse(invocation, error, "nothing was simulated")
    schedules, backlogs = list(found.schedules.values()), [found.backlog(queue) for queue in workers]
    shown = {"days": days, "schedules": [one.to_dict() for one in schedules], "unknown": found.unknown}
    shown |= {"backlogs": [for_json(one) for one in backlogs], "left_out": left_out}
    invocation.answer(shown, _table(schedules), *(backlog_text(one, tz) for one in backlogs), tz=tz)
    tell_left_out(invocation, left_out)
    if found.unknown:
        invocation.remark(f"no duration is known of {some(found.unknown)}: it counts as no time; give --took")
    return DONE


def _table(found: Sequence[Simulated]) -> Table:
    numbers = (None, Outcome.FIRED, Outcome.OVERLAP, Outcome.EXPIRED, Outcome.CANCELLED)
    rows = (
        (one.schedule.id, *(f"{one.number(each):,}" for each in numbers), f"{one.open:,}", duration_text(one.waited_ms))
        for one in found
    )
    header = ("ID", "OCCURRENCES", "RUN", "SKIPPED", "EXPIRED", "CANCELLED", "NOT OVER", "LONGEST WAIT")
    return Table(header, rows, nothing="nothing fires")
