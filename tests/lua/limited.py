"""A queue with a limit, by a clock that stands still: its puts and its runs."""

from functools import partial
from typing import Any

from tests.builders import namespaces
from tests.builders.namespaces import FIELDS, Namespace

EMAIL = FIELDS | {"origin": "email"}
put_due = partial(namespaces.put_due, origin="email")


def put_many(ns: Namespace, prefix: str, count: int, **options: Any) -> list[str]:
    ids = [f"{prefix}{n:04}" for n in range(count)]
    for first in range(0, count, 200):
        put_due(ns, *ids[first : first + 200], **options)
    return ids


def ids(runs: list[str]) -> list[str]:
    return [run.rpartition("-")[0] for run in runs]
