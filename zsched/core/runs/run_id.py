"""Run ids, which are RQ's job ids, and their parts: schedule and occurrence."""

import re
from typing import NamedTuple, Self

ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")  # of a schedule; a first - would make it an option of commands
_RUN_ID = re.compile(
    r"(?P<schedule>[A-Za-z0-9_-]{1,128})-(?P<ms>[0-9]{1,18})(?:-n(?P<namespace>[a-z0-9_]+))?(?:-r(?P<rerun>[0-9]{1,18}))?"
)
RunKey = tuple[str, str]  # schedule id, and the rest of the run id
_MS_DIGITS = range(11, 14)  # of the time in a run id; it separates run ids from similar job ids of other programs
_USUAL_DIGITS = 13  # from 2001 to 2286
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # RQ's own job ids; 1 of 281 ends in twelve digits
_USUAL = re.compile(rf"(?:^|(?<= ))({ID.pattern})-([0-9]{{11,13}})(?= |\Z)")  # <id>-<ms>, one of several by spaces


class RunId(NamedTuple):
    """
    The parts of a run id: ``<schedule id>-<ms>[-n<namespace>][-r<k>]``, read from the right.

    ``ms`` is a one-shot's due time or a recurring schedule's nominal time. The id has to be enough,
    because rq-dashboard's requeue button can destroy a job's meta.
    """

    schedule_id: str
    nominal_ms: int
    namespace: str
    rerun: int

    @classmethod
    def parse(cls, run_id: str) -> Self | None:
        """Return the parts of *run_id*, or None if it is not a run id."""
        if (found := _RUN_ID.fullmatch(run_id)) is None:
            return None
        return cls(found["schedule"], int(found["ms"]), found["namespace"] or "default", int(found["rerun"] or 0))

    @classmethod
    def ours(cls, run_id: str, namespace: str | None = None) -> Self | None:
        """
        Return the parts of *run_id* if it may be a run of *namespace* (None: of any namespace). Another program's job
        id can still look the same.
        """
        parts = cls.parse(run_id)
        if parts is None or namespace not in (None, parts.namespace) or len(str(parts.nominal_ms)) not in _MS_DIGITS:
            return None
        return None if _UUID.fullmatch(run_id) else parts


def suffix_of(namespace: str) -> str:
    """Return the end of the run ids of *namespace*."""
    return "" if namespace == "default" else f"-n{namespace}"


def run_id_of(id: str, run: str) -> str:
    """Return the run id of a ``RunKey``: the inverse of ``run_key``."""
    return f"{id}-{run}"


def nominal_ms_of(run: str) -> int | None:
    """Return the time in a ``RunKey``'s *run*; None of ''."""
    return int(run.partition("-")[0]) if run else None


def run_key(run_id: str, namespace: str | None = None) -> RunKey | None:
    """
    Return schedule id and the rest of *run_id*; None if it is not a run id. With *namespace*, None also if
    ``RunId.ours`` returns None. Fast for the usual form, ``<id>-<ms>``.
    """
    id, _, ms = run_id.rpartition("-")
    is_usual = len(ms) == _USUAL_DIGITS and ms.isdigit() and ms.isascii()
    if is_usual and namespace in (None, "default") and ID.fullmatch(id):
        return id, ms
    parts = RunId.parse(run_id) if namespace is None else RunId.ours(run_id, namespace)
    return None if parts is None else (parts.schedule_id, run_id[len(parts.schedule_id) + 1 :])


def usual_keys(run_ids: str) -> list[RunKey] | None:
    """Return ``run_key`` of each of *run_ids*, separated by spaces, if all have the usual form; else None. Fast."""
    keys: list[RunKey] = _USUAL.findall(run_ids)
    return keys if len(keys) == run_ids.count(" ") + 1 else None


def schedule_of(run_id: str) -> str:
    """Return the schedule's id in *run_id*; *run_id* if it is not one. Fast for the usual form, ``<id>-<ms>``."""
    id, _, ms = run_id.rpartition("-")
    if ms.isdigit():
        return id
    parts = RunId.parse(run_id)
    return run_id if parts is None else parts.schedule_id
