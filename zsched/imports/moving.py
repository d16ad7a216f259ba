"""
Moving one-shots from where RQ's job waits to here, a page at a time.

    put     all of the page, unless an id is another owner's
    take    their jobs out of the ZSETs; it answers which were there
    keep    RQ's jobs of those until ``KEPT_S`` behind their time, so that ``undoing`` can give them back

A job that was not there any more has been taken by somebody since it was read, and RQ's job says by whom: with status
``scheduled`` by an import beside this one, which has put the same; else by RQ, or it was cancelled, and so it is here.

Authoritative is the ZSET: who takes a job out of it has it. Not guaranteed: that a job is in one place only between put
and take. Who is killed there leaves the page in both; the next import finds it put, and takes it. One that was overdue
fires here as soon as it is put, so it is the source that must not be started before that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from zsched.client import Client
from zsched.client.keeper import Keeper
from zsched.core.clock import from_ms
from zsched.core.option_table import ScheduleRow
from zsched.errors import InvalidSchedule, ScheduleExists, ZschedError
from zsched.files.applying import CREATED
from zsched.imports.found import ImportSource, Item, Origin
from zsched.storage.connection import Link

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
        return [bool(reply) for reply in self._all([("ZREM", *one.origin[:2]) for one in page])]

    def _keep(self, page: Sequence[OneShot]) -> None:
        until_s = ((one.origin.member, one.due_ms // 1000 + KEPT_S) for one in page)
        self._all([("EXPIREAT", self._keeper.keys.rq.job(member), at_s) for member, at_s in until_s])

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

    def _all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The replies to *commands*, sent together."""
        with self._link.wire() as wire:
            for command in commands:
                wire.send(*command)
            return [wire.receive() for _ in commands]

    def _options(self, item: Item) -> dict[str, Any]:
        return {**item.options, "id": item.id, "managed_by": self._source.owner}

    def _refuse(self, one: OneShot, error: ZschedError) -> None:
        self._source.refuse(one.item.place, one.item.func, str(error))
