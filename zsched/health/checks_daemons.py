"""
Checks of the daemons: does one lead, could another take over, do they fire in time, have they the same version?

Checks of their queues: do workers take jobs from them?
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from shlex import quote
from typing import Final

from zsched.core.clock import from_ms
from zsched.core.model import iso
from zsched.core.pages import grouped
from zsched.core.runs.cells import lasting, with_short_workers
from zsched.core.runs.run import RunStatus
from zsched.core.runs.run_id import RunId
from zsched.core.wording import duration_text, plural, relative_text, rough_duration, some
from zsched.health.facts import DaemonHealth, Finding, QueuesUnknown, RedisUnseen, fine, health_check, problem, warning
from zsched.storage.keys import Keys
from zsched.storage.meta import moving_away, wrong_text
from zsched.storage.overview import SILENT_MS, DaemonRole, DaemonSeen, Overview
from zsched.storage.queues import UNATTENDED_MS, StalledQueue, StalledQueues, waiting_text
from zsched.storage.scripts import load
from zsched.storage.workers import SlotWaits

OVERDUE_MS: Final = 10_000  # longer than a take-over by a standby lasts
HELD_BACK_MS: Final = 60_000  # by a limit, which is meant to smooth a burst


# -- a daemon's own state -----------------------------------------------------------------------------


@health_check("redis_unseen", RedisUnseen, "redis")
def check_redis_unseen(unseen: RedisUnseen) -> Finding:
    """Report that the daemon cannot reach Redis."""
    return problem(unseen.reason, "zsched doctor on its machine says why")


@health_check("cannot_lead", DaemonHealth, "daemons")
def check_cannot_lead(health: DaemonHealth) -> Iterator[Finding]:
    """Report a daemon that may neither lead nor be a standby."""
    if health.trouble is not None:
        yield problem(health.trouble, "remove this cause: the daemon becomes a standby as soon as it may lead")


# -- who leads --------------------------------------------------------------------------------------


@health_check("no_leader", Overview, "daemons", follows=("writes",), alert="no daemon is leading")
def check_no_leader(overview: Overview) -> Finding:
    """Report that no daemon leads."""
    running = [_where(daemon) for daemon in overview.daemons if daemon.is_running]
    if overview.leader is not None:
        standbys = len(overview.of_role(DaemonRole.STANDS_BY))
        others = f", {plural(standbys, 'other')} would take over" if standbys else ""
        return fine(f"daemon {overview.leader} leads{others}")
    elif running:
        text = f"no daemon is leading; reported within {SILENT_MS // 1000} s: {'; '.join(running)}"
        waits = "one of them leads soon, or its log says why not (leading_refused, redis_refused)"
        return problem(text, f"{waits}; else {_start(overview)}")
    known, see = _silent(overview)
    text = f"no daemon is leading: {known or 'none of this namespace is running'}"
    heard_ms = max((one.told_ms for one in overview.daemons), default=None)
    found = problem(text, f"{see}{_start(overview)}; until then nothing fires, and nothing is lost")
    return found.about(since_ms=heard_ms)


@health_check("no_standby", Overview, "daemons", follows=("writes",))
def check_no_standby(overview: Overview) -> Iterator[Finding]:
    """Report that no standby could take over, or that one of several could not."""
    barred = [_where(one) for one in overview.of_role(DaemonRole.BARRED)]
    if overview.leader is None:
        return
    if overview.of_role(DaemonRole.STANDS_BY):
        if barred:
            yield warning("; ".join(barred), "remove this cause: the daemon becomes a standby as soon as it may lead")
        return
    known, see = _silent(overview)
    others = "; ".join(filter(None, (*barred, known)))
    which = f" ({others})" if others else ""
    text = f"no standby daemon{which}: when the leader dies, nothing fires until another daemon is started"
    remedy = f"{'remove this cause, or ' if barred else ''}{see}{_start(overview)}"
    yield warning(text, f"{remedy}, on another machine best")


def _where(daemon: DaemonSeen) -> str:
    """Return its place, and the reason if it may not lead."""
    return daemon.place if daemon.may_not_lead is None else f"{daemon.place} may not lead: {daemon.may_not_lead}"


def _silent(overview: Overview) -> tuple[str, str]:
    """Return the daemons that fell silent within an hour, and the beginning of a remedy; "" and "" without any."""
    silent = [one for one in overview.known_daemons if one.role is DaemonRole.SILENT]
    heard = [
        f"the daemon of pid {one.pid or '?'} on {one.host or '?'} last reported "
        f"{relative_text(one.told_ms, overview.now_ms)}"
        for one in silent
    ]
    see = "see its log there (journalctl -u zsched), as it may be cut off from Redis; if it is gone, "
    return some(heard, _NAMED), see if heard else ""


def _start(overview: Overview) -> str:
    option = "" if overview.namespace == "default" else f" -n {overview.namespace}"
    return f"start one: systemctl start zsched, zsched daemon{option}, or zsched worker --with-daemon{option}"


# -- firing -------------------------------------------------------------------------------------------


@health_check("late", Overview, "lateness", follows=("writes",), alert="due schedules fire late")
def check_late(overview: Overview) -> Finding:
    """Report that the oldest due schedule is late."""
    if overview.late_ms <= OVERDUE_MS:
        late = f"more than {rough_duration(overview.late_ms)} late" if overview.late_ms else "overdue"
        return fine(f"nothing is {late}")
    if overview.leader is None:
        remedy = "it fires when a daemon leads"
    elif overview.held_ms:
        remedy = f"nothing fires for {duration_text(overview.held_ms)} more, after a loss or a restart of Redis"
    else:
        remedy = "look for redis_refused and clock_jumped in the leader's log, and how busy it and Redis are"
    found = problem(f"the oldest due schedule is {rough_duration(overview.late_ms)} late", remedy)
    return found.about(since_ms=overview.now_ms - overview.late_ms)


@health_check(
    "held_back", Overview, "lateness", follows=("writes", "no_leader"), alert="schedules that are due are held back"
)
def check_held_back(overview: Overview) -> Iterator[Finding]:
    """Report schedules that the limit of their queue has held back for long."""
    for held in overview.held_back:
        for_ms = overview.now_ms - held.since_ms
        is_limited = held.blocked_by is None and held.per_second is not None  # otherwise they go now, or see below
        if is_limited and for_ms > HELD_BACK_MS:
            number = f"{plural(held.waiting, 'schedule')}, the oldest for {rough_duration(for_ms)}"
            remedy = "if that is too slow, raise the limit of all daemons, then: systemctl reload zsched"
            yield warning(f"{held.cause} holds back {number}", remedy).about(since_ms=held.since_ms)


@health_check("zone_unknown", Overview, "lateness")
def check_zone_unknown(overview: Overview) -> Iterator[Finding]:
    """Report schedules whose zone the leader's machine lacks."""
    for held in overview.held_back:
        if held.zone is not None:
            number = f"{plural(held.waiting, 'schedule')} cannot be planned"
            remedy = "install tzdata (and tzdata-legacy) on the machines of the daemons, then restart these"
            yield problem(f"{number}: {held.cause}", remedy)


