"""
Comparing an archive with a log of another history: their common part, and the data that Redis lacks.

Pure reading. There is no election and no vote: every daemon whose archive is not of this history compares for itself,
and its restores are entries that all others read.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tests.model.archive import Archive, Known
from tests.model.dataset import Dataset, Entry, Record, State
from tests.model.rules import Rule

LeftOut = frozenset[Rule]


class Common(NamedTuple):
    """
    The common part of an archive and a log.

    ``order`` is the place of its last entry in the archive's own history, -1 if there is none: an entry that the log
    has or that a merged entry in it covers. ``branch`` are the log's entries after the last common one.
    """

    order: int
    branch: list[Entry]


def find_common(archive: Archive, data: Dataset, left_out: LeftOut) -> Common:
    """Return the common part of *archive* and the log."""
    order, branch_from = -1, 0
    for index, entry in enumerate(data.log):
        if entry.position in archive.order:
            order, branch_from = max(order, archive.order[entry.position]), index + 1
        if Rule.MERGED_COVERS not in left_out:
            order = max([order, *(archive.order.get(position, -1) for position in entry.covers)])
    return Common(order, data.log[branch_from:])


def is_trimmed_past(archive: Archive, data: Dataset, left_out: LeftOut) -> bool:
    """
    Return True if the log continued without this archive and was trimmed, so that the fate of its last entries is
    unknown. The archive then restores nothing: its schedules may have been fired and finished long ago.

    The verdict uses only t. A log that begins before the archive's last entry has all later entries, in whichever
    history. Ids begin again at a lower place after a rollback, and a merged entry may name a position that is older
    than the archive's last, and merely trimmed.
    """
    if data.is_complete or Rule.COMPLETE in left_out:
        return False
    assert archive.position is not None
    if Rule.PASSED_BY_TIME in left_out:
        is_behind = data.gen == archive.gen and data.tail.id < archive.position.id
        return not is_behind and find_common(archive, data, left_out).order < 0
    return data.log[0].position.t > archive.position.t


def find_missing(archive: Archive, data: Dataset, left_out: LeftOut) -> list[tuple[int, Known]]:
    """Return the data that Redis has lost and *archive* has: for each id its new state."""
    common = find_common(archive, data, left_out)
    changed_here: dict[int, int] = {}
    if Rule.BRANCH not in left_out:
        for entry in common.branch:
            if entry.id is not None:
                changed_here[entry.id] = max(entry.changed_t, changed_here.get(entry.id, 0))
    missing = []
    for id in sorted(_touched_since(archive, common.order, left_out)):
        known = archive.known(id)
        if known and changed_here.get(id, 0) < known.changed_t and _is_missing(known.record, data.records.get(id)):
            missing.append((id, known))
    return missing


def find_correction(
    archive: Archive, name: str, data: Dataset, taken_in: Iterable[Entry], left_out: LeftOut
) -> tuple[int, Known] | None:
    """
    Return the first id for which the archive of *name* knows better than another's restore among *taken_in*, with its
    new state. The archive has not taken those entries into its state yet.
    """
    if Rule.CORRECTS in left_out:
        return None
    newest = {entry.id: entry for entry in data.log}
    changed = {entry.id: entry for entry in data.log if entry.kind not in ("fire", "skip", "end")}
    told = {(entry.id, entry.changed_t) for entry in data.log if entry.kind == "restore"}
    for entry in taken_in:
        if entry.kind != "restore" or entry.by == name or entry.id is None:
            continue
        if changed[entry.id] is not entry and Rule.NEWEST_ONLY not in left_out:
            continue
        known = archive.better(entry.id, entry.changed_t, by_order=Rule.BY_ORDER not in left_out)
        if known is None or ((entry.id, known.changed_t) in told and Rule.TOLD_ONCE not in left_out):
            continue
        may_be_put_back = newest[entry.id] is entry or Rule.NEWEST_ONLY in left_out or known.record.state is State.GONE
        if may_be_put_back and _is_missing(known.record, data.records.get(entry.id)):
            return entry.id, known
    return None


def _touched_since(archive: Archive, order: int, left_out: LeftOut) -> set[int]:
    if order < 0:
        is_gone_too = Rule.GONE_TOO not in left_out
        return {id for id, known in archive.state.items() if is_gone_too or known.record.state is not State.GONE}
    return {id for place, id in archive.touched if place > order}


def _is_missing(known: Record, here: Record | None) -> bool:
    if known.state is State.PENDING:
        return here is None or (here.state is State.PENDING and here != known)
    if known.state is State.OPEN:
        return here is None
    return here is not None and here.state is State.PENDING
