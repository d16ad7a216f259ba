"""
The seven promises of the protocol, and the witness of the true events, which no daemon can know.

I2, I3 and I6 are checked where they could break, the others when all is quiet.
"""

from collections import defaultdict
from collections.abc import Iterable
from enum import Enum

from tests.model.archive import Archive, Change
from tests.model.dataset import Dataset, Entry, State, is_skip


class Invariant(Enum):
    """A promise; a member's value is its sentence."""

    I1 = "A put or cancel that was acknowledged and archived, by an archive that is back, is not lost."
    I2 = "A run is pushed once per history; again only marked uncertain, and never when it is a skip one."
    I3 = "An archive never appends an entry of one history to another history."
    I4 = "In the end the state in every archive is what Redis holds."
    I5 = "In the end somebody leads, nothing is held and nothing due is left waiting."
    I6 = "While nothing was lost, nothing is held longer than one lease per server start."

    I7 = "Nothing of one data set is put into another one."


class Broken(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(invariant, what)
        self.invariant, self.what = invariant, what


class Witness:
    """
    Sees every history. ``pushes`` are the histories in which a run was pushed, ``changes`` the t of the last
    acknowledged put or cancel. Other counters measure the purpose of rules that no promise depends on:
    ``pushed_again``, ``pushed_in_vain`` (a worker had it already), ``refused`` (calls of restore and merged that came
    too late) and ``corrections``.
    """

    def __init__(self) -> None:
        self.history = 1
        self.pushes: defaultdict[int, list[int]] = defaultdict(list)
        self.pushed_t: dict[int, int] = {}  # of the entry of the last push
        self.archived: set[int] = set()  # t of entries that an archive had
        self.is_shown = False  # the archives show that nothing is in doubt about the run that is pushed now
        self.received: set[int] = set()
        self.ended: set[int] = set()
        self.skipped: set[int] = set()
        self.changes: dict[int, int] = {}
        self.missed: set[str] = set()  # daemons that were away when the data set got a name that is new to them
        self.pushed_again = self.pushed_in_vain = self.refused = self.corrections = 0

    def begin_anew(self) -> None:
        """Let everything count as new from here on: no present archive knows of anything before."""
        self.pushes.clear()

    def saw_push(self, id: int, by: str, uncertain: bool, t: int) -> None:
        """
        Note that the run *id* goes to its queue, by an entry of *t*. Archives cannot show a push that none of them had.
        """
        before = self.pushes[id]
        is_promised = not self.is_shown or self.pushed_t.get(id) in self.archived
        self.pushed_t[id] = t
        if self.history in before:
            raise Broken(Invariant.I2, f"run {id} is pushed twice in one history, now by {by}")
        if before and not uncertain and is_promised:
            raise Broken(Invariant.I2, f"run {id} is pushed again by {by} and not marked uncertain")
        if before and is_skip(id) and is_promised:
            raise Broken(Invariant.I2, f"run {id} (skip) is pushed again by {by}")
        self.pushed_again += bool(before)
        self.pushed_in_vain += bool(before) and id in self.received
        before.append(self.history)

    def is_accounted_for(self, id: int, data: Dataset) -> bool:
        """Return True if the run was or will be received, or was pushed at least once, or is a recorded skip run."""
        return id in self.received or id in data.queue or (is_skip(id) and (id in self.skipped or id in self.pushes))


def check_one_history(name: str, archive: Archive, entry: Entry) -> None:
    """Check I3, before *archive* appends *entry*."""
    assert archive.position is not None
    if entry.previous_t != archive.position.t:
        raise Broken(Invariant.I3, f"{name} appends {entry.position.id} to {archive.position.id} of another history")


def check_live(data: Dataset, is_led: bool, is_held: bool, now: int) -> None:
    """Check I5, when all is quiet."""
    if is_held or not is_led:
        raise Broken(Invariant.I5, "held for ever" if is_held else "no daemon is leading")
    for id, record in data.records.items():
        if record.state is State.PENDING and record.due <= now:
            raise Broken(Invariant.I5, f"{id} is due and never fired")


def check_same_state(name: str, archive: Archive, data: Dataset) -> None:
    """Check I4, when all is quiet."""
    known = {id: known.record for id, known in archive.state.items() if known.record.state is not State.GONE}
    if archive.position is None or known != data.records:
        wrong = sorted(id for id in known.keys() | data.records.keys() if known.get(id) != data.records.get(id))
        raise Broken(Invariant.I4, f"the archive of {name} is not what Redis holds: {wrong or 'it has no position'}")


def check_nothing_lost(name: str, answerable: Iterable[tuple[int, Change]], data: Dataset, witness: Witness) -> None:
    """Check I1, when all is quiet, for the changes that the archive of *name* followed."""
    for id, change in answerable:
        record = data.records.get(id)
        is_pending = record is not None and record.state is State.PENDING
        if witness.changes[id] > change.t:
            continue  # changed later: that change may be one that no archive had
        if change.kind == "cancel" and is_pending:
            raise Broken(Invariant.I1, f"the cancel of {id}, archived by {name}, is undone")
        is_there = is_pending and record is not None and record.version >= change.version
        if change.kind == "put" and not is_there and not witness.is_accounted_for(id, data):
            raise Broken(Invariant.I1, f"the put of {id}, archived by {name}, is lost")
