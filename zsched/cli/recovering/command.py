"""
``zsched archive recover``: decide whether a recovery is allowed, drive it, and report the outcome.

It uses the daemons' own recovery (``daemon.recovery``). So it may run beside a daemon's, and may end at any moment: the
data restored so far stays, and the next recovery continues.
"""

import os
import time
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Final

import click

from zsched.cli.output import Progress, stoppable
from zsched.cli.parameters import zone_option
from zsched.cli.program import Invocation, command
from zsched.cli.recovering.archives import OpenedArchive, choose, opened_archive
from zsched.cli.recovering.report import Difference, HistoryFindings, RecoveryReport
from zsched.client.calls import caller
from zsched.config.urls import address_of, redact
from zsched.core.clock import SystemClock
from zsched.core.recovery.difference import judge
from zsched.daemon import recovery
from zsched.daemon.merge import PAGE, Merge, OtherRestores
from zsched.daemon.reconciler import HistoryChanged
from zsched.daemon.recovery import RecoveryLoop, RecoveryStep
from zsched.errors import RedisRefused, RedisUnavailable, ZschedError
from zsched.storage.connection import Wire, link_of
from zsched.storage.keys import keys_of
from zsched.storage.log import Log
from zsched.storage.meta import data_set_names
from zsched.storage.overview import Overview
from zsched.storage.reader import Reader
from zsched.storage.scripts import Scripts

_DRY_RUN: Final = "zsched archive recover --dry-run shows what is missing"
_SLEEP_S: Final = 0.1  # while only time has to pass


@command()
@click.option("--dry-run", is_flag=True, help="Show what is missing, and write nothing; always allowed.")
@click.option(
    "--from",
    "file",
    type=lambda text: Path(os.path.expanduser(text)),
    metavar="FILE",
    help="Read this archive instead of the configured one.",
)
@click.option("--force", is_flag=True, help="Even if a daemon leads; with --from, even if later entries were trimmed.")
@click.option("--all", "lists_all", is_flag=True, help="List every difference, not the first 50 of each kind.")
@zone_option()
def recover(invocation: Invocation, /, dry_run: bool, file: Path | None, force: bool, lists_all: bool, tz: str) -> None:
    """
    Put back from an archive what Redis lost: missing schedules, and runs in doubt, as their schedules demand. Daemons
    do it by themselves, unless [archive] recovery is "manual". The archive is --from FILE, else [archive] path, else
    one that daemons of this Redis keep. Ctrl-C stops between two steps; run it again to continue. A refusal names the
    command to run; the exit code is 3 without an archive.

    \b
    Examples:
      zsched archive recover --dry-run --tz Asia/Seoul
      zsched archive recover --dry-run --json | jq .counts
      zsched archive recover --from /var/lib/zsched/default-redis-6379-0/1.db
    """
    manual = ManualRecovery(invocation, file, is_dry=dry_run, is_forced=force)
    keeps_all = lists_all or invocation.wants_json
    outcome = manual.preview(keeps_all) if dry_run else manual.put_back(keeps_all)
    invocation.answer(outcome.to_dict(), *outcome.lines(tz))


class RecoveryRefused(ZschedError):
    """A recovery is not allowed now. The message names the reason, and the command to run."""


