"""
The jobs of the package rq-scheduler: one ZSET of RQ's job ids, whose jobs say in ``meta`` how they recur.

    interval    every so many seconds, counted from the time at which the job waits next, so its rhythm stays
    cron_string by the rules of the package crontab, on the clock of the machine where rq-scheduler runs, whatever
                ``use_local_timezone`` says (rq-scheduler 0.14, ``utils.get_next_scheduled_time``); *tz* is that zone
    repeat      how many runs are left
    none        a one-shot; what is overdue runs at once, as a started rq-scheduler would have it

Where both day fields of a cron_string are restricted that package runs on days that match both, and cron, as zsched,
on days that match either: refused. ``result_ttl`` -1 of what recurs is rq-scheduler's own, whose runs share one job;
here each has its own, and keeping all of them for ever is nobody's wish.

Not guaranteed: that a scheduler which is started after it was asked whether one runs does nothing.
"""

from __future__ import annotations

from typing import Any, Final

from zsched.imports.found import ImportSource, Item, Origin
from zsched.imports.jobs import RQJobs, instant_of_score, not_before
from zsched.storage.connection import Link
from zsched.storage.rqkeys import RQ_SCHEDULER_JOBS

OWNER: Final = "rq-scheduler"
_ITS_META: Final = ("cron_string", "interval", "repeat", "use_local_timezone", "queue_class_name")
_KEEPS: Final = -1  # RQ's result_ttl for ever
_AND: Final = (
    "the package crontab runs it on days that match day of month and day of week, cron and zsched on days that match "
    "either; write it as --rrule, such as FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR"
)


def read_rq_scheduler(link: Link, jobs: RQJobs, tz: str) -> ImportSource:
    """All that waits in rq-scheduler's set; cron strings are of the zone *tz*."""
    source = ImportSource(OWNER, OWNER)
    flat = link.execute("ZRANGE", RQ_SCHEDULER_JOBS, 0, -1, "WITHSCORES")
    due_s = {id.decode(errors="replace"): float(score) for id, score in zip(flat[::2], flat[1::2], strict=True)}
    for id, fields in jobs.read(due_s):
        try:
            func, options = jobs.options(fields)
            source.items.append(_item(id, func, options, due_s[id], tz))
        except ValueError as error:
            source.refuse(id, fields.get("description", b"").decode(errors="replace"), str(error))
    return source


def _item(id: str, func: str, options: dict[str, Any], due_s: float, tz: str) -> Item:
    """The schedule that a job of rq-scheduler is. Raises ValueError."""
    meta, at = options.pop("meta", None) or {}, not_before(due_s)
    if not isinstance(meta, dict):
        raise ValueError(f"its meta is {type(meta).__name__}, no dict; schedule it again by hand")
    meta = dict(meta)
    its = {name: meta.pop(name, None) for name in _ITS_META}
    if meta:
        options["meta"] = meta
    if not its["interval"] and not its["cron_string"]:
        return Item(id, id, func, options | {"at": at, "allow_past": True}, Origin(RQ_SCHEDULER_JOBS, id, 0))
    if options.get("result_ttl") == _KEEPS:
        del options["result_ttl"]
    options |= {"overlap": "allow"}  # rq-scheduler looks at no run before
    if its["repeat"] is not None:
        options["count"] = max(_whole("repeat", its["repeat"]), 1)  # it counts down after a run
    if its["interval"]:
        return Item(
            id, id, func, options | {"every": _whole("interval", its["interval"]), "starts": instant_of_score(due_s)}
        )
    return Item(id, id, func, options | {"cron": _cron(str(its["cron_string"])), "tz": tz})


def _whole(name: str, given: Any) -> int:
    """The number that meta has as *name*. Raises ValueError."""
    try:
        return int(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"its meta has {name} = {given!r}, no number; schedule it again by hand") from error


def _cron(text: str) -> str:
    """The expression of the package crontab as zsched reads it. Raises ValueError."""
    fields = text.split()
    if len(fields) in (6, 7):
        year = fields.pop()
        if year != "*":
            raise ValueError(f"cron_string {text!r} has a year; schedule it with --starts and --ends instead")
    if len(fields) < 5:
        return text
    fields = ["*" if "*" in field.split(",") else field for field in fields]
    if not any(field.startswith(("*", "?")) for field in (fields[-3], fields[-1])):
        raise ValueError(f"cron_string {text!r}: {_AND}")
    return " ".join(fields)
