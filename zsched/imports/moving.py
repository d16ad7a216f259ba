"""
An import into Redis, and its way back.

    check     each item as ``client.schedule`` would; a refusal is noted with its place, and the rest continues
    twins     refuse an id that an earlier source of the same import has: one schedule has one owner
    compare   recurring schedules with Redis, like a file of schedules (``files.applying``); nothing is written yet
    put       changed schedules; then move the one-shots from RQ's ZSETs, a page at a time:

    put     all of the page, except ids of other owners
    take    remove their jobs from the ZSETs; the reply says which jobs were there
    keep    RQ's jobs of these until ``KEPT_S`` after their time, so that ``undo`` can give them back; and mark them
            in zsched, so that a job that a service deletes or schedules again does not fire here (lua/lib/moved.lua)

A missing job was taken by another process since it was read. The status of RQ's job says by which: ``scheduled``, by a
simultaneous import, which has put the same schedule; any other, by RQ. Or the job was cancelled. In the last two cases
the schedule is cancelled here, too.

The ZSET is authoritative: the process that removes a job from it owns the job. Not guaranteed: between put and take a
job is in both places. If an import is killed there, the page stays in both; the next import finds the schedules and
takes the jobs. An overdue job fires here as soon as it is put, so do not start the source before that.

``undo`` cancels the schedules of an import, and a moved one-shot waits again at its source. It is first given back and
then cancelled here, so at every moment at least one of the two has it. A one-shot that is due within ``SOON_S`` fires
here. So does a one-shot if Redis has forgotten its job, and that is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from zsched.client import Client
from zsched.core.clock import from_ms
from zsched.core.model import Definition, Schedule
from zsched.core.options.define import define
from zsched.core.options.table import ScheduleRow
from zsched.core.pages import OnProgress, pages_of
from zsched.core.toml import Lines
from zsched.errors import InvalidSchedule, ScheduleExists, ZschedError
from zsched.files.applying import CREATED, Application, Applied
from zsched.files.checking import ClientChecks
from zsched.files.reading import FileEntry, ScheduleFile
from zsched.imports.found import ImportSource, Item, OneShot
from zsched.imports.rqjobs import SOON_S, score_of
from zsched.storage.connection import Command
from zsched.storage.rivals import CRON_OWNER, RQ_SCHEDULED_OWNER, RQ_SCHEDULER_OWNER
from zsched.storage.rqkeys import RQ_SCHEDULER_JOBS

PAGE: Final = 200  # one-shots per page: moving them takes far less than any margin
KEPT_S: Final = 7 * 86_400  # how long RQ's job of a moved one-shot outlives its time
_MARKED_LESS_S: Final = 3600  # by which the mark of it lapses earlier, so that it never outlives the job


class Importing:
    """
    The import of one source, and its result. *takes_over*: as for ``Application``.
    ``definitions``: the checked schedules, by id; ``moved``: the outcome of each moved one-shot.
    """

    def __init__(self, client: Client, checks: ClientChecks, source: ImportSource, *, takes_over: bool = False) -> None:
        self._client, self._link, self._checks, self.source = client, client._link, checks, source
        self._takes_over = takes_over
        self.definitions: dict[str, Definition] = {}
        self.applied = Applied()
        self.moved: dict[str, str] = {}

    @property
    def is_whole(self) -> bool:
        """Return True if the whole source is in zsched."""
        return not self.source.refusals and not self.applied.errors

    def count(self, outcome: str) -> int:
        """Count the schedules with this outcome."""
        return self.applied.count(outcome) + sum(each == outcome for each in self.moved.values())

    def refuse(self, item: Item, problem: str | ZschedError) -> None:
        """Note that *item* cannot be imported."""
        self.source.refuse(item.place, str(item.options.get("description", item.id)), str(problem))

    def check(self) -> None:
        """Check every item without Redis, and refuse the invalid ones."""
        items, self.source.items = self.source.items, []
        for item in items:
            try:
                self.definitions[item.id] = self._defined(item)
                self.source.items.append(item)
            except ZschedError as error:
                self.refuse(item, error)

    def foretell(self, *, prune: bool) -> None:
        """
        Note the steps of a dry run; nothing is written.

        Raises:
            InvalidFile: an id is another owner's, or a one-shot's; then put nothing.
        """
        entries = tuple(
            FileEntry(item.id, number, self.definitions[item.id])
            for number, item in enumerate(self.source.items, 1)
            if not isinstance(item, OneShot)
        )
        file = ScheduleFile(self.source.name, self.source.owner, entries, {}, Lines(""))
        self._application = Application(self._client, file, takes_over=self._takes_over)
        self.applied = self._application.foretell(prune=prune)
        self.moved = {item.id: CREATED for item in self.source.items if isinstance(item, OneShot)}

    def run(self, on_progress: Callable[[int], None]) -> None:
        """
        Do the steps of ``foretell``, and note the results; *on_progress* is called with the number of schedules done.

        Raises:
            RedisUnavailable: in the middle; the same import again continues from there.
        """
        number = len(self.applied.steps)
        self.applied = self._application.carry_out(self.applied, on_progress)
        self.moved = {}
        for page in pages_of((item for item in self.source.items if isinstance(item, OneShot)), PAGE):
            self.moved |= self._move(page)
            number += len(page)
            on_progress(number)

    def _defined(self, item: Item) -> Definition:
        """Return the definition of *item*. Raises ZschedError."""
        options = self._options(item)
        if isinstance(item, OneShot):
            self._checks.allow(item.func, options)
            definition = define(item.func, options, item.id)
        else:
            definition = self._checks.define(item.func, options)
        for mistake in self._checks.mistakes(item.func, options):
            raise mistake
        return definition

    # -- one-shots ------------------------------------------------------------------------------------

    def _move(self, page: Sequence[OneShot]) -> dict[str, str]:
        """
        Move the whole *page*. Return the outcome of each moved one by id: created; or unchanged, updated or
        already_fired if an interrupted import had put it.

        Raises:
            RedisUnavailable, RedisRefused: in the middle; the same import again continues from there.
        """
        far = list(self._far(page))
        outcomes = self._put(far)
        put = [one for one in far if one.id in outcomes]
        found = list(zip(put, self._take(put), strict=True))
        self._keep([one for one, was_there in found if was_there])
        return {one.id: outcomes[one.id] for one, was_there in found if was_there or self._is_imported(one)}

    def _far(self, page: Sequence[OneShot]) -> Iterator[OneShot]:
        """Yield the one-shots of *page* that are not too near to their time."""
        now_ms = self._client._reader.now_ms()
        for one in page:
            if one.margin_ms and one.due_ms - now_ms < one.margin_ms:
                problem, remedy = f"it is due within {one.margin_ms // 1000} s", "it is left to RQ, or the daemon"
                self.refuse(one, InvalidSchedule("at", from_ms(one.due_ms), problem, remedy))
            else:
                yield one

    def _put(self, page: Sequence[OneShot]) -> dict[str, str]:
        """Put each; return its result by id, without those that are refused."""
        rows = [cast(ScheduleRow, {"func": one.func, **self._options(one), "if_exists": "error"}) for one in page]
        many = self._client.schedule_many(rows, errors="return")
        outcomes = {one.id: CREATED for one in page}
        for number, error in many.errors:
            one = page[number]
            del outcomes[one.id]
            try:
                if not isinstance(error, ScheduleExists):
                    raise error
                outcomes[one.id] = self._put_again(one)
            except ZschedError as refusal:  # it must not stop the others
                self.refuse(one, refusal)
        return outcomes

    def _put_again(self, one: OneShot) -> str:
        """Put *one* again, whose id exists. Raises InvalidSchedule: the schedule has another owner."""
        held = self._client.get(one.id)
        if held.owner != self.source.owner:
            problem = f"a schedule of this id exists and is owned by {held.owner or 'nobody'}"
            raise InvalidSchedule("id", one.id, problem, "cancel that one first")
        return self._client.schedule(one.func, **self._options(one)).outcome

    def _take(self, page: Sequence[OneShot]) -> list[bool]:
        """Remove the jobs of *page* from the ZSETs. Return whether each was there."""
        with self._link.wire() as wire:
            return [bool(reply) for reply in wire.execute_all(("ZREM", one.waiting_key, one.id) for one in page)]

    def _keep(self, page: Sequence[OneShot]) -> None:
        """Keep RQ's jobs of *page* beyond their times, and mark them as moved."""
        keys, commands = self._client._keys, list[Command]()
        with self._link.wire() as wire:
            created = wire.execute_all(("HGET", keys.rq.job(one.id), "created_at") for one in page)
            for one, created_at in zip(page, created, strict=True):
                until_s, mark_key = one.due_ms // 1000 + KEPT_S, keys.moved_prefix() + one.id
                commands.append(("EXPIREAT", keys.rq.job(one.id), until_s))
                commands.append(("SET", mark_key, created_at or b"", "EXAT", until_s - _MARKED_LESS_S))
            wire.execute_all(commands)

    def _is_imported(self, one: OneShot) -> bool:
        """Return True if an import has taken the missing job; if not, cancel it here and refuse it."""
        status = self._link.execute("HGET", self._client._keys.rq.job(one.id), "status")
        if status == b"scheduled":
            return True
        self._client.cancel(one.id)
        reason = "it was deleted" if status is None else f"its status in RQ is {status.decode(errors='replace')}"
        self.refuse(one, InvalidSchedule("id", one.id, f"{reason} meanwhile", "it is cancelled here"))
        return False

    def _options(self, one: Item) -> dict[str, Any]:
        return {**one.options, "id": one.id, "owner": self.source.owner}