@health_check("kept_local", Overview, "lateness")
def check_kept_local(overview: Overview) -> Iterator[Finding]:
    """Report signed one-shots that new rules of their zone did not move."""
    if kept := sorted(overview.kept_local, key=lambda one: one.due_ms):
        number = f"new rules of a zone did not move {plural(len(kept), 'signed one-shot')} of local time"
        first = f"{kept[0].id} is due {iso(kept[0].due_ms)}, by the new rules of its zone {iso(kept[0].new_due_ms)}"
        remedy = "a client with keys moves and signs it anew: zsched set ID --at TIME"
        yield warning(f"{number}: {first}", remedy).about(ids=[kept[0].id])


@health_check("rate_limited", SlotWaits, "lateness", follows=("writes",))
def check_rate_limited(slots: SlotWaits) -> Iterator[Finding]:
    """Report runs that have waited for long for a slot of RQ's rate limit."""
    for one in slots.limits:
        for_ms, holders = slots.now_ms - one.since_ms, one.holders
        if for_ms <= UNATTENDED_MS:
            continue
        held = " and ".join(f"{each.id} ({lasting(each, slots.now_ms)})" for each in holders)
        number = f"{plural(one.waiting, 'run')}, one for {rough_duration(for_ms)}"
        text = with_short_workers(f"RQ's limit {one.limit} holds back {number}{f'; a slot has {held}' if held else ''}")
        first = next((each.id for each in holders if RunId.ours(each.id)), None)
        waits_in = frozenset[str]()
        if first is None:
            found = warning(text, "see what the jobs do that have its slots: RQ's dashboard, or rq info")
        elif any(each.status is RunStatus.RUNNING for each in holders):
            found = warning(text, "if it hangs, stop it", "zsched", "cancel-run", first)
        else:
            found = warning(text, "see why it does not begin", "zsched", "why", first)
            waits_in = frozenset(each.queue for each in holders)
        ours = (each.id for each in holders if RunId.ours(each.id))
        yield replace(found.about(ids=ours, since_ms=one.since_ms), waits_in=waits_in)


