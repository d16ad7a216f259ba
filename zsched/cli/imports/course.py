"""The course of ``zsched import``, the same for every source: check, compare, put, tell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from zsched.cli.exits import DONE, FAILED
from zsched.cli.functions import check_allowed, importing, tell_unchecked
from zsched.cli.imports.telling import tell_import
from zsched.cli.invocation import Invocation, connect
from zsched.cli.progress import Progress
from zsched.client import Client
from zsched.client.keeper import Keeper
from zsched.config import Settings
from zsched.files import ClientChecks
from zsched.imports.found import ImportSource
from zsched.imports.jobs import RQJobs
from zsched.imports.putting import Imported, Importing, refuse_twins
from zsched.storage.connection import Link
from zsched.storage.rqjob import Encoder


@dataclass(frozen=True, slots=True)
class Ground:
    """The surroundings of an import. Nothing is connected before it is used."""

    invocation: Invocation
    settings: Settings
    client: Client
    link: Link
    checks: ClientChecks

    @classmethod
    def of(cls, invocation: Invocation) -> Ground:
        settings = invocation.settings()
        client, redis = connect(settings), settings.redis
        link = Link.from_url(redis.url, redis.timeout_s, redis.read_password())
        return cls(
            invocation, settings, client, link, ClientChecks(client, partial(check_allowed, settings), importing)
        )

    @property
    def jobs(self) -> RQJobs:
        """RQ's jobs, read with the serializer of the settings."""
        encoder = Encoder(self.settings.rq.serializer, self.settings.limits.payload_bytes)
        return RQJobs(self.link, Keeper(self.client).keys.rq, encoder)

    def now_ms(self) -> int:
        """The server's time. Raises InvalidSchedule: the namespace uses another serializer."""
        return Keeper(self.client).now_ms()


def import_all(
    ground: Ground,
    sources: Sequence[ImportSource],
    advice: str,
    *,
    prune: bool,
    dry_run: bool,
    take_over: bool,
    needs_redis: bool = True,
) -> int:
    """
    Check, compare, and put unless it is a dry run; tell it. The exit code. *advice* is for who has copied something
    from a source, whose name it may repeat. Without *needs_redis* a dry run compares nothing.
    """
    allow = partial(check_allowed, ground.settings)
    steps = [Importing(ground.client, one, ground.checks, allow, ground.link, takes_over=take_over) for one in sources]
    imported = [step.check() for step in steps]
    refuse_twins(imported)
    if dry_run:
        for step, one in zip(steps, imported, strict=True) if needs_redis else ():
            step.preview(one, prune=prune)
    else:
        for step, one in zip(steps, imported, strict=True):
            step.compare(one)  # all of them, before anything is written
        _run(ground.invocation, steps, imported, prune)
    for one in imported if not dry_run else ():
        if any(item.origin is None for item in one.source.items):  # what was moved cannot run twice
            back = f"zsched import undo {shlex.quote(one.source.owner)}"
            one.source.remarks.append(f"{advice.format(one.source.name)}; to go back: {back}")
    tell_import(ground.invocation, imported, is_dry=dry_run, is_compared=needs_redis)
    tell_unchecked(ground.checks.unchecked)
    return DONE if all(one.is_whole for one in imported) else FAILED


def _run(invocation: Invocation, steps: Sequence[Importing], imported: Sequence[Imported], prune: bool) -> None:
    total, before = sum(len(one.source.items) for one in imported), 0
    with Progress("importing", is_quiet=invocation.wants_json) as progress:
        progress.at(0, total)
        for step, one in zip(steps, imported, strict=True):
            step.run(one, prune=prune, on_progress=partial(_at, progress, before, total))
            before += len(one.source.items)


def _at(progress: Progress, before: int, total: int, done: int) -> None:
    progress.at(min(before + done, total), total)