def refuse_twins(imported: Sequence[Importing]) -> None:
    """Refuse in each of *imported* the items with an id of an earlier source."""
    owners: dict[str, ImportSource] = {}
    for one in imported:
        source, twins = one.source, [item for item in one.source.items if item.id in owners]
        source.items = [item for item in source.items if item.id not in owners]
        for item in twins:
            problem = f"id={item.id!r}: {owners[item.id].name} has the same, and a schedule has one source"
            remedy = "take it out of one; of two machines' crontabs import each into a namespace of its own"
            one.refuse(item, f"{problem}; {remedy}")
        owners |= {item.id: source for item in source.items}


# -- undo -------------------------------------------------------------------------------------------


OWNERS: Final = ("crontab:", CRON_OWNER)  # prefixes of owners with the name of a file or module


@dataclass(slots=True)
class Undone:
    """Ids of cancelled schedules, of one-shots given back, and ``id`` and ``reason`` of schedules that stay here."""

    cancelled: list[str] = field(default_factory=list)
    given_back: list[str] = field(default_factory=list)
    kept: list[dict[str, str]] = field(default_factory=list)


def is_owner(owner: str | None) -> bool:
    """Return True if *owner* has the form of an import's owner."""
    return owner in (RQ_SCHEDULER_OWNER, RQ_SCHEDULED_OWNER) or (owner or "").startswith(OWNERS)