@health_check("doubt_ahead", Overview, "clock")
def check_doubt_ahead(overview: Overview) -> Iterator[Finding]:
    """Report that a clock that was ahead left uncertain times in the future."""
    if overview.doubt_ms > overview.now_ms:
        until = f"{from_ms(overview.doubt_ms):%H:%M:%S} UTC"
        text = f"the clock of Redis was ahead: all that is due until {until} counts as uncertain"
        yield warning(text, "start a daemon: the first pass of a leader corrects it")


@health_check("quarantined", Overview, "quarantine", alert="schedules in quarantine: broken, and not fired")
def check_quarantined(overview: Overview) -> Finding:
    """Report schedules in quarantine."""
    return in_quarantine(overview.quarantined)


def in_quarantine(number: int, names: str = "") -> Finding:
    """Return the finding of *number* schedules in quarantine, some of which have *names*."""
    if not number:
        return fine("no schedule is in quarantine")
    text = f"{plural(number, 'schedule')} in quarantine: broken, and not fired"
    remedy = (
        "zsched ls --state quarantined lists them, zsched why ID says why; zsched release ID releases one, "
        "or schedule it again, or cancel it"
    )
    return problem(f"{text}: {names}" if names else text, remedy).about(("zsched", "ls", "--state", "quarantined"))


@health_check("wrong_type", Overview, "key types", alert="another program wrote keys that zsched or RQ needs")
def check_wrong_type(overview: Overview) -> Iterator[Finding]:
    """Report keys of a wrong type: of zsched, and those of RQ that firing needs."""
    effects = {held.blocked_by: f"{plural(held.waiting, 'schedule')} wait until it is" for held in overview.held_back}
    for key, (type, wanted) in overview.wrong_types.items():
        effect = effects.get(key, "firing continues without it")
        yield wrong_type(Keys(overview.namespace), key, type, wanted, effect)


def wrong_type(keys: Keys, key: str, type: str, wanted: str, effect: str) -> Finding:
    """Return the finding of a *key* of a wrong *type*; *effect*: if zsched fires without it."""
    needed = {keys.named(name)() for script in ("fire", "advance") for name in load(script).keys if "rq_" not in name}
    is_needed = key in needed or key.startswith(f"{keys.prefix}due:")
    return problem(
        f"{wrong_text(key, type, wanted)}; {'nothing fires until it is' if is_needed else effect}", *moving_away(key)
    )


# -- differences between daemons, and failures inside them --------------------------------------------


@health_check("daemon_failing", Overview, "daemons", follows=("writes",))
def check_daemon_failing(overview: Overview) -> Iterator[Finding]:
    """Report failing threads and chores of running daemons. No other check notices that their work is not done."""
    for daemon in (one for one in overview.daemons if one.is_running and one.failing):
        which = "; ".join(f"{part}: {reason}" for part, reason in daemon.failing.items())
        remedy = "its log has thread_failed, chore_failed, question_failed or sink_failed with the cause; it is retried"
        yield warning(f"daemon {daemon.place} fails in part: {which}", remedy)


@health_check("versions", Overview, "daemons", alert="daemons of different versions")
def check_versions(overview: Overview) -> Iterator[Finding]:
    """Report daemons of different versions."""
    if which := _groups((daemon.version, daemon) for daemon in overview.daemons):
        yield warning(f"daemons of different versions: {which}", "restart the daemons of the older version")


@health_check("tzdata", Overview)
def check_tzdata(overview: Overview) -> Iterator[Finding]:
    """Report daemons with different time zone rules."""
    if which := _groups((daemon.tzdata, daemon) for daemon in overview.daemons):
        remedy = "update tzdata everywhere and restart: the next leader moves waiting schedules to its rules' times"
        yield warning(f"daemons plan by different time zone rules: {which}", remedy)


