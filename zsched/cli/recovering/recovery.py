"""
A merge as people run it: whether it may be, the merge itself, and what came of it.

It is the daemons' own merge (``daemon.merge``), so it may run beside theirs, and may end at any moment: what was
put back stays, and the next one goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import click

from zsched.archive.places import Told
from zsched.cli.invocation import say
from zsched.cli.progress import Progress
from zsched.cli.recovering.archives import OpenedArchive, choose, opened_archive
from zsched.cli.recovering.difference import Difference
from zsched.cli.recovering.outcome import Found, Outcome
from zsched.cli.recovering.stopping import Stopping
from zsched.config import Settings
from zsched.config.address import address_of
from zsched.config.redaction import redact
from zsched.core.log import Position
from zsched.core.recovery import judge
from zsched.daemon.merge import HistoryChanged, Merge, OtherRestores
from zsched.daemon.recovery import WAIT_MS
from zsched.errors import RedisRefused, RedisUnavailable, ZschedError
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.naming import Naming
from zsched.storage.overview import Overview
from zsched.storage.reader import Reader
from zsched.storage.restoring import OtherDataSet
from zsched.storage.rqjob import Encoder

_DRY_RUN: Final = "zsched recover --dry-run shows what is missing"


class RecoveryRefused(ZschedError):
    """A recovery must not be begun as things are; the message says what was found, and what to run."""


class ManualRecovery:
    """
    One run of ``zsched recover``. *file*: the archive that was named; *is_dry*: it will only ``look``; *is_quiet*:
    nothing is said meanwhile.
    """

    def __init__(self, settings: Settings, file: Path | None, *, is_dry: bool, is_forced: bool, is_quiet: bool) -> None:
        """Raises NoArchive, ArchiveError, ConfigError."""
        self._settings, self._is_named, self._is_forced = settings, file is not None, is_forced
        self._is_quiet, self._keys = is_quiet, Keys(settings.namespace)
        self._link = Link.from_url(settings.redis.url, settings.redis.timeout_s, settings.redis.read_password())
        self._reader = Reader(self._link, self._keys, Encoder(settings.rq.serializer, settings.limits.payload_bytes))
        is_chosen = file is not None or settings.archive.path is not None
        gen = None if is_chosen else Naming(self._link, self._keys).gen()
        self._path = choose(settings, file, gen, is_only_read=is_dry, say=self._say)
        self._place = {"namespace": settings.namespace, "redis": redact(settings.redis.url)}

    def look(self, keeps_all: bool) -> Outcome:
        """
        What a recovery would do; nothing is written.

        Raises:
            ArchiveError, RedisUnavailable, RedisRefused.
        """
        overview = self._reader.overview()
        with self._reading() as known, closing(self._link.open()) as wire:
            while True:
                merge, found = self._compare(known, wire, overview.now_ms)
                difference = Difference(overview.now_ms, keeps_all=keeps_all)
                try:
                    if not found.is_nothing_lost:
                        for rows in merge.rows():
                            difference.add(rows)
                except (HistoryChanged, OtherRestores):
                    continue
                reasons = self._objection(overview), self._refusal(found)
                warnings = [f"without --dry-run this is refused: {reason}" for reason in reasons if reason]
                left = max(merge.total - difference.schedules, 0)
                return Outcome(self._place, found, difference, left, False, None, warnings)

    def put_back(self, keeps_all: bool) -> Outcome:
        """
        Recover.

        Raises:
            RecoveryRefused: it must not be. click.Abort: somebody stopped it, which was said.
            ArchiveError, RedisUnavailable, RedisRefused.
        """
        overview = self._reader.overview()
        if reason := self._objection(overview):
            raise RecoveryRefused(reason)
        with self._reading() as known, closing(self._link.open()) as wire, Stopping() as stopping:
            difference = Difference(overview.now_ms, keeps_all=keeps_all or self._is_quiet)
            others: tuple[Position, str] | None = None  # what another archive had put back when it was looked at
            while True:
                merge, found = self._compare(known, wire, overview.now_ms)
                if not difference and (reason := self._refusal(found)):
                    raise RecoveryRefused(reason)
                if found.is_nothing_lost:
                    self._adopt(found, wire)
                    return self._outcome(found, difference, 0, merge)
                restoring = merge.branch.restored
                is_news = restoring is not None and restoring[1] != known.recall.archive and restoring != others
                if restoring is not None and is_news and not merge.branch.merged:
                    others = restoring
                    self._wait(restoring[1], stopping)
                    continue
                if found.objection is not None:  # which people were told, and want it
                    merge.allow_another()
                try:
                    self._run(merge, difference, stopping)
                except (HistoryChanged, OtherDataSet):
                    self._say("Redis lost its history once more; comparing again")
                    difference = Difference(overview.now_ms, keeps_all=keeps_all or self._is_quiet)
                except OtherRestores:
                    others = merge.branch.restored
                    self._wait(others[1] if others else "?", stopping)
                else:
                    self._adopt(found, wire)
                    return self._outcome(found, difference, max(merge.total - difference.schedules, 0), merge)

    # -- how ----------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[OpenedArchive]:
        with opened_archive(self._path, self._settings.namespace, self._say) as known:
            yield known

    def _compare(self, known: OpenedArchive, wire: Wire, now_ms: int) -> tuple[Merge, Found]:
        hold_for_ms = self._settings.daemon.lease_ms
        merge = Merge(known.recall, wire, self._keys, known.position, hold_for_ms=hold_for_ms, gens=known.gens)
        merge.compare()
        gen, first = Naming(wire, self._keys).gen(), Log(wire, self._keys).first()
        start, mine = first.position if first else None, known.position
        told = Told(known.path, self._settings.namespace, known.gens, known.address, mine)
        objection = told.objection(gen, address_of(self._settings.redis.url))
        verdict = judge(mine, start, is_same_set=objection is None)
        is_nothing_lost = merge.common == mine or mine in merge.branch.merged
        found = Found(
            known, verdict, objection, is_nothing_lost, merge.common, merge.is_known, start, merge.seen, gen, now_ms
        )  # fmt: skip
        return merge, found

    def _adopt(self, found: Found, wire: Wire) -> None:
        """Add to Redis the names by which daemons find this archive and its peers. Names that Redis has stay."""
        for gen in found.known.gens:
            if gen not in (found.gen or "").split():
                Naming(wire, self._keys).adopt(gen)

    def _run(self, merge: Merge, difference: Difference, stopping: Stopping) -> None:
        merge.on_restored = difference.add
        total = merge.total
        try:
            with Progress("recovering", is_quiet=self._is_quiet, counted="schedules compared") as progress:
                progress.at(0, total)
                for compared in merge.run():
                    progress.at(min(compared, total), total)
                    if stopping.is_asked:
                        self._say(f"stopped; {_kept(difference)}")
                        raise click.Abort
        except RedisUnavailable as error:
            raise RedisUnavailable(f"{error}; {_kept(difference)}") from error
        except RedisRefused as error:  # out of memory, say
            raise RedisRefused(f"{error}; {_kept(difference)}") from error

    def _wait(self, archive: str, stopping: Stopping) -> None:
        """Let another archive put back what it knows."""
        self._say(f"archive {archive} is putting back what it knows; comparing again in {WAIT_MS / 1000:g} s")
        threading.Event().wait(WAIT_MS / 1000)
        if stopping.is_asked:
            raise click.Abort

    def _outcome(self, found: Found, difference: Difference, left: int, merge: Merge) -> Outcome:
        overview = self._reader.overview()
        waiting = [
            report
            for report in overview.archives
            if report.awaits_people and report.is_recent(overview.now_ms) and report.position not in merge.covered
        ]
        warnings = [
            f"archive {report.place} waits as well, and may know more: run zsched recover --from its file"
            for report in waiting
            if not found.is_nothing_lost and report.archive != found.known.recall.archive
        ]
        return Outcome(self._place, found, difference, left, not found.is_nothing_lost, merge.merged, warnings)

    def _refusal(self, found: Found) -> str | None:
        return found.refusal(is_named=self._is_named, is_forced=self._is_forced)

    def _objection(self, overview: Overview) -> str | None:
        """Why a daemon should be left to do it; None when nobody leads, or one waits for people."""
        if overview.leader is None or self._is_forced:
            return None
        if any(report.awaits_people and report.is_recent(overview.now_ms) for report in overview.archives):
            return None
        own = (report for report in overview.archives if report.about.get("daemon") == overview.leader)
        report = next(own, None)
        archive = f"its archive {report.place} is {report.state.value}" if report else "it reports no archive"
        remedy = "a daemon puts back what Redis lost by itself; --force does it all the same, and " + _DRY_RUN
        return f"daemon {overview.leader} leads, and {archive}: {remedy}"

    def _say(self, text: str) -> None:
        if not self._is_quiet:
            say(text)


def _kept(difference: Difference) -> str:
    number = difference.schedules
    return f"what was put back ({number:,} so far) stays, and running it again goes on"