class ManualRecovery:
    """One run of the command. *file*: the archive given by --from; *is_dry*: it will only ``look``."""

    def __init__(self, invocation: Invocation, file: Path | None, *, is_dry: bool, is_forced: bool) -> None:
        """Choose the archive. Raises NoArchive, ArchiveError, ConfigError."""
        self._settings = settings = invocation.settings()
        self._is_named, self._is_forced = file is not None, is_forced
        self._say, self._is_quiet = invocation.remark, invocation.wants_json
        self._keys, self._link = keys_of(settings), link_of(settings)
        self._reader = Reader.by_settings(settings, self._link)
        is_chosen = file is not None or settings.archive.path is not None
        gen = None if is_chosen else data_set_names(self._link, self._keys)
        self._path = choose(settings, file, gen, is_only_read=is_dry, say=self._say)
        self._place = {"namespace": settings.namespace, "redis": redact(settings.redis.url)}

    def preview(self, keeps_all: bool) -> RecoveryReport:
        """
        Find out what a recovery would do; nothing is written.

        Raises:
            ArchiveError, RedisUnavailable, RedisRefused.
        """
        overview = self._reader.overview()
        with self._reading() as known, closing(self._link.open()) as wire:
            while True:
                merge = self._merge(known, wire)
                merge.compare()
                found = self._find(merge, known, wire, overview.now_ms)
                if found.is_nothing_lost:
                    merge = self._merge(known, wire, is_whole=True)
                    merge.compare()
                difference = Difference(overview.now_ms, keeps_all=keeps_all)
                try:
                    total = merge.total
                    with self._progress("comparing") as progress:
                        for number, rows in enumerate(merge.rows(), 1):
                            difference.add(rows)
                            progress.at(min(number * PAGE, total), total)
                except (HistoryChanged, OtherRestores):
                    continue
                reasons = self._objection(overview), self._refusal(found)
                warnings = [f"without --dry-run this is refused: {reason}" for reason in reasons if reason]
                left = max(total - difference.schedules, 0)
                return RecoveryReport(self._place, found, difference, left, False, None, warnings)

    def put_back(self, keeps_all: bool) -> RecoveryReport:
        """
        Recover.

        Raises:
            RecoveryRefused: it is not allowed. KeyboardInterrupt: Ctrl-C stopped it, which was reported.
            ArchiveError, RedisUnavailable, RedisRefused.
        """
        overview = self._reader.overview()
        if reason := self._objection(overview):
            raise RecoveryRefused(reason)
        self._difference = Difference(overview.now_ms, keeps_all=keeps_all)
        with self._reading() as known, closing(self._link.open()) as wire:

            def is_lost(merge: Merge) -> bool:
                self._found = found = self._find(merge, known, wire, overview.now_ms)
                if not self._difference and (reason := self._refusal(found)):
                    raise RecoveryRefused(reason)
                if found.objection is not None:  # the operator knows the objection, and forces it
                    merge.restoring.is_forced = True
                merge.on_restored = self._difference.add
                return not found.is_nothing_lost

            def lacks_keys(merge: Merge) -> bool:
                merge.on_restored = self._difference.add
                return merge.is_nothing_lost

            place = wire, self._keys, SystemClock()
            loop = RecoveryLoop(*place, lambda: self._merge(known, wire), is_lost)
            self._drive(loop)
            if self._found.is_nothing_lost:
                loop = RecoveryLoop(*place, lambda: self._merge(known, wire, is_whole=True), lacks_keys)
                self._drive(loop)
            # The names by which daemons find this archive and its peers; those that Redis has stay.
            for gen in known.gens:
                if gen not in (self._found.gen or "").split():
                    Scripts(wire, self._keys).call("adopt", gen=gen)
            return self._outcome(self._found, loop.merge)

    # -- how ----------------------------------------------------------------------------------------

    def _reading(self) -> AbstractContextManager[OpenedArchive]:
        return opened_archive(self._path, self._settings.namespace, self._say)

    def _merge(self, known: OpenedArchive, wire: Wire, *, is_whole: bool = False) -> Merge:
        hold_for_ms, by = self._settings.daemon.lease_ms, caller(self._settings.by)
        place = known.recall, wire, self._keys, known.position
        return Merge(*place, hold_for_ms=hold_for_ms, gens=known.gens, by=by, is_whole=is_whole)

    def _find(self, merge: Merge, known: OpenedArchive, wire: Wire, now_ms: int) -> HistoryFindings:
        """Collect the findings of *merge* after its comparison."""
        gen, first = data_set_names(wire, self._keys), Log(wire, self._keys).first()
        start, mine = first.position if first else None, known.position
        objection = known.objection(gen, address_of(self._settings.redis.url))
        verdict = judge(mine, start, is_same_set=objection is None)
        here = merge.is_nothing_lost, merge.common, merge.is_known
        return HistoryFindings(known, verdict, objection, *here, start, merge.reconciler.seen, gen, now_ms)

    def _drive(self, loop: RecoveryLoop) -> None:
        """Run the recovery, and report its progress."""
        before: RecoveryStep | None = None
        total = 0
        with stoppable(self._progress("recovering"), lambda _: f"stopped; {self._kept()}") as progress:
            try:
                for step in loop.steps():
                    if step is not before:
                        progress.close()
                        self._begin(step, loop.merge)
                        total = loop.merge.total if step is RecoveryStep.RESTORING else 0
                    if step is RecoveryStep.RESTORING:
                        progress.at(min(loop.compared, total), total)
                    elif not step.is_busy:
                        time.sleep(_SLEEP_S)
                    before = step
            except (RedisUnavailable, RedisRefused) as error:  # for example gone, or out of memory
                if before is not RecoveryStep.RESTORING:
                    raise
                if isinstance(error, RedisUnavailable):
                    raise error.but(f"{error.problem}; {self._kept()}") from error
                raise RedisRefused(f"{error}; {self._kept()}") from error

    def _progress(self, label: str) -> Progress:
        return Progress(label, is_quiet=self._is_quiet, counted="schedules compared")

    def _begin(self, step: RecoveryStep, merge: Merge) -> None:
        """Report the part that begins, if it is an unusual one."""
        if step is RecoveryStep.STARTING_OVER:
            self._say("Redis lost its history once more; comparing again")
            self._difference = self._difference.emptied()
        elif step is RecoveryStep.YIELDING:
            archive = merge.branch.restored[1] if merge.branch.restored else "?"
            again = f"comparing again in {recovery.WAIT_MS / 1000:g} s"
            self._say(f"archive {archive} is restoring its data; {again}")

    def _outcome(self, found: HistoryFindings, merge: Merge) -> RecoveryReport:
        overview, is_done = self._reader.overview(), not found.is_nothing_lost or bool(self._difference)
        recent = (report for report in overview.archives if report.awaits_people and report.is_recent(overview.now_ms))
        waiting = [report for report in recent if report.position not in merge.covered]
        warnings = [
            f"archive {report.place} waits as well, and may know more: run zsched archive recover --from its file"
            for report in waiting
            if is_done and report.archive != found.known.recall.archive
        ]
        left = max(merge.total - self._difference.schedules, 0) if is_done else 0
        return RecoveryReport(self._place, found, self._difference, left, is_done, merge.merged, warnings)

    def _refusal(self, found: HistoryFindings) -> str | None:
        return found.refusal(is_named=self._is_named, is_forced=self._is_forced)

    def _objection(self, overview: Overview) -> str | None:
        """Return why a daemon should recover instead; None if no daemon leads, or one waits for this command."""
        if overview.leader is None or self._is_forced:
            return None
        if any(report.awaits_people and report.is_recent(overview.now_ms) for report in overview.archives):
            return None
        own = (report for report in overview.archives if report.about.get("daemon") == overview.leader)
        report = next(own, None)
        archive = f"its archive {report.place} is {report.state.value}" if report else "it reports no archive"
        remedy = "daemons restore lost data automatically; use --force to restore now, and " + _DRY_RUN
        return f"daemon {overview.leader} leads, and {archive}: {remedy}"

    def _kept(self) -> str:
        number = self._difference.schedules
        return f"at least {number:,} are restored so far; run it again to continue"