def owners(client: Client) -> list[str]:
    """Return the owners of imports that have schedules here, sorted."""
    return sorted({owner for schedule in client.list() if (owner := schedule.owner) and is_owner(owner)})


def undo(client: Client, owner: str, on_progress: OnProgress) -> Undone:
    """
    Cancel all schedules of *owner*. *on_progress* is called with the number done, and the total.

    Raises:
        RedisUnavailable: in the middle; the same call again continues from there.
    """
    undone, schedules = Undone(), list(client.list(owner=owner))
    for number, schedule in enumerate(schedules, 1):
        if schedule.trigger is None and schedule.kind == "once":
            if reason := _give_back(client, owner, schedule):
                undone.kept.append({"id": schedule.id, "reason": reason})
            else:
                undone.given_back.append(schedule.id)
        elif client.cancel(schedule.id) == "cancelled":
            undone.cancelled.append(schedule.id)
        on_progress(number, len(schedules))
    return undone


def _give_back(client: Client, owner: str, schedule: Schedule) -> str:
    """Put a moved one-shot into its ZSET, then cancel it here. Return why it stays here, or ""."""
    id, due_ms = schedule.id, schedule.next_ms
    if due_ms is None or due_ms <= client._reader.now_ms() + SOON_S * 1000:
        return f"it is due within {SOON_S} s, and fires here"
    link, keys, rq = client._link, client._keys, client._keys.rq
    if not link.execute("EXISTS", rq.job(id)):
        return "RQ's job is missing from Redis; it fires here"
    waiting_key = RQ_SCHEDULER_JOBS if owner == RQ_SCHEDULER_OWNER else rq.registry("scheduled", schedule.queue)
    link.execute("PERSIST", rq.job(id))
    link.execute("ZADD", waiting_key, score_of(due_ms), id)
    if client.cancel(id) == "cancelled":
        link.execute("DEL", keys.moved_prefix() + id)
        return ""
    link.execute("ZREM", waiting_key, id)
    return "another program took it meanwhile"  # it was cancelled or run by hand just now
