"""Records of schedules and runs, as archives know them and as scripts restore them."""

from typing import Any, Final

from zsched.core.record import Place, Record

DUE_MS: Final = 1_900_000_000_000
RUN: Final = str(DUE_MS)
OLD_US: Final = 1_800_000_000_123_451  # of a record's last change; all entries of ``tests.builders.entries`` are later


def texts_of(fields: dict[str, str]) -> list[bytes]:
    """Return names and values in turn."""
    return [text.encode() for pair in fields.items() for text in pair]


JOB_FIELDS: Final = {"description": "app.task", "origin": "default", "timeout": "180", "data": "call", "zs": "1"}
OWN_FIELDS: Final = {
    "trigger": "rule-1", "func": "app.task", "anchor": "5", "digest": "d", "lane": "low",
    "created_at": "5",
}  # fmt: skip


def job(**fields: str) -> list[bytes]:
    """Return the fields of a job; *fields* replace some, or come last."""
    return texts_of(JOB_FIELDS | fields)


JOB: Final = job()
TEMPLATE: Final = JOB[:-2]  # of a recurring schedule's jobs
OWN: Final = texts_of(OWN_FIELDS)  # of a recurring schedule


def one_shot(place: str = "due", id: str = "a", run: str = RUN, **more: Any) -> Record:
    """Return a one-shot; its due time is in *run*, or is DUE_MS."""
    due_ms = int(run.partition("-")[0] or DUE_MS)
    given = {"lane": "low", "due_ms": due_ms, "job": JOB, "t_us": OLD_US} | more
    return Record(id, run, Place(place), **given)


def rule(place: str = "due", id: str = "r", **more: Any) -> Record:
    """Return a recurring schedule."""
    due_ms = None if place == "ended" else DUE_MS
    given = {"lane": "low", "due_ms": due_ms, "nominal_ms": due_ms, "job": TEMPLATE, "own": OWN, "t_us": OLD_US} | more
    return Record(id, "", Place(place), **({"last": f"{id}-5"} | given))


def open_run(place: str = "open", id: str = "a", run: str = RUN, **more: Any) -> Record:
    """Return a run that was pushed and had not ended."""
    return one_shot(place, id, run, **({"lane": ""} | more))


def gone(id: str, run: str = "") -> Record:
    """Return a schedule that is over."""
    return one_shot("gone", id, run, job=())
