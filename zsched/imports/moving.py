"""
Moving one-shots from where RQ's job waits to here, a page at a time; and taking an import back.

    put     all of the page, unless an id is another owner's
    take    their jobs out of the ZSETs; it answers which were there
    keep    RQ's jobs of those until ``KEPT_S`` behind their time, so that ``undo`` can give them back

A job that was not there any more has been taken by somebody since it was read, and RQ's job says by whom: with status
``scheduled`` by an import beside this one, which has put the same; else by RQ, or it was cancelled, and so it is here.

Authoritative is the ZSET: who takes a job out of it has it. Not guaranteed: that a job is in one place only between put
and take. Who is killed there leaves the page in both; the next import finds it put, and takes it. One that was overdue
fires here as soon as it is put, so it is the source that must not be started before that.

On the way back what an import put is cancelled, and a one-shot that was moved waits again where it was. It is first
given back and then cancelled here, as it came: one of the two has it at every moment. What is due within ``SOON_S``
fires here; so does one whose job Redis has forgotten, which is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from zsched.client import Client
from zsched.client.keeper import Keeper
from zsched.core.clock import from_ms
from zsched.core.model import Schedule
from zsched.core.option_table import ScheduleRow
from zsched.errors import InvalidSchedule, ScheduleExists, ZschedError
from zsched.files.applying import CREATED
from zsched.imports.found import ImportSource, Item, Origin
from zsched.imports.rqjobs import RQ_SCHEDULED, RQ_SCHEDULER, SOON_S, score_of
from zsched.storage.connection import Link
from zsched.storage.rivals import CRON_OWNER
from zsched.storage.rqkeys import RQ_SCHEDULER_JOBS

PAGE: Final = 200  # one-shots per page: a move of so many takes far less than any margin
KEPT_S: Final = 7 * 86_400  # how long RQ's job of a moved one-shot outlives its time


class OneShot(NamedTuple):
    """An item that is to be moved."""

    item: Item
    origin: Origin
    due_ms: int


class MovedItem(NamedTuple):
    """
    Outcome of moving a one-shot: created; or unchanged, updated or already_fired if an interrupted import had put it.
    """

    item: Item
    outcome: str
    due_ms: int


class Moving:
    """Moves one-shots of *source*. What stays where it is is refused there, with the reason."""

    def __init__(self, client: Client, link: Link, source: ImportSource) -> None:
        self._client, self._link, self._source, self._keeper = client, link, source, Keeper(client)

    def move(self, page: Sequence[OneShot]) -> Iterator[MovedItem]:
        """
        Move *page*, all of it before the first answer.

        Raises:
            RedisUnavailable, RedisRefused: in the middle; the same import again goes on from there.
        """
        far = list(self._far(page))
        outcomes = self._put(far)
        put = [one for one in far if one.item.id in outcomes]
        found = self._take(put)
        self._keep([one for one, was_there in zip(put, found, strict=True) if was_there])
        for one, was_there in zip(put, found, strict=True):
            if was_there or self._is_imported(one):
                yield MovedItem(one.item, outcomes[one.item.id], one.due_ms)

    def _far(self, page: Sequence[OneShot]) -> Iterator[OneShot]:
        """Yield the one-shots of *page* that are not too near to their time."""
        now_ms = self._keeper.now_ms()
        for one in page:
            if one.origin.margin_ms and one.due_ms - now_ms < one.origin.margin_ms:
                problem = f"it is due within {one.origin.margin_ms // 1000} s"
                self._refuse(
                    one, InvalidSchedule("at", from_ms(one.due_ms), problem, "it is left to RQ, or the daemon")
                )
            else:
                yield one

    def _put(self, page: Sequence[OneShot]) -> dict[str, str]:
        """Put each; return its result by id, without those that are refused."""
        rows = [
            cast(ScheduleRow, {"func": one.item.func, **self._options(one.item), "if_exists": "error"}) for one in page
        ]
        many = self._client.schedule_many(rows)
        outcomes = {one.item.id: CREATED for one in page}
        for number, error in many.errors:
            one = page[number]
            del outcomes[one.item.id]
            try:
                if not isinstance(error, ScheduleExists):
                    raise error
                outcomes[one.item.id] = self._put_again(one.item)
            except ZschedError as refusal:  # of this one: it must not stop the others
                self._refuse(one, refusal)
        return outcomes

    def _put_again(self, item: Item) -> str:
        """Put *item*, whose id exists, again. Raises InvalidSchedule if it is not the source's."""
        held = self._client.get(item.id)
        if held.managed_by != self._source.owner:
            problem = f"a schedule of this id exists and is managed by {held.managed_by or 'nobody'}"
            raise InvalidSchedule("id", item.id, problem, "cancel that one first")
        return self._client.schedule(item.func, **self._options(item)).outcome

    def _take(self, page: Sequence[OneShot]) -> list[bool]:
        """Take the jobs of *page* out; whether each was there."""
        with self._link.wire() as wire:
            return [bool(reply) for reply in wire.execute_all(("ZREM", *one.origin[:2]) for one in page)]

    def _keep(self, page: Sequence[OneShot]) -> None:
        until_s = ((one.origin.member, one.due_ms // 1000 + KEPT_S) for one in page)
        with self._link.wire() as wire:
            wire.execute_all(("EXPIREAT", self._keeper.keys.rq.job(member), at_s) for member, at_s in until_s)

    def _is_imported(self, one: OneShot) -> bool:
        """Return True if an import has taken the missing job; if not, cancel it here and refuse it."""
        status = self._link.execute("HGET", self._keeper.keys.rq.job(one.origin.member), "status")
        if status == b"scheduled":
            return True
        self._client.cancel(one.item.id)
        whose = "it was deleted" if status is None else f"RQ has it as {status.decode(errors='replace')}"
        self._refuse(one, InvalidSchedule("id", one.item.id, f"{whose} meanwhile", "it is cancelled here"))
        return False

    # -- how ----------------------------------------------------------------------------------------

    def _options(self, item: Item) -> dict[str, Any]:
        return {**item.options, "id": item.id, "managed_by": self._source.owner}

    def _refuse(self, one: OneShot, error: ZschedError) -> None:
        self._source.refuse(one.item.place, one.item.func, str(error))


# -- the way back -----------------------------------------------------------------------------------


OWNERS: Final = ("crontab:", CRON_OWNER)  # that have a file or a module behind them


@dataclass(slots=True)
class Undone:
    """Ids: of what is cancelled, of what waits again where it was, and of what stays here, with the reason."""

    cancelled: list[str] = field(default_factory=list)
    given_back: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)


def is_owner(owner: str | None) -> bool:
    """Return True if *owner* is one that imports put as managed_by."""
    return owner in (RQ_SCHEDULER, RQ_SCHEDULED) or (owner or "").startswith(OWNERS)


def owners(client: Client) -> list[str]:
    """The owners of imports that have something here, sorted."""
    return sorted({owner for schedule in client.list() if (owner := schedule.managed_by) and is_owner(owner)})


def owned(client: Client, owner: str) -> list[Schedule]:
    """All that imports of *owner* have put and that is still to fire, or has ended."""
    return [schedule for schedule in client.list() if schedule.managed_by == owner]


def undo(
    client: Client, link: Link, owner: str, now_ms: Callable[[], int], on_progress: Callable[[int, int], None]
) -> Undone:
    """
    Cancel all that *owner* owns. *now_ms* asks for the server's time; *on_progress* is told how many are done, of how
    many.

    Raises:
        RedisUnavailable: in the middle; the same call again goes on from there.
    """
    undone, schedules = Undone(), owned(client, owner)
    for number, schedule in enumerate(schedules, 1):
        if schedule.trigger is None and schedule.kind == "once":
            _give_back(client, link, owner, schedule, now_ms(), undone)
        elif client.cancel(schedule.id) == "cancelled":
            undone.cancelled.append(schedule.id)
        on_progress(number, len(schedules))
    return undone


def _give_back(client: Client, link: Link, owner: str, schedule: Schedule, now_ms: int, undone: Undone) -> None:
    """One that was moved: back to its ZSET, then away from here."""
    id, due_ms = schedule.id, schedule.next_ms
    if due_ms is None or due_ms <= now_ms + SOON_S * 1000:
        undone.kept.append((id, f"it is due within {SOON_S} s, and fires here"))
        return
    rq = Keeper(client).keys.rq
    if not link.execute("EXISTS", rq.job(id)):
        undone.kept.append((id, "Redis has forgotten RQ's job of it; it fires here"))
        return
    origin = RQ_SCHEDULER_JOBS if owner == RQ_SCHEDULER else rq.registry("scheduled", schedule.queue)
    link.execute("PERSIST", rq.job(id))
    link.execute("ZADD", origin, score_of(due_ms), id)
    if client.cancel(id) == "cancelled":
        undone.given_back.append(id)
    else:  # it was cancelled or run by hand just now
        link.execute("ZREM", origin, id)
        undone.kept.append((id, "somebody else took it meanwhile"))
