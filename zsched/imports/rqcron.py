"""
Registrations with RQ's own cron (``rq cron MODULE``, ``rq.cron.register``).

RQ evaluates a cron string with croniter: RQ 2 in UTC, RQ 3 in the zone of its machine. If a clock change skips a local
time, RQ runs as much later; if a local time comes twice, it runs at the first. (In a repeated hour RQ does not run a
rule for every few minutes; zsched does.) Six fields have the seconds last. croniter has another rule than cron and
zsched for day fields that restrict a day (``*/2`` does in croniter, ``0-6`` does not): such fields are rewritten. RQ
never runs times that passed while its scheduler was down, and a run may overlap with the next one. Imported schedules
do the same.

The module is imported, as ``rq cron`` would. Ids are the names of the registrations; equal names are numbered.
"""

import logging
import re
from collections import Counter
from typing import Any, Final

from croniter import croniter
from rq.cron import CronJob, CronScheduler

from zsched.errors import InvalidSchedule, NotImportable
from zsched.imports.found import ImportSource, Item
from zsched.storage.rivals import CRON_OWNER, dotted
from zsched.storage.rqjob import function_path

_DAYS: Final = {2: "1-31", 4: "0-6"}  # the fields day of month and day of week, and all days of each
_LONGEST_ID: Final = 120  # characters; a number may follow
_OPTIONS: Final = {"job_timeout": "timeout", "ttl": "expires_after"}  # RQ's names, and ours


class _Registered(CronScheduler):
    """Collects the registrations of a module. It never runs, so it needs no Redis."""

    def __init__(self) -> None:
        super().__init__(connection=None, logging_level=logging.CRITICAL)  # type: ignore[arg-type]  # never asked
        self.refused: list[tuple[str, Exception]] = []

    def register(self, func: Any, queue_name: str, *args: Any, **options: Any) -> CronJob:
        """Register as RQ does, and raise the errors that RQ only logs."""
        try:
            return super().register(func, queue_name, *args, **options)
        except Exception as error:
            self.refused.append((str(options.get("name") or getattr(func, "__name__", func)), error))
            raise


def owner_of(module: str) -> str:
    """Return the owner of the registrations of *module*: the same for its dotted name and its path from here."""
    return CRON_OWNER + (module if module.startswith("/") else dotted(module))


def read_rq_cron(module: str, zone: str) -> ImportSource:
    """
    Read the registrations of *module* (``app.cron_config``, or the path of a file). Its cron strings are in *zone*.

    Raises:
        InvalidSchedule: it cannot be imported.
    """
    registered = _Registered()
    try:
        registered.load_config_from_file(module)
    except Exception as error:  # of the module, or of RQ
        remedy = "give the dotted name or the path of what `rq cron` gets, in the folder where it runs"
        raise InvalidSchedule("module", module, f"it cannot be imported ({error})", remedy) from error
    source, met = ImportSource(module, owner_of(module)), Counter[str]()
    for name, refusal in registered.refused:
        source.refuse(name, name, f"RQ refuses it ({refusal}); correct it in the module")
    for job in registered.get_jobs():
        name = str(getattr(job, "name", job.func_name))  # RQ before 2.10 has no names
        id = re.sub("^-|[^A-Za-z0-9_-]", "_", name)[:_LONGEST_ID]
        met[id] += 1
        try:
            source.items.append(_item(job, zone, name, id if met[id] == 1 else f"{id}-{met[id]}"))
        except (NotImportable, ValueError) as error:
            source.refuse(name, str(job.cron or job.interval), str(error))
    return source


def _item(job: CronJob, zone: str, name: str, id: str) -> Item:
    """Return the schedule of *job*. Raises ValueError, NotImportable."""
    given = dict(job.job_options)
    if given.pop("webhooks", None):
        raise ValueError("it has webhooks; call them in the function, or in its callbacks")
    options: dict[str, Any] = {_OPTIONS.get(name, name): value for name, value in given.items()}
    options |= {"queue": job.queue_name, "args": list(job.args), "kwargs": dict(job.kwargs)}
    options |= {"overlap": "allow", "catch_up": "none"}
    if job.interval:
        options["every"] = job.interval
    else:
        options |= {"cron": cron_of_croniter(str(job.cron)), "tz": zone, "gap": "shift", "fold": "first"}
    return Item(id, name, function_path(job.func or job.func_name), options)


def cron_of_croniter(text: str) -> str:
    """Translate croniter's expression into zsched's. Raises ValueError."""
    fields = text.split()
    if len(fields) == 7:
        raise ValueError(f"cron {text!r} has a year; schedule it with --starts and --ends instead")
    if len(fields) < 5:
        return text
    expanded, _ = croniter.expand(text)
    if any("*" in expanded[n] and expanded[n] != ["*"] for n in _DAYS):
        raise ValueError(f"cron {text!r} has * and values in one day field; write * alone")
    is_either = all(expanded[n] != ["*"] for n in _DAYS)
    for n, days in _DAYS.items():
        if expanded[n] == ["*"]:
            fields[n] = "*"
        elif is_either:
            fields[n] = fields[n].replace("*", days)
    return " ".join(fields[-1:] + fields[:-1] if len(fields) == 6 else fields)