def _groups(values: Iterator[tuple[str | None, DaemonSeen]]) -> str:
    """Name the running daemons by value if their values differ; daemons without a value are left out."""
    groups = grouped((value, daemon.place) for value, daemon in values if value is not None and daemon.is_running)
    return ", ".join(f"{value} ({'; '.join(groups[value])})" for value in sorted(groups)) if len(groups) > 1 else ""


# -- queues -----------------------------------------------------------------------------------------


_NAMED: Final = 4  # queues in a command


@health_check("queues_unknown", QueuesUnknown, "queues")
def check_queues_unknown(_: QueuesUnknown) -> Finding:
    """Report that this user may not read the queues."""
    remedy = "ask as a user who may, such as zsched-web of zsched files users.acl; zsched doctor says what is refused"
    return warning("it is unknown whether workers take jobs from the queues", remedy)


@health_check("suspended", StalledQueues, "queues")
def check_suspended(queues: StalledQueues) -> Iterator[Finding]:
    """Report that RQ's workers are suspended."""
    if queues.is_suspended:
        waiting = queues.suspended
        where = f": {waiting_text(waiting)} in {_named(waiting)}" if waiting else ""
        said = problem if any(one.is_stuck for one in waiting) else warning
        yield _about(waiting, said(f"RQ's workers are suspended{where}", "resume them", "rq", "resume"))


@health_check("unheard", StalledQueues, "queues")
def check_unheard(queues: StalledQueues) -> Iterator[Finding]:
    """Report queues without workers in which jobs have waited for long."""
    return _without_workers(problem, [one for one in queues.unheard if one.is_stuck], queues.is_after_loss)


@health_check("no_worker", StalledQueues, "queues")
def check_no_worker(queues: StalledQueues) -> Iterator[Finding]:
    """Report queues without workers in which no job has waited for long."""
    waiting = [one for one in queues.unheard if one.waiting and not one.is_stuck]
    yield from _without_workers(warning, waiting, queues.is_after_loss)
    yield from _without_workers(warning, [one for one in queues.unheard if not one.waiting], queues.is_after_loss)
    if not queues.unheard and not queues.is_suspended:
        yield fine(f"every queue in use has workers ({queues.used})" if queues.used else "no queue is used")


def _without_workers(
    said: Callable[..., Finding], queues: list[StalledQueue], is_after_loss: bool
) -> Iterator[Finding]:
    """Yield a finding for each queue that may be a typing mistake, and one for all other *queues*."""
    for one in queues:
        if one.meant:
            text = f"no worker listens to queue {one.queue}, {_use([one])}: did you mean {one.meant}?"
            out = f", and zsched cancel-run --queue {quote(one.queue)} takes its runs out" if one.waiting else ""
            remedy = f"zsched set ID --queue {quote(one.meant)} corrects a schedule{out}; else"
            yield _about([one], said(text, remedy, *worker_of([one.queue])))
    if rest := [one for one in queues if not one.meant]:
        lost = "workers that ran when Redis lost its data are unknown until they take a job: restart them, or "
        remedy, worker = f"{lost if is_after_loss else ''}start one", worker_of([one.queue for one in rest])
        yield _about(rest, said(f"no worker listens to {_named(rest)}, {_use(rest)}", remedy, *worker))


def _about(queues: list[StalledQueue], finding: Finding) -> Finding:
    lists = (("zsched", "ls", "--queue", one.queue) for one in queues[:_NAMED])
    return replace(finding.about(*lists), queues=frozenset(one.queue for one in queues))


def _use(queues: list[StalledQueue]) -> str:
    return f"where {waiting_text(queues)}" if queues[0].waiting else "which schedules use"


def worker_of(queues: Sequence[str]) -> tuple[str, ...]:
    """Return the command of a worker for the first of *queues*; without any, for RQ's default."""
    return ("rq", "worker", *(queues[:_NAMED] or ["default"]))


def _named(queues: list[StalledQueue]) -> str:
    names = some([one.queue for one in queues])
    return f"queue {names}" if len(queues) == 1 else f"{len(queues)} queues ({names})"
