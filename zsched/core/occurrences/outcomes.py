"""
Outcomes: what becomes of an occurrence, or of a run that somebody requested.

``What`` is a kind of change to a schedule, as stories, listings and counts show it. ``Outcome`` is a word with which a
script answers, or which a row of the log contains. Several words may make one change: a skipped occurrence has one of
seven reasons.
"""

from enum import Enum
from typing import Final

WAITS_FOR: Final = "waits for "  # a fired run is not in its queue: the run with the id that follows is not over


class What(Enum):
    """A kind of change to a schedule."""

    PUT = "put"  # created, or changed when it was there
    FOUND = "found"  # a new archive read it from Redis
    PAUSED = "paused"
    RESUMED = "resumed"
    SKIP_ASKED = "skip_asked"  # an occurrence to come is skipped by hand: ``why`` is the note
    SKIP_TAKEN_BACK = "skip_taken_back"  # it is not, after all
    REPLANNED = "replanned"  # the rules of its zone changed: the waiting occurrence has another time
    FIRED = "fired"  # a run was pushed to its queue at its time
    ENQUEUED = "enqueued"  # a run was pushed on request
    RETRIED = "retried"  # a run that was over was pushed once more, as a new run: ``why`` is its id
    SKIPPED = "skipped"  # an occurrence was not pushed, for one of the reasons below
    EXPIRED = "expired"  # an occurrence was not pushed: later than its deadline
    COALESCED = "coalesced"  # occurrences were left out in favour of a later one
    EXCLUDED = "excluded"  # occurrences at times that the schedule excludes: ``why`` is what excludes them
    DUPLICATE = "duplicate"  # its run existed already: not pushed again
    DEADLINE_MISSED = "deadline_missed"  # no run of an occurrence had succeeded by its deadline: ``why`` is its state
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"  # it cannot be planned or pushed; the reason is recorded
    ENDED = "ended"  # its rule gives no more occurrences
    RUN_ENDED = "run_ended"  # a run is over: ``why`` is its status, ``record`` the rest
    RUN_AGAIN = "run_again"  # a run's worker died: it is in its queue again
    STOPPING = "stopping"  # the worker of a run was asked to stop it
    RELEASED = "released"  # a run that waited for others was put into its queue
    RESTORED = "restored"  # Redis had lost it, and holds it again
    PUSHED_AGAIN = "pushed_again"  # Redis had lost an open run: it is in its queue again
    HELD = "held"  # Redis had lost an open run, but RQ has it again from a worker: not pushed again
    RAN_AGAIN = "ran_again"  # Redis went back to a time before a run was over: a worker executed or has it once more
    WITHDRAWN = "withdrawn"  # Redis went back to an older state and held it again: taken out, as it was over
    UNKNOWN = "unknown"  # another version of zsched decided an occurrence: ``why`` is its word


# Changes that leave the schedule unchanged.
OF_RUNS: Final = frozenset({What.RUN_ENDED, What.RUN_AGAIN, What.STOPPING, What.RELEASED, What.DEADLINE_MISSED})
RESTORED_RUNS: Final = frozenset({What.PUSHED_AGAIN, What.HELD, What.RAN_AGAIN})  # Redis lost something of a run
# Changes with a run that is in its queue, with a worker, or waits for another run. All others have none.
PUSHES: Final = frozenset({What.FIRED, What.ENQUEUED, What.RETRIED, *RESTORED_RUNS})
LEFT_OUT: Final = (What.SKIPPED, What.EXPIRED, What.COALESCED)  # changes by which an occurrence has no run


class Outcome(Enum):
    """
    An outcome, and everything that zsched says about it.

    ``word``: in answers and in the log. ``what``: the change that it makes. ``reason``: why, in a word. ``text``: why,
    for people; {} is the id of a run. ``level``, ``event``: of the daemon's log; without an event it is not logged.
    ``is_pushed``: there is a run, in its queue or behind others.
    """

    # with a run
    FIRED = "fired", What.FIRED
    DEFERRED = "deferred", What.FIRED, "", WAITS_FOR + "{}", "debug", "run_deferred"
    UNCERTAIN = "uncertain", What.FIRED, "uncertain", "", "warning", "run_uncertain"
    ENQUEUED = "enqueued", What.ENQUEUED
    RETRIED = "retried", What.RETRIED

    # without a run
    OVERLAP = "overlap", What.SKIPPED, "overlap", "overlap: {} was still open", "info", "run_skipped"
    SKIPPED = "skipped", What.SKIPPED, "uncertain", "a lost Redis may have pushed it already", "warning", "run_skipped"
    PAUSED = "paused", What.SKIPPED, "paused", "it was paused"
    MISSED = "missed", What.SKIPPED, "missed", "too late for its catch_up and catch_up_window", "warning", "runs_missed"
    LIMIT = "limit", What.SKIPPED, "limit", "more had passed than catch_up_limit allows", "warning", "runs_over_limit"
    BY_HAND = "by_hand", What.SKIPPED, "by hand", "skipped by hand", "info", "run_skipped"
    RULE_CHANGED = "rule_changed", What.SKIPPED, "rule_changed", "it was overdue when its schedule got another rule"
    EXPIRED = "expired", What.EXPIRED, "", "later than its deadline (expires_after)", "warning", "run_expired"
    COALESCED = "coalesced", What.COALESCED, "", "in favour of a later occurrence", "warning", "runs_coalesced"
    EXCLUDED = "excluded", What.EXCLUDED, "", "", "debug", "occurrences_excluded"
    DUPLICATE = "duplicate", What.DUPLICATE, "", "its run existed already", "warning", "duplicate_suppressed"
    DEADLINE_MISSED = "deadline_missed", What.DEADLINE_MISSED
    CANCELLED = "cancelled", What.CANCELLED, "", "", "info", "run_cancelled"
    QUARANTINED = "quarantined", What.QUARANTINED, "", "a broken template or queue", "error", "schedule_quarantined"

    # of a recovery
    PUSHED_AGAIN = "pushed_again", What.PUSHED_AGAIN
    HELD = "held", What.HELD
    RAN_AGAIN = "ran_again", What.RAN_AGAIN
    WITHDRAWN = "withdrawn", What.WITHDRAWN

    # without a change, or unknown
    PASSED = "passed", None, "", "", "debug", "occurrences_passed"  # only occurrences that the plan leaves out
    CHANGED = "changed", None, "", "", "debug", "plan_outdated"  # its schedule changed after the plan
    UNKNOWN = "unknown", What.UNKNOWN, "", "", "error", "answer_unknown"  # any other word

    def __init__(
        self, word: str, what: What | None, reason: str = "", text: str = "", level: str = "", event: str = ""
    ) -> None:
        self.word, self.what, self.reason, self.text, self.level, self.event = word, what, reason, text, level, event
        self.is_pushed = what in PUSHES

    def why(self, other: str) -> str:
        """Return the reason that its change shows; *other*: the id of a run or, without a reason, a text."""
        return self.text.format(other) if "{}" in self.text else self.reason or other


_BY_WORD: Final = {outcome.word: outcome for outcome in Outcome}


def outcome_of(word: str) -> Outcome:
    """Return the outcome of *word*; UNKNOWN for a word of another version, or of another writer."""
    return _BY_WORD.get(word, Outcome.UNKNOWN)


OUTCOMES: Final = tuple(dict.fromkeys(outcome.what for outcome in Outcome if outcome.what is not None))
SEARCHED: Final = frozenset({*OUTCOMES, What.RUN_ENDED, What.FOUND})  # a search of the history finds some of them
RAN: Final = PUSHES | {What.FOUND}  # changes that may mean that a run was pushed
