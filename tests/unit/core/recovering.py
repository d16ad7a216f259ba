"""Records of schedule a in the namespace "shop", as a merge compares them."""

from typing import Any, Final

from tests.builders import records
from tests.builders.entries import at
from tests.builders.records import DUE_MS
from zsched.core.record import Record

SUFFIX: Final = "-nshop"
RUN, LATER = f"{DUE_MS}{SUFFIX}", f"{DUE_MS + 1}{SUFFIX}"
T_US: Final = at(7).t_us  # of the entry that most tests read


def one_shot(place: str = "due", run: str = RUN, **more: Any) -> Record:
    return records.one_shot(place, run=run, **more)


def rule(**more: Any) -> Record:
    return records.rule(id="a", **more)


def opened(run: str = RUN, zs: str = "1") -> Record:
    """Return a run that was fired and has not ended."""
    return records.open_run(run=run, job=records.job(zs=zs))
