"""Options with a few words as values, and the states of schedules: one enumeration each, and its words as a type."""

from enum import Enum, StrEnum
from typing import Literal, Self, TypeAlias


class ScheduleState(StrEnum):
    """The state of a schedule."""

    ACTIVE = "active"  # in a lane
    PAUSED = "paused"  # out of its lane, keeps its due time
    QUARANTINED = "quarantined"  # could not be planned or pushed; the reason is recorded
    ENDED = "ended"  # recurring, and its rule gives no more occurrences


class Missed(Enum):
    """The choice of ``resume`` for occurrences that passed during the pause."""

    FIRE = "fire"  # late, as after a time without a daemon: the latest fires, the others are coalesced
    SKIP = "skip"  # recorded as skipped (paused)


class Priority(Enum):
    """The lane: due runs of a higher lane are always pushed before those of a lower one."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


PriorityWord: TypeAlias = Priority | Literal["high", "normal", "low"]


class OnUncertain(Enum):
    """The policy for a run that a lost Redis may have pushed already."""

    REFIRE = "refire"  # push it, marked as uncertain: at least once
    SKIP = "skip"  # record it as skipped: at most once


OnUncertainWord: TypeAlias = OnUncertain | Literal["refire", "skip"]


class OnLost(Enum):
    """The policy for a run after its worker died."""

    RETRY = "retry"  # put it back into its queue, as often as ``retry`` allows: at least once
    FAIL = "fail"  # record it as lost: at most once


OnLostWord: TypeAlias = OnLost | Literal["retry", "fail"]


class IfExists(Enum):
    """The policy of a put if a schedule of its id exists."""

    REPLACE = "replace"  # it is replaced
    KEEP = "keep"  # it stays unchanged; one in quarantine is replaced, as it does not fire
    ERROR = "error"  # the put raises ScheduleExists


IfExistsWord: TypeAlias = IfExists | Literal["replace", "keep", "error"]


class CatchUp(Enum):
    """The policy for occurrences that passed while no daemon could push them."""

    LATEST = "latest"  # the latest fires, earlier ones are coalesced into it
    ALL = "all"  # each fires, the oldest first
    NONE = "none"  # they are recorded as missed


CatchUpWord: TypeAlias = CatchUp | Literal["latest", "all", "none"]


class Overlap(Enum):
    """
    The policy for an occurrence while the previous run is open. ``runs_each``: every occurrence runs. ``has_chain``:
    runs wait for others, or replace them; the leader then looks after them. ``waits``: they wait, up to a limit.
    """

    SKIP = "skip", False, False  # recorded as skipped
    ALLOW = "allow", True, False  # both run at the same time
    QUEUE = "queue", True, True  # waits until the previous run is over
    CANCEL_PREVIOUS = "cancel_previous", False, True  # the previous run is cancelled, or stopped

    def __new__(cls, word: str, runs_each: bool, has_chain: bool) -> Self:
        """Make the member whose value is *word*."""
        member = object.__new__(cls)
        member._value_ = word
        member.runs_each, member.has_chain, member.waits = runs_each, has_chain, runs_each and has_chain
        return member

    runs_each: bool
    has_chain: bool
    waits: bool


OverlapWord: TypeAlias = Overlap | Literal["skip", "allow", "queue", "cancel_previous"]


class Refused(Enum):
    """The choice of ``schedule_many`` for the errors of refused rows. All other rows are written in any case."""

    RAISE = "raise"  # raise RowsRefused at the end
    RETURN = "return"  # only list them in ``Many.errors``
