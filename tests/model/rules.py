"""
The rules of the recovery protocol, by name: each can be left out of the model, and then a promise breaks.

The production code names the rule where it keeps it. So a reader of a strange line finds its purpose here, and in
test_model.py a history that goes wrong without it.
"""

from enum import Enum


class Rule(Enum):
    """A rule of the protocol; a member's value is its sentence."""

    IDENTITY = "An entry is known by its id and its t: two histories can share an id, never both."
    SERVER = "A leader script is refused when meta.server is not the server that the leader's connection found."
    DOUBT = "A run due at or before meta.doubt may have been pushed in a lost history: marked uncertain, or skipped."
    HOLD = "After a change of server, and while somebody restores, nothing is fired for one lease."
    HOLD_ENDS = "The hold is a time that passes by itself, not a flag that somebody must clear."
    COMPARE_AND_SET = "A restore is applied only while the log ends where the restorer compared."
    BRANCH = "What the new history touched after the last common entry is left alone."
    GONE_TOO = "With nothing in common, what the archive knows to be gone is taken out like after a common entry."
    LATEST_CHANGE = "A restored record keeps the t of its last change, and the later change wins."
    CLAMP = "A doubt later than TIME was cast before the clock jumped back: the leader's next pass sets it to TIME."
    WHENEVER_PUT = (
        "Doubt asks when a run is due, not when it was put: a client may repeat a put that was lost. Only when nothing "
        "was lost, as all archives show, a put after the change of server is in no doubt."
    )
    ALL_SHOW = "It counts as shown when every archive with a report here has followed this log since then."
    OLD_SHOW = "An archive that began after the change of server shows nothing: it may take the place of another one."
    LOSS_STAYS = "The doubt of a loss stays, whenever a run is put, also after a later change of server without a loss."
    OPEN_IS_UNCERTAIN = (
        "A run fired but not ended is restored as uncertain: a skip one is recorded, never pushed again."
    )
    MERGED_COVERS = (
        "A merged entry names the positions of which nothing is missing: what is named is not restored again."
    )
    WAIT = (
        "Whoever finds a loss waits before it compares, until every archive that follows this log has looked at it, "
        "but not for ever: one who knows more can be first."
    )
    CORRECTS = "An archive that reads a restore of what its own history knows better answers with what it knows."
    NEWEST_ONLY = (
        "It corrects only while the newest entry of that id is the restore: a later change stands; that the leader "
        "went on with it saves nothing that is gone."
    )
    BY_ORDER = "Of two changes in one's own history the order counts, not t: clocks jump."
    TOLD_ONCE = "What a restore in this log already told is not told again, so corrections end."
    YIELD = "Whoever sees the restore entries of another lets it finish before it compares again."
    COMPLETE = "Only a log whose first seq is 1 shows that entries are lost and not merely trimmed."
    PASSED_BY_TIME = (
        "A trimmed log whose first entry is later than an archive's last went on without it, whatever ids say."
    )
    ONE_HISTORY = "All pages of a bootstrap, and what follows them, are read from one history."
    KEEP_OLD = "The old state and position stay, and count, until the bootstrap that replaces them is complete."
    MERGED_STAYS = "The bootstrap after a merge goes on only while the log still has the merged entry."
    NAME = "A data set with a name that an archive never followed is another one: it puts nothing in there."
    ASK = "Who leads a data set without a name reads the reports of the archives that are there before it makes one up."
    FURTHEST = (
        "Of several names that of the furthest archive that is there counts: who is behind it waits with a restore, "
        "which gives a name as well."
    )
    NEW = "A data set that is named anew is without doubt only where no archive that is there has anything else."

    @property
    def sentence(self) -> str:
        """The text of the rule."""
        return self.value


ALL_KEPT: frozenset[Rule] = frozenset()  # as a set of rules left out
